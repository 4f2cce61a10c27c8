// Plots that compare configurations, each with sentences that say what it shows.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "assay/report/plot.h"
#include "assay/results/results.h"

namespace assay::report {

// As figures_of(). The first one, where there is a trade-off, is its Pareto frontier: quality against memory,
// then against decode latency; latency against memory where no quality was measured.
std::vector<std::pair<std::string, Plot>> frontier_figures(const ResultSet& results);
// Each configuration beside the roofline; memory by cause; the distribution of decode steps; prefill and
// decode of the baseline to scale.
std::vector<std::pair<std::string, Plot>> configuration_figures(const ResultSet& results);

}  // namespace assay::report
