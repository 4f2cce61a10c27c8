// How values of rows become points of plots.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "assay/report/plot.h"
#include "assay/report/table.h"
#include "assay/results/metric.h"
#include "assay/results/results.h"

namespace assay::report {

// "12.3 ms [12.1, 12.6], n = 9": the figure as people see it.
std::string shown_value(const Value& value, const Metric& metric);
// The index of a row in its result set; -1 where it is of another.
int index_of(const ResultSet& results, const Row& row);
// The value across and up, with its interval, and a tooltip that names the row.
PlotPoint point_of(const ResultSet& results, const Row& row, double x, const Value& value,
                   const Metric& metric);
// The finished rows of a scenario that have a value.
std::vector<const Row*> rows_with(const ResultSet& results, Scenario scenario, std::string_view tag);

}  // namespace assay::report
