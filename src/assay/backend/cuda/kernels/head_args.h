// What kernels make of the logits of the LM head, [rows][n], rows a stride apart.
#pragma once

#include <cstdint>

#include "assay/backend/cuda/runtime.h"
#include "assay/backend/head.h"

namespace assay::cuda {

// out[row] = which of n is highest, the lowest of equals; -1 where one is NaN or the highest infinite.
struct ArgmaxArgs {
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0, rows = 0, n = 0;
  DevicePointer<std::int32_t> out = {};
};

// out[row] = x[row][targets[row]] - log(sum(exp(x[row]))), in double; NaN where argmax gives -1.
struct LogProbabilityArgs {
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0, rows = 0, n = 0;
  DevicePointer<const std::int32_t> targets = {};
  DevicePointer<double> out = {};
};

// The highest of n logits of each row by many blocks: keys[row] = the largest of ordered bits << 32 | ~index,
// and all ones where one is NaN. keys are 0 before it; NextTokenArgs sets them to 0 again.
struct BestKeyArgs {
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0, rows = 0, n = 0;
  DevicePointer<std::uint64_t> keys = {};  // [rows]
};

// out[row][slice] = what a divergence takes from the slices of n logits, beside those of a baseline where
// there are any. exp() is taken in float32, sums are double, and their order depends on n alone.
struct ReduceSlicesArgs {
  DevicePointer<const float> x = {}, base = {};  // base may be null
  std::int64_t x_stride = 0, base_stride = 0, rows = 0, n = 0;
  DevicePointer<const std::int32_t> targets = {};  // [rows]
  DevicePointer<RowSlice> out = {};
};

void run(Runtime& runtime, const ArgmaxArgs& args);
void run(Runtime& runtime, const LogProbabilityArgs& args);
void run(Runtime& runtime, const BestKeyArgs& args);
void run(Runtime& runtime, const ReduceSlicesArgs& args);

}  // namespace assay::cuda
