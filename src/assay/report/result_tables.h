// Tables of a result set.
#pragma once

#include <span>
#include <string>

#include "assay/report/prose/prose.h"
#include "assay/report/table.h"
#include "assay/results/results.h"

namespace assay::report {

// The rows of one scenario with the columns that matter there: the metrics whose entry names the scenario
// (results/metric.h) and that some row has, with the digits that their intervals support (digits.h), an
// interval in a column of its own, and the verdict of the comparison with the scenario's baseline: of latency
// with the ratio, and `detail` of its interval. A failed row has "failed" beside its label and no figures.
Table scenario_table(const ResultSet& results, Scenario scenario, Detail detail = Detail::ends);
// The same rows with every metric that one of them has.
Table every_metric_table(const ResultSet& results, Scenario scenario);

// All rows in one table, by scenario, with the metrics of the scenarios' tables; a failed row shows its
// reason. Perplexities that a row of the trade-off shows have no row of their own.
Table build_results_table(const ResultSet& results);
// The trade-off experiment with the columns Float Precision, Memory (MB), Avg Latency (s), and one for the
// text of each prompt; a configuration that failed has Error in each, and its reason in the first text.
Table tradeoff_table(const ResultSet& results);

// Whether a comparison is the row's: rows of several scenarios have one name. A comparison that an earlier
// version wrote names no scenario, and those of perplexity are another scenario's than the trade-off.
bool is_of(const Comparison& c, const Row& row, const ResultSet& results);

// Series for plots are no rows of a table, nor are rows that repeat what others show.
bool is_shown(const Row& row, const ResultSet& results);

}  // namespace assay::report
