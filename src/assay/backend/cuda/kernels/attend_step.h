// Attention of decode steps: what rotate_and_store and attention do for one new row of each sequence, in one
// kernel where the cache and the device allow it (kernels/attend_step.cuh).
#pragma once

#include "assay/backend/cuda/kernels/kernels.h"

namespace assay::cuda {

// `rotate` (without pairs: nothing is turned) of the queries of `attend` and the keys of `store`, which stand
// side by side, `store` of keys and values, then `attend`. Rows are of different sequences, and every row's
// keys but its own have been in the cache since before the kernel in front began, as have cosines and sines.
// Whether the queries and keys that were given are turned in place is undefined.
struct AttendStepArgs {
  RotateArgs rotate = {};
  StoreArgs store = {};
  AttendArgs attend = {};
  DevicePointer<std::uint32_t> counters = {};  // [rows * heads], 0 before and after
  bool merges = true;                          // chunks, as its last block ends; run() decides
};

// Chunks of a row that the attention kernel merges itself; those of more keys take a kernel of their own.
inline constexpr std::int64_t kMergedByStep = 8;

// Whether one kernel does it: over float16 and bfloat16, heads of 64 to 128 elements, a multiple of 4. The
// others take the kernels of many rows, whose bits are the same.
bool has_step_kernel(const CacheLayout& cache, std::int64_t shared_bytes_per_block);

void run(Runtime& runtime, const AttendStepArgs& args);

}  // namespace assay::cuda
