// From logits to what is asked of them. A block per row.
#pragma once

#include "assay/backend/cuda/kernels/common.cuh"

namespace assay::cuda::device {

inline constexpr int kHeadThreads = 256;

struct Best {
  float value;
  std::int32_t index;
};
ASSAY_DEVICE Best better(Best a, Best b) {
  return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

ASSAY_KERNEL_OF(kHeadThreads) argmax_rows(ArgmaxArgs a) {
  constexpr int kWarps = kHeadThreads / kWarp;
  const Global<const float> x = Global<const float>(a.x) + block_x() * a.x_stride;
  const Shared<float> values = shared<float>(0);
  const Shared<std::int32_t> indices = shared<std::int32_t>(4 * kWarps);
  Best best{-infinity(), 0x7fffffff};
  bool has_nan = false;
  for (std::int64_t i = thread_index(); i < a.n; i += kHeadThreads) {
    const float value = x[i];
    has_nan = has_nan || value != value;
    best = better(best, {value, static_cast<std::int32_t>(i)});
  }
  has_nan = block_any(has_nan, values);
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2)
    best = better(best, {shuffle_xor(best.value, lanes), shuffle_xor(best.index, lanes)});
  if (thread_index() % kWarp == 0) {
    values[thread_index() / kWarp] = best.value;
    indices[thread_index() / kWarp] = best.index;
  }
  barrier();
  if (thread_index() != 0) return;
  for (int i = 1; i < kWarps; ++i) best = better(best, {values[i], indices[i]});
  Global<std::int32_t>(a.out)[block_x()] = has_nan || !is_finite(best.value) ? -1 : best.index;
}

ASSAY_KERNEL_OF(kHeadThreads) log_probability_rows(LogProbabilityArgs a) {
  const Global<const float> x = Global<const float>(a.x) + block_x() * a.x_stride;
  float most = -infinity();
  for (std::int64_t i = thread_index(); i < a.n; i += kHeadThreads)
    most = larger(most, static_cast<float>(x[i]));
  most = block_largest(most, shared<float>(0));
  double sum = 0;
  ASSAY_NO_UNROLL
  for (std::int64_t i = thread_index(); i < a.n; i += kHeadThreads)
    sum += exp(static_cast<double>(x[i]) - static_cast<double>(most));
  sum = block_sum(sum, shared<double>(4 * kHeadThreads / kWarp));
  if (thread_index() != 0) return;
  const std::int64_t target = Global<const std::int32_t>(a.targets)[block_x()];
  Global<double>(a.out)[block_x()] = static_cast<double>(x[target]) - (static_cast<double>(most) + log(sum));
}

}  // namespace assay::cuda::device
