// The figures of a test of `assay bench`, apart from measuring.
#pragma once

#include <span>

#include "assay/plan/cost.h"
#include "assay/results/results.h"
#include "assay/studies/bench.h"

namespace assay {

// The figures of a row that follow from its samples and from what a repeat must read and compute.
void set_speed(BenchRow& row, const Cost& cost);
// And those that follow from what probes reached, in bytes and operations per second, between the repeats; a
// median of 0 is not known.
void set_roofline(BenchRow& row, const Cost& cost, std::span<const double> reading,
                  std::span<const double> computing);

// The same figures of a row of the result, which has the samples, and what one run had to read and compute as
// `bytes_per_token` and `flops_per_token`.
BenchRow figures_of(const Row& row);
// Writes the figures into the row, and leaves out what says nothing about a test: the parts of a generation,
// and that one process is too few to compare.
void set_figures(Row& row, const BenchRow& figures);

}  // namespace assay
