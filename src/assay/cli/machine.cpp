// assay machine: what this machine has, and how fast it reads, multiplies and wakes a thread at most.
#include <nlohmann/json.hpp>

#include "assay/backend/devices.h"
#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/machine/gpu_sensors.h"
#include "assay/machine/machine_json.h"
#include "assay/machine/machine_rooflines.h"
#include "assay/report/prose/prose.h"
#include "assay/report/table.h"
#include "assay/results/warning.h"

namespace assay::cli {

namespace {

using OrderedJson = nlohmann::ordered_json;

struct MachineFlags {
  std::int64_t threads = 0, largest = 1024;
  RunConfig config;  // `tune` of it
  OutputFlags output;
};

OrderedJson json_of(const GpuRooflines& gpu) {
  OrderedJson products = OrderedJson::array();
  for (const GpuRooflines::Product& product : gpu.products)
    products.push_back({{"kind", product.kind}, {"gflops", product.operations_per_second / 1e9}});
  OrderedJson json = {{"device", gpu.device},
                      {"name", gpu.name},
                      {"kernels", gpu.kernels},
                      {"bus_id", gpu.bus_id},
                      {"processors", gpu.processors},
                      {"memory_bytes", gpu.memory.value},
                      {"l2_bytes", gpu.l2.value},
                      {"memory_read_gb_per_s", gpu.memory_bytes_per_second / 1e9},
                      {"l2_read_gb_per_s", gpu.l2_bytes_per_second / 1e9},
                      {"products", products},
                      {"launch_us", gpu.launch.value * 1e6},
                      {"graph_node_us", gpu.graph_node.value * 1e6}};
  json["launches"] = OrderedJson::array();
  for (const GpuRooflines::Launch& launch : gpu.launches)
    json["launches"].push_back(
        {{"product", launch.product}, {"chosen", launch.chosen}, {"gain", launch.gain}});
  std::string why_not;
  const auto sensors = open_nvml(gpu.bus_id, why_not);
  if (sensors == nullptr) {
    json["sensors_why_not"] = why_not;
    return json;
  }
  const GpuIdentity identity = sensors->identity();
  const GpuReading reading = sensors->read();
  json["driver"] = identity.driver;
  json["most_sm_mhz"] = identity.most_sm_mhz;
  json["power_limit_watts"] = identity.power_limit_watts;
  json["sm_mhz"] = reading.sm_mhz;
  json["memory_mhz"] = reading.memory_mhz;
  json["watts"] = reading.watts;
  json["celsius"] = reading.celsius;
  json["is_slowed_by_heat"] = reading.is_slowed_by_heat;
  json["is_slowed_by_power"] = reading.is_slowed_by_power;
  json["joules"] = reading.joules ? OrderedJson(*reading.joules) : OrderedJson(nullptr);
  json["other_processes"] = other_processes(*sensors).size();
  return json;
}

// How many multiplications were tuned on a GPU, and those that are faster than by the usual launch.
std::string launches_text(const std::vector<GpuRooflines::Launch>& launches) {
  if (launches.empty())
    return fmt::format("{:<24}{}\n", "  tuning", "none: launches are measured when a model is loaded");
  const auto is_other = [](const GpuRooflines::Launch& launch) { return launch.gain > 1; };
  std::string text =
      fmt::format("{:<24}{} matrix multiplications measured, {} faster than as usual\n", "  tuning",
                  launches.size(), std::count_if(launches.begin(), launches.end(), is_other));
  for (const GpuRooflines::Launch& launch : launches)
    if (is_other(launch))
      text += fmt::format("{:<24}{}: {}, {:.2f}x as fast\n", "", launch.product, launch.chosen, launch.gain);
  return text;
}

// Each GPU in lines, or why there is none.
std::string gpus_text(const std::vector<GpuRooflines>& gpus) {
  std::string text;
  const auto line = [&](const std::string& name, const std::string& value) {
    text += fmt::format("{:<24}{}\n", name, value);
  };
  if (gpus.empty()) line("GPU", "none is usable: " + why_no_gpu().value_or(""));
  for (const GpuRooflines& gpu : gpus) {
    line(gpu.device, fmt::format("{}, {}, {} SMs, {:.0f} MiB, L2 cache {:.0f} MiB", gpu.name, gpu.kernels,
                                 gpu.processors, gpu.memory.megabytes(), gpu.l2.megabytes()));
    line("  read memory, L2", fmt::format("{:.0f}, {:.0f} GB/s", gpu.memory_bytes_per_second / 1e9,
                                          gpu.l2_bytes_per_second / 1e9));
    for (const GpuRooflines::Product& product : gpu.products)
      line(fmt::format("  {}", product.kind),
           fmt::format("{:.0f} GFLOP/s", product.operations_per_second / 1e9));
    line("  launch, graph node",
         fmt::format("{:.2f}, {:.2f} us", gpu.launch.value * 1e6, gpu.graph_node.value * 1e6));
    text += launches_text(gpu.launches);
    std::string why_not;
    const auto sensors = open_nvml(gpu.bus_id, why_not);
    if (sensors == nullptr) {
      line("  sensors", "none: " + why_not);
      continue;
    }
    const GpuReading reading = sensors->read();
    line("  now", fmt::format("{:.0f} MHz, {:.0f} W, {:.0f} C, driver {}", reading.sm_mhz, reading.watts,
                              reading.celsius, sensors->identity().driver));
    if (const auto others = other_processes(*sensors); !others.empty())
      line("  warning", report::sentence_of({WarningKind::gpu_shared,
                                             fmt::format("{} other process{} on this GPU", others.size(),
                                                         others.size() == 1 ? " is" : "es are")}));
  }
  return text;
}

// What was chosen for this processor, and what that gains.
std::string tuning_text(const Tuning& tuning) {
  const KernelConstants usual = usual_constants();
  const std::string gain =
      tuning.constants == usual
          ? std::string("as usual for this maker") +
                (tuning.is_measured    ? ": the others that were measured are no faster"
                 : tuning.is_disturbed ? ", not measured: other programs ran on the same processors"
                                       : ", not measured")
          : fmt::format(
                "matrix multiplications of a single row {:.2f}x (GGUF's {:.2f}x), of 512 rows {:.2f}x as "
                "fast as with "
                "{}",
                tuning.gain, tuning.grouped_gain, tuning.many_rows_gain, text_of(usual));
  return fmt::format("{:<24}{}\n{:<24}{}\n", "tuning", text_of(tuning.constants), "", gain);
}

OrderedJson json_of(const Tuning& tuning) {
  const WeightFetch &fetch = tuning.constants.fetch, &grouped = tuning.constants.grouped_fetch;
  return {{"distance_bytes", fetch.distance},
          {"most_bytes", fetch.most},
          {"cache_level", fetch.is_to_second_level ? 2 : 1},
          {"grouped_distance_bytes", grouped.distance},
          {"grouped_most_bytes", grouped.most},
          {"grouped_cache_level", grouped.is_to_second_level ? 2 : 1},
          {"rows_per_share", tuning.constants.share_rows},
          {"is_measured", tuning.is_measured},
          {"is_usual", tuning.constants == usual_constants()},
          {"gain", tuning.gain},
          {"grouped_gain", tuning.grouped_gain},
          {"many_rows_gain", tuning.many_rows_gain}};
}

OrderedJson json_of(const Machine& machine, const MachineRooflines& peaks, const Tuning& tuning,
                    const std::vector<GpuRooflines>& gpus) {
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
  json["tuning"] = json_of(tuning);
  json["phase_round_trip_us"] = peaks.phase_round_trip.value * 1e6;
  json["gpus"] = OrderedJson::array();
  for (const GpuRooflines& gpu : gpus) json["gpus"].push_back(json_of(gpu));
  if (gpus.empty()) json["why_no_gpu"] = why_no_gpu().value_or("");
  return json;
}

std::string size_text(Bytes bytes) {
  if (bytes.value == 0) return "unknown";
  if (bytes.megabytes() < 1) return fmt::format("{} KB", bytes.value / 1024);
  return fmt::format("{:.0f} MiB", bytes.megabytes());
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
  line("cores", cores_text(m));
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
report::Table read_table(const MachineRooflines& peaks) {
  report::Table table{{"Read (GB/s), threads x streams"}, {false}, {}};
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

report::Table product_table(const MachineRooflines& peaks) {
  report::Table table{{"Multiply-add (GFLOP/s; integers: GOP/s)"}, {false}, {}};
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
  const int threads = flags.threads == 0 ? default_thread_count() : static_cast<int>(flags.threads);
  const Tuning tuning = tuning_of_processor(flags.config.tune, threads);
  RooflineOptions options;
  options.threads = static_cast<int>(flags.threads);
  std::erase_if(options.working_sets, [&](Bytes set) { return set.value > flags.largest << 20; });
  options.on_progress = [&](const std::string& now) { progress.show(now); };
  options.should_stop = is_interrupted;
  const MachineRooflines peaks = measure_rooflines(options);
  const std::vector<GpuRooflines> gpus = measure_gpu_rooflines(options.each, options.on_progress);
  progress.clear();
  if (flags.output.is_json) {
    answer_json("machine", json_of(machine, peaks, tuning, gpus));
    return 0;
  }
  answer(facts_text(machine) + "\n" + report::to_text(read_table(peaks), table_width()) + "\n" +
         report::to_text(product_table(peaks), table_width()) +
         fmt::format("\n{:<24}{:.2f} us, {} thread{}\n", "thread pool round trip",
                     peaks.phase_round_trip.value * 1e6, peaks.threads, peaks.threads == 1 ? "" : "s") +
         tuning_text(tuning) + "\n" + gpus_text(gpus));
  if (!flags.output.is_quiet)
    for (const Bytes skipped : peaks.skipped)
      note(fmt::format("reading {} was left out: it is more than a quarter of the available memory",
                       size_text(skipped)));
  return 0;
}

}  // namespace

void add_machine(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<MachineFlags>();
  CLI::App* command = app.add_subcommand(
      "machine",
      "Show the machine's processor, memory and GPUs, and measure their rooflines in a few seconds");
  add_whole(
      *command, "-t,--threads", flags->threads,
      "Number of threads to measure with, besides a single one [one for each core this process may use]", 1,
      1024);
  add_whole(*command, "--largest", flags->largest, "Largest working set to read, in MiB [1024]", 1, 1024);
  add_field(*command, field("tune"), flags->config);
  flags->output.add_to(*command);
  command->footer("Example: assay machine --json");
  command->callback([flags, &exit_code] { exit_code = run_machine(*flags); });
}

}  // namespace assay::cli
