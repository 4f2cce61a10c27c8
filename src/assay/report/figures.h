// Which plots a result set gives: those whose rows it has.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "assay/report/plot.h"
#include "assay/results/results.h"

namespace assay::report {

// File names without an ending ("latency_by_length"), and plots: latency and tokens/s against prompt tokens,
// step time against position with the cache on and off, memory, latency and perplexity by precision,
// throughput and step latency by batch size; then those of configuration_figures.h.
std::vector<std::pair<std::string, Plot>> figures_of(const ResultSet& results);

}  // namespace assay::report
