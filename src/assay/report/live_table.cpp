#include "assay/report/live_table.h"

#include <algorithm>
#include <cmath>

#include "assay/base/format.h"
#include "assay/report/digits.h"
#include "assay/report/prose/prose.h"
#include "assay/report/table.h"
#include "assay/report/text_layout.h"
#include "assay/results/judge.h"

namespace assay::report {

namespace {

constexpr double kMargin = 0.02;
constexpr std::size_t kLongestLiveName = 60, kRatioColumn = 4;

std::vector<double> seconds_of(const LiveCase& c) {
  std::vector<double> all;
  for (const auto& [place, seconds] : c.seconds) all.push_back(seconds);
  return all;
}

Value value_of(const LiveCase& c) {
  std::vector<SampleId> places;
  for (const auto& [place, seconds] : c.seconds) places.push_back(place);
  return value_of_processes(seconds_of(c), places);
}

// The case against the first of its study, in the rounds that hold both.
std::optional<Comparison> comparison_of(const LiveCase& c, const LiveCase& base) {
  std::map<int, std::vector<double>> by_process;
  for (const auto& [place, seconds] : c.seconds)
    if (const auto other = base.seconds.find(place);
        other != base.seconds.end() && seconds > 0 && other->second > 0)
      by_process[place.process].push_back(std::log(seconds / other->second));
  if (by_process.empty()) return std::nullopt;
  std::vector<std::vector<double>> ratios;
  for (auto& [process, own] : by_process) ratios.push_back(std::move(own));
  Comparison comparison = compare_processes(ratios, kMargin);
  comparison.metric = "total_latency_s";
  return comparison;
}

// "(faster 1.59x)": in brackets, because too few processes have no verdict.
std::string factor_so_far(const Comparison& comparison) {
  const Factor factor = shown_factor(comparison);
  return fmt::format("({} {}x)", factor.is_faster ? "faster" : "slower",
                     shown_number(factor.value, factor.interval));
}

// By case; the levels are corrected over the study.
std::vector<std::string> verdicts_so_far(const std::vector<LiveCase>& cases) {
  std::vector<std::string> cells(cases.size(), "-");
  std::vector<Comparison> comparisons;
  std::vector<std::size_t> rows;
  for (std::size_t i = 1; i < cases.size(); ++i)
    if (auto comparison = comparison_of(cases[i], cases.front())) {
      comparisons.push_back(std::move(*comparison));
      rows.push_back(i);
    }
  std::vector<Comparison*> all;
  for (Comparison& comparison : comparisons) all.push_back(&comparison);
  judge(all, Planning::left_out);
  for (std::size_t i = 0; i < rows.size(); ++i)
    cells[rows[i]] = comparisons[i].verdict == Verdict::too_few ? factor_so_far(comparisons[i])
                                                                : verdict_cell(comparisons[i]);
  return cells;
}

std::vector<std::string> row_of(const std::string& study, const LiveCase& c, const std::string& verdict) {
  std::vector<std::string> row = {study, one_line(c.label, kLongestLiveName)};
  if (!c.reason.empty()) {
    row.insert(row.end(), {"failed", "-", "-", std::to_string(c.seconds.size())});
    return row;
  }
  const Value value = c.seconds.empty() ? Value{c.first_s, {}, {}} : value_of(c);
  std::string interval = "-";
  if (value.interval && value.value > 0)
    interval = fmt::format("\u00b1{:.1f}%", 50 * (value.interval->high - value.interval->low) / value.value);
  row.insert(row.end(),
             {plain_number(1e3 * value.value), interval, verdict, std::to_string(c.seconds.size())});
  return row;
}

}  // namespace

LiveTable::Study& LiveTable::study(const std::string& name) {
  const auto at =
      std::find_if(studies_.begin(), studies_.end(), [&](const Study& s) { return s.name == name; });
  return at != studies_.end() ? *at : studies_.emplace_back(Study{name, {}, {}});
}

LiveCase& LiveTable::at(const std::string& name, const std::string& key) {
  Study& own = study(name);
  const auto at = std::find(own.keys.begin(), own.keys.end(), key);
  if (at != own.keys.end()) return own.cases[static_cast<std::size_t>(at - own.keys.begin())];
  own.keys.push_back(key);
  return own.cases.emplace_back();
}

std::vector<std::string> LiveTable::lines(std::size_t width, std::size_t most) const {
  Table table{{"Study", "Case", "Latency (ms)", "95 % CI", "Paired ratio", "Runs"},
              {false, false, true, true, false, true},
              {},
              {1, 0, 0, 3, 2, 4}};
  for (const Study& own : studies_) {
    const std::vector<std::string> verdicts = verdicts_so_far(own.cases);
    for (std::size_t i = 0; i < own.cases.size(); ++i)
      table.rows.push_back(row_of(own.name, own.cases[i], verdicts[i]));
  }
  const std::size_t all = table.rows.size(), kept = std::min(all, most);
  table.rows.erase(table.rows.begin(), table.rows.end() - static_cast<std::ptrdiff_t>(kept));
  std::vector<std::string> lines;
  if (kept == 0) return lines;
  const std::string text = to_text(table, width);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (kept < all)
    lines.push_back(fmt::format("{} above these.", counted(static_cast<std::int64_t>(all - kept), "case")));
  const bool has_ratios = std::any_of(table.rows.begin(), table.rows.end(),
                                      [](const auto& row) { return row[kRatioColumn] != "-"; });
  // Latencies are of all runs and a ratio of pairs of runs, so that one does not follow from the other.
  if (has_ratios)
    lines.emplace_back(
        "Paired ratio: to the first case of the study, process by process, of the rounds that hold both.");
  return lines;
}

}  // namespace assay::report
