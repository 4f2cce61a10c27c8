// The part of the catalogue that holds the metrics of tasks.
#pragma once

#include <span>

#include "assay/results/metric.h"

namespace assay {

std::span<const Metric> task_metrics();

}  // namespace assay
