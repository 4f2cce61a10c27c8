// Multiplications of many rows by Hopper's warpgroups: whether they can be, and the blocks they take.
#pragma once

#include "assay/backend/cuda/kernels/kernels.h"

namespace assay::cuda {

// A block's outputs and rows, and which of the kernels has them.
struct WarpgroupShape {
  int index = 0;
  std::int64_t outputs = 0, rows = 0;
};
inline constexpr WarpgroupShape kWarpgroupBlocks[kWarpgroupShapes] = {
    {0, 128, 256}, {1, 128, 128}, {2, 64, 128}, {3, 64, 64}};
// The one that is expected to be the fastest.
WarpgroupShape warpgroup_shape(std::int64_t rows, std::int64_t outputs, int processors);

// Whether the device is of compute capability 9.0 and the kernels were compiled for it.
bool has_warpgroups(const Runtime& runtime);
// float16 and bfloat16, int8, and 4-bit codes that become float16 or bfloat16, in groups of 16 inputs and
// more without offsets.
bool takes_warpgroups(MatrixFormat format, Arithmetic arithmetic, std::int64_t group, bool has_offsets);

// False, and nothing is done, for what they do not take: other formats and devices, few rows, rows that are
// left in order, scratch that is too small.
bool multiply_by_warpgroups(Runtime& runtime, const LinearArgs& args, const LaunchChoice& choice = {});
bool multiply_by_warpgroups(Runtime& runtime, const LinearInt8Args& args, const LaunchChoice& choice = {});

}  // namespace assay::cuda
