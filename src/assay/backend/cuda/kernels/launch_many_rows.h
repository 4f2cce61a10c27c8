// Operations of many rows that have a kernel of their own, which reads 16 bytes at a time
// (kernels/many_rows.cuh).
#pragma once

#include "assay/backend/cuda/kernels/kernels.h"

namespace assay::cuda {

// False, and nothing is done, for few rows, and rows that do not begin and step at multiples of 16 bytes; of
// the second also for int8 caches, and heads that are turned in part or are no multiple of 8 elements. The
// bits are those of the kernels for few rows.
bool gate_many(Runtime& runtime, const GatedArgs& args);
bool rotate_and_store_many(Runtime& runtime, const RotateStoreArgs& args);

}  // namespace assay::cuda
