// What was asked, of which machine, by which definitions, and with which settings.
#include <algorithm>
#include <set>

#include "assay/base/format.h"
#include "assay/report/figure_points.h"
#include "assay/report/html/markup.h"
#include "assay/report/prose/prose.h"
#include "assay/report/result_tables.h"
#include "assay/report/table.h"
#include "assay/results/metric.h"

namespace assay::report {

namespace {

using Facts = std::vector<std::pair<std::string, std::string>>;

std::string model_text(const ResultSet& results) {
  const ModelFacts& model = results.model;
  std::string text = one_line(model.id, 200);
  if (model.parameters > 0) text += fmt::format(", {} parameters", with_commas(model.parameters));
  if (!model.dtype.empty()) text += fmt::format(", computed in {}", model.dtype);
  for (const OtherModel& other : results.other_models) text += "; " + one_line(other.name, 200);
  return text;
}

std::string machine_text(const Machine& machine) {
  std::string text = machine.cpu;
  if (machine.cores > 0) text += fmt::format(", {}", counted(machine.cores, "core"));
  if (machine.memory.value > 0)
    text += fmt::format(", {:.0f} GiB of memory", machine.memory.megabytes() / 1024);
  return text;
}

// Which configurations, and how many cases of which studies.
std::string compared_text(const ResultSet& results) {
  std::vector<std::string> configurations;
  std::vector<std::string> studies;
  std::int64_t cases = 0;
  for (const Row& row : results.rows) {
    if (!is_shown(row, results)) continue;
    ++cases;
    const std::string name = one_line(row.parameter("configuration"), 60);
    if (!name.empty() &&
        std::find(configurations.begin(), configurations.end(), name) == configurations.end())
      configurations.push_back(name);
    const std::string study(info_of(row.scenario).title);
    if (std::find(studies.begin(), studies.end(), study) == studies.end()) studies.push_back(study);
  }
  if (cases == 0) return "nothing";
  std::string text = counted(cases, "case");
  if (!studies.empty()) text += fmt::format(" of {}", counted(std::ssize(studies), "scenario"));
  if (!configurations.empty())
    text +=
        fmt::format("; {}: {}", counted(std::ssize(configurations), "configuration"), joined(configurations));
  return text;
}

}  // namespace

std::string facts_part(const ResultSet& results) {
  Facts facts = {{"Model", model_text(results)},
                 {"Machine", machine_text(results.machine)},
                 {"Compared", compared_text(results)},
                 {"Measured", results.created}};
  if (results.status == RunStatus::interrupted)
    facts.emplace_back("Status", std::string(entry_of(run_statuses(), results.status).text));
  return html_facts(facts);
}

std::string metrics_part(const ResultSet& results) {
  Table table{{"Metric", "Unit", "Better", "Definition"}, {false, false, false, false}, {}};
  for (const Metric& m : metric_catalogue()) {
    const bool is_used = std::any_of(results.rows.begin(), results.rows.end(),
                                     [&](const Row& row) { return row.find(m.tag) != nullptr; });
    if (!is_used) continue;
    constexpr const char* kBetter[] = {"lower", "higher", "neither"};
    table.rows.push_back({std::string(m.title), std::string(m.shown_unit.empty() ? m.unit : m.shown_unit),
                          kBetter[static_cast<std::size_t>(m.better)], std::string(m.definition)});
  }
  if (table.rows.empty()) return "";
  return html_paragraph(
             "What each figure is, and where its clock starts and stops. Times are read from a monotonic "
             "clock, "
             "with the device synchronized before each reading.") +
         html_table(table, "Definitions of the metrics");
}

std::string machine_part(const ResultSet& results) {
  const Machine& machine = results.machine;
  const auto number = [](std::int64_t value) { return value > 0 ? std::to_string(value) : std::string(); };
  Facts facts = {
      {"Processor", machine.cpu},
      {"Cores", machine.cores > 0 ? cores_text(machine) : ""},
      {"Processors allowed", number(machine.processors_allowed)},
      {"Memory", machine.memory.value > 0 ? shown_mebibytes(static_cast<double>(machine.memory.value)) : ""},
      {"NUMA nodes", number(machine.numa_nodes)},
      {"System", machine.system},
      {"Frequency governor", machine.frequency_governor},
      {"Transparent huge pages", machine.transparent_huge_pages}};
  std::string sets;
  for (const InstructionSet& set : machine.instruction_sets)
    if (set.why_not.empty()) sets += (sets.empty() ? "" : ", ") + set.name;
  facts.emplace_back("Instruction sets", sets);
  std::string text = html_facts(facts);
  constexpr std::string_view kTags[] = {"roofline_gb_s", "achieved_gb_s", "roofline_gflops",
                                        "achieved_gflops", "percent_of_roofline"};
  Table table{{"Configuration"}, {false}, {}};
  for (const std::string_view tag : kTags) table.add_column(metric(tag).column_head(), true);
  for (const Row* row : rows_with(results, Scenario::tradeoff, kTags[0])) {
    std::vector<std::string> line = {one_line(row->label, 120)};
    for (const std::string_view tag : kTags) {
      const Value* value = row->find(tag);
      line.push_back(value == nullptr ? "-" : fmt::format("{:.1f}", value->value * metric(tag).scale));
    }
    table.rows.push_back(std::move(line));
  }
  if (!table.rows.empty())
    text += html_heading(3, "Rooflines") +
            html_paragraph(
                "What this machine reads and computes at most, measured on the same threads between the "
                "runs, beside what each configuration attained.") +
            html_table(table, "Rooflines");
  return text;
}

std::string settings_part(const ResultSet& results) {
  std::string text = html_facts({{"Command", results.command},
                                 {"Program", fmt::format("Assay {}, {}, {}", results.build.version,
                                                         results.build.compiler, results.build.type)},
                                 {"Run", results.run_id},
                                 {"SHA-256 of the model", results.model.sha256}});
  if (!results.configuration.empty()) {
    Table table{{"Setting", "Value"}, {false, false}, {}};
    for (const auto& [key, value] : results.configuration) table.rows.push_back({key, value});
    text +=
        "<details>\n<summary>All settings</summary>\n" + html_table(table, "All settings") + "</details>\n";
  }
  return text +
         "<p id=\"download\">results.json, which stands beside this page, holds every figure, sample and "
         "text. "
         "</p>\n";
}

}  // namespace assay::report
