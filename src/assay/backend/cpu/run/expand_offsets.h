// 4-bit codes with zero points, minima or permuted inputs to weights, on any processor.
#pragma once

#include "assay/backend/cpu/kernels/kernels.h"

namespace assay::cpu {

// As KernelTable::expand, but book[code] * scale + offset. Offsets lie as scales do, from the first panel on;
// null: 0. Where groups are given, [k_padded], they say which scale and offset an input has.
void expand_offsets(const ExpandArgs& args, const float* offsets, const std::int32_t* input_groups);

}  // namespace assay::cpu
