// The figures of a row of `assay bench`, apart from measuring.
#pragma once

#include <span>

#include "assay/plan/cost.h"
#include "assay/studies/bench.h"

namespace assay {

// The figures of a row that follow from its samples and from what a repeat must read and compute.
void set_speed(BenchRow& row, const Cost& cost);
// And those that follow from what probes reached, in bytes and operations per second, between the repeats; a
// median of 0 is not known.
void set_roofline(BenchRow& row, const Cost& cost, std::span<const double> reading,
                  std::span<const double> computing);

}  // namespace assay
