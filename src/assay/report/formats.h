// Results in the formats that other tools read.
#pragma once

#include <string>

#include "assay/report/document.h"
#include "assay/results/metric.h"
#include "assay/results/results.h"

namespace assay::report {

// GitHub's Markdown for a job summary or a comment: the answer, one table, the takeaways, and everything else
// folded. It refers to no file. GitHub takes 1 MiB of a step; sections beyond that are named and left out.
inline constexpr std::size_t kMostOfASummary = 1'000'000;
std::string to_github(const Document& document, const ResultSet& results);

// JSON as github-action-benchmark reads it for its tools customSmallerIsBetter (Better::lower) and
// customBiggerIsBetter (Better::higher): an array of {"name", "unit", "value", "range", "extra"}, an entry
// for each figure of the short tables whose metric has this direction. Names are equal from run to run.
std::string to_benchmark_action(const ResultSet& results, Better better);

// The OpenMetrics text format, version 1.0: a gauge for each metric in base units (seconds, bytes), and
// gauges named ..._ci_low and ..._ci_high for the ends of its 95 % interval.
std::string to_openmetrics(const ResultSet& results);

}  // namespace assay::report
