// The parts of which the catalogue of metric.h is made.
#pragma once

#include <span>

#include "assay/results/metric.h"

namespace assay {

// Divergence from a baseline, in the order of columns, which stand behind that of the perplexity ratio.
std::span<const Metric> quality_metrics();
// All others (metric.cpp).
std::span<const Metric> other_metrics();

}  // namespace assay
