// assay machine: what this machine has, and how fast it reads, multiplies and wakes a thread at most.
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/machine/machine_rooflines.h"
#include "assay/report/table.h"

namespace assay::cli {

namespace {

using OrderedJson = nlohmann::ordered_json;

struct MachineFlags {
  std::int64_t threads = 0, largest = 1024;
  OutputFlags output;
};

OrderedJson json_of(const Machine& machine, const MachineRooflines& peaks) {
  OrderedJson json = to_json(machine);
  const Build build = build_facts();
  json["build"] = {{"version", build.version}, {"compiler", build.compiler}, {"type", build.type}};
  json["threads"] = peaks.threads;
  json["read_bandwidth"] = OrderedJson::array();
  for (const ReadRoofline& read : peaks.reads)
    json["read_bandwidth"].push_back({{"working_set_bytes", read.working_set.value},
                                      {"threads", read.threads},
                                      {"streams", read.streams},
                                      {"gb_per_s", read.bytes_per_second / 1e9}});
  json["skipped_working_sets_bytes"] = OrderedJson::array();
  for (const Bytes skipped : peaks.skipped) json["skipped_working_sets_bytes"].push_back(skipped.value);
  json["products"] = OrderedJson::array();
  for (const ProductRoofline& product : peaks.products)
    json["products"].push_back({{"kind", name_of(product.kind)},
                                {"threads", product.threads},
                                {"gflops", product.operations_per_second / 1e9},
                                {"why_not", product.why_not}});
  json["phase_round_trip_us"] = peaks.phase_round_trip.value * 1e6;
  return json;
}

std::string size_text(Bytes bytes) {
  if (bytes.value == 0) return "unknown";
  if (bytes.megabytes() < 1) return fmt::format("{} KB", bytes.value / 1024);
  return fmt::format("{:.0f} MB", bytes.megabytes());
}

std::string limit_text(double limit, const std::string& text) {
  return limit > 0 ? text : "none";
}

std::string facts_text(const Machine& m) {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<24}{}\n", name, value);
  };
  line("processor", m.cpu);
  line("system", m.system);
  line("processors", fmt::format("{} online, {} allowed", m.processors_online, m.processors_allowed));
  line("CPU quota", limit_text(m.cgroup_cpu_quota, fmt::format("{:.2f} processors", m.cgroup_cpu_quota)));
  for (const InstructionSet& set : m.instruction_sets)
    line(("kernels " + set.name).c_str(), set.why_not.empty() ? "usable" : "not usable: " + set.why_not);
  line("features", fmt::format("{}", fmt::join(m.cpu_features, " ")));
  for (const CpuCache& cache : m.caches)
    line(fmt::format("cache L{} {}", cache.level, cache.kind).c_str(),
         size_text(cache.size) + (cache.processors.empty() ? "" : ", processors " + cache.processors));
  line("memory", size_text(m.memory) + ", available " + size_text(m.memory_available));
  line("memory limit",
       limit_text(static_cast<double>(m.cgroup_memory_limit.value), size_text(m.cgroup_memory_limit)));
  line("NUMA nodes", m.numa_nodes == 0 ? "unknown" : std::to_string(m.numa_nodes));
  line("transparent huge pages", m.transparent_huge_pages);
  line("frequency governor", m.frequency_governor);
  line("load, 1 minute", fmt::format("{:.2f}", m.load_1min));
  return text;
}

// A column for each pair of threads and streams, a line for each working set.
Table read_table(const MachineRooflines& peaks) {
  Table table{{"Read (GB/s), threads x streams"}, {false}, {}};
  for (const ReadRoofline& read : peaks.reads) {
    const std::string head = fmt::format("{} x {}", read.threads, read.streams);
    const std::string set = size_text(read.working_set);
    if (std::find(table.head.begin(), table.head.end(), head) == table.head.end()) {
      table.head.push_back(head);
      table.is_number.push_back(true);
    }
    auto row = std::find_if(table.rows.begin(), table.rows.end(), [&](const auto& r) { return r[0] == set; });
    if (row == table.rows.end()) row = table.rows.insert(row, {set});
    row->push_back(fmt::format("{:.1f}", read.bytes_per_second / 1e9));
  }
  return table;
}

Table product_table(const MachineRooflines& peaks) {
  Table table{{"Multiply-add (GFLOP/s, of integers GOP/s)"}, {false}, {}};
  for (const ProductRoofline& product : peaks.products) {
    const std::string head = fmt::format("{} thread{}", product.threads, product.threads == 1 ? "" : "s");
    const std::string kind(name_of(product.kind));
    if (std::find(table.head.begin(), table.head.end(), head) == table.head.end()) {
      table.head.push_back(head);
      table.is_number.push_back(true);
    }
    auto row =
        std::find_if(table.rows.begin(), table.rows.end(), [&](const auto& r) { return r[0] == kind; });
    if (row == table.rows.end()) row = table.rows.insert(row, {kind});
    row->push_back(product.why_not.empty() ? fmt::format("{:.0f}", product.operations_per_second / 1e9)
                                           : "-");
  }
  return table;
}

int run_machine(const MachineFlags& flags) {
  const Machine machine = read_machine();
  Progress progress(flags.output.shows_progress());
  RooflineOptions options;
  options.threads = static_cast<int>(flags.threads);
  std::erase_if(options.working_sets, [&](Bytes set) { return set.value > flags.largest << 20; });
  options.on_progress = [&](const std::string& now) { progress.show(now); };
  options.should_stop = is_interrupted;
  const MachineRooflines peaks = measure_rooflines(options);
  progress.clear();
  if (flags.output.is_json) {
    answer_json(json_of(machine, peaks));
    return 0;
  }
  answer(facts_text(machine) + "\n" + to_text(read_table(peaks), terminal_width()) + "\n" +
         to_text(product_table(peaks), terminal_width()) +
         fmt::format("\n{:<24}{:.2f} us, {} thread{}\n", "thread pool round trip",
                     peaks.phase_round_trip.value * 1e6, peaks.threads, peaks.threads == 1 ? "" : "s"));
  if (!flags.output.is_quiet)
    for (const Bytes skipped : peaks.skipped)
      note(fmt::format("reading {} was left out: it is more than a quarter of the memory at hand",
                       size_text(skipped)));
  return 0;
}

}  // namespace

void add_machine(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<MachineFlags>();
  CLI::App* command = app.add_subcommand(
      "machine", "Show the machine's processor and memory, and measure its rooflines in a few seconds");
  add_whole(*command, "-t,--threads", flags->threads,
            "Threads to measure with, beside a single one [the processors this process may use]", 1, 1024);
  add_whole(*command, "--largest", flags->largest, "Largest working set to read, in MB [1024]", 1, 1024);
  flags->output.add_to(*command);
  command->footer("Example: assay machine --json");
  command->callback([flags, &exit_code] { exit_code = run_machine(*flags); });
}

}  // namespace assay::cli
