#include "assay/report/figure_points.h"

#include <functional>

#include "assay/base/format.h"
#include "assay/report/digits.h"
#include "assay/report/table.h"

namespace assay::report {

std::string shown_value(const Value& value, const Metric& metric) {
  const std::string_view unit = metric.shown_unit.empty() ? metric.unit : metric.shown_unit;
  constexpr int kOtherwise = 4;
  const double shown = value.value * metric.scale;
  const Decimals decimals = decimals_of(metric, value, {});
  const auto number = [&](double x) {
    return is_bounded(metric, value) ? rounded(x, decimals) : shown_number(x, std::nullopt, kOtherwise);
  };
  std::string text = number(shown);
  if (!unit.empty()) text += fmt::format(" {}", unit);
  if (value.interval)
    text += fmt::format(" [{}, {}]", number(value.interval->low * metric.scale),
                        number(value.interval->high * metric.scale));
  if (!value.samples.empty()) text += fmt::format(", n = {}", value.n());
  return text;
}

int index_of(const ResultSet& results, const Row& row) {
  const Row *first = results.rows.data(), *last = first + results.rows.size();
  const bool is_own = std::greater_equal<>()(&row, first) && std::less<>()(&row, last);
  return is_own ? static_cast<int>(&row - first) : -1;
}

PlotPoint point_of(const ResultSet& results, const Row& row, double x, const Value& value,
                   const Metric& metric) {
  constexpr std::size_t kLongestLabel = 120;
  PlotPoint point{x, value.value * metric.scale};
  if (value.interval) {
    point.low = value.interval->low * metric.scale;
    point.high = value.interval->high * metric.scale;
  }
  point.text =
      fmt::format("{}: {} {}", one_line(row.label, kLongestLabel), metric.head, shown_value(value, metric));
  point.row = index_of(results, row);
  return point;
}

std::vector<const Row*> rows_with(const ResultSet& results, Scenario scenario, std::string_view tag) {
  std::vector<const Row*> rows;
  for (const Row& row : results.rows)
    if (row.scenario == scenario && row.status == RowStatus::ok && row.find(tag) != nullptr)
      rows.push_back(&row);
  return rows;
}

}  // namespace assay::report
