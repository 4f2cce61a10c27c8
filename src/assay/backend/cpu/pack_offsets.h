// What 4-bit formats have beside codes and scales: zero points, minima, and groups of permuted inputs.
#pragma once

#include "assay/backend/backend.h"
#include "assay/backend/cpu/pack.h"

namespace assay::cpu {

// Reads them of one tensor of a weight, where its format has them, and lays them out behind the scales.
// Throws Error where a group is none, or is another than that of a tensor before it in the same weight.
void place_offsets(PackedWeight& w, const TensorPart& tensor, const WeightSource& source);

}  // namespace assay::cpu
