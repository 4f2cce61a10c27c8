// What the kernels of many rows are given, and the kernels of Hopper's warpgroups.
#pragma once

#include <cstdint>

#include "assay/backend/cuda/kernels/int8_args.h"
#include "assay/backend/cuda/runtime.h"

namespace assay::cuda {

// What the kernels of many rows are given, which run() makes of the arguments of multiplications. x: rows of
// codes, or of inputs that round_inputs made, x_stride bytes apart. ranges: of the 8 ranges of the inputs,
// those that a block takes: all, or one whose sums go to partial [8][rows][outputs].
struct RoundArgs {
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0, rows = 0, inputs = 0;
  Arithmetic arithmetic = Arithmetic::bfloat16;
  DevicePointer<std::byte> out = {};
  std::int64_t out_stride = 0;  // bytes
};
struct GemmInputs {
  DevicePointer<const std::byte> x = {};
  std::int64_t x_stride = 0, rows = 0;
  Matrix weight = {};
  std::int32_t ranges = 8;
  DevicePointer<std::byte> partial = {};
};
struct GemmArgs {
  GemmInputs in = {};
  Epilogue to = {};
};
struct GemmInt8Args {
  GemmInputs in = {};
  LinearInt8Args linear = {};
};

// By Hopper's warpgroups one for each shape of their blocks (launch_warpgroups.h). Without an entry where the
// kernels were compiled for no GPU that has them.
inline constexpr int kWarpgroupShapes = 4;
struct WarpgroupKernels {
  Kernel<GemmArgs> float16[kWarpgroupShapes], bfloat16[kWarpgroupShapes];
  // 4-bit codes in groups of 64 inputs and more, and in smaller ones.
  Kernel<GemmArgs> wide_float16[kWarpgroupShapes], wide_bfloat16[kWarpgroupShapes];
  Kernel<GemmArgs> narrow_float16[kWarpgroupShapes], narrow_bfloat16[kWarpgroupShapes];
  Kernel<GemmInt8Args> int8[kWarpgroupShapes];
};

}  // namespace assay::cuda
