// Results as JSON for github-action-benchmark.
#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "assay/base/format.h"
#include "assay/report/digits.h"
#include "assay/report/formats.h"
#include "assay/report/table.h"
#include "assay/results/scenario.h"

namespace assay::report {

namespace {

constexpr std::size_t kLongestActionName = 120;
constexpr int kDigitsShown = 6;

double with_shown_digits(double value) {
  return std::stod(fmt::format("{:.{}g}", value, kDigitsShown));
}

// The action shows it beside the value.
std::string range_of(const Metric& m, const Value& value) {
  return fmt::format("[{}, {}]", plain_number(value.interval->low * m.scale),
                     plain_number(value.interval->high * m.scale));
}

// Lines of the tooltip: what the figure rests on.
std::string extra_of(const ResultSet& results, const Row& row, const Value& value) {
  std::vector<std::string> lines = {"model: " + one_line(results.model.id, kLongestActionName)};
  if (!row.parameter("configuration").empty())
    lines.push_back("configuration: " + one_line(row.parameter("configuration"), kLongestActionName));
  if (!value.samples.empty())
    lines.push_back(
        fmt::format("{} in {}", counted(value.n(), "run"),
                    row.processes() == 1 ? "1 process" : fmt::format("{} processes", row.processes())));
  if (!results.machine.cpu.empty())
    lines.push_back("processor: " + one_line(results.machine.cpu, kLongestActionName));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace

std::string to_benchmark_action(const ResultSet& results, Better better) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::set<std::string> names;  // the action finds a figure's history by its name
  for (const Row& row : results.rows)
    for (const Metric& m : metric_catalogue()) {
      const Value* value = row.find(m.tag);
      if (m.better != better || value == nullptr || !m.tables.has(row.scenario)) continue;
      if (!std::isfinite(value->value)) continue;  // JSON has no word for it
      const std::string name = fmt::format("{} / {} / {}", info_of(row.scenario).title,
                                           one_line(row.label, kLongestActionName), m.title);
      if (!names.insert(name).second) continue;
      nlohmann::ordered_json entry{{"name", name},
                                   {"unit", m.shown_unit.empty() ? m.unit : m.shown_unit},
                                   {"value", with_shown_digits(value->value * m.scale)}};
      if (value->interval) entry["range"] = range_of(m, *value);
      entry["extra"] = extra_of(results, row, *value);
      all.push_back(std::move(entry));
    }
  return all.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace assay::report
