// Slices of logits, reduced to what a divergence takes from them (backend/head.h). A block per slice and row.
#pragma once

#include "assay/backend/cuda/kernels/head.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// Each thread has as many logits of the slice, kHeadThreads apart; behind the last it has -infinity.
inline constexpr int kLogitsOfThread = static_cast<int>(kHeadSlice / kHeadThreads);
ASSAY_DEVICE void load_slice(float (&own)[kLogitsOfThread], const Global<const float>& x,
                             std::int32_t count) {
  ASSAY_UNROLL
  for (int j = 0; j < kLogitsOfThread; ++j) {
    const std::int32_t i = j * kHeadThreads + thread_index();
    own[j] = i < count ? static_cast<float>(x[i]) : -infinity();
  }
}

// The finite logit that a key is of.
ASSAY_DEVICE float logit_of(std::uint64_t key) {
  const auto ordered = static_cast<std::uint32_t>(key >> 32);
  return float_of((ordered & 0x80000000U) != 0 ? ordered & 0x7fffffffU : ~ordered);
}

// The highest of a warp's keys, one after the other, in all lanes: put(place, key), 0 behind the last. No two
// keys are equal.
template <int Each, typename Put>
ASSAY_DEVICE void for_highest(const std::uint64_t (&keys)[Each], const Put& put) {
  std::uint64_t above = ~std::uint64_t{0};
  ASSAY_UNROLL
  for (int place = 0; place < kTopTokens; ++place) {
    std::uint64_t best = 0;
    ASSAY_UNROLL
    for (int j = 0; j < Each; ++j)
      if (keys[j] < above) best = larger(best, keys[j]);
    for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) best = larger(best, shuffle_xor(best, lanes));
    put(place, best);
    above = best;
  }
}

// Those of the block, of which `own` are this thread's, in all threads.
ASSAY_DEVICE void find_highest(RowSlice& slice, const float (&own)[kLogitsOfThread], std::int32_t first,
                               std::int32_t count, const Shared<std::uint64_t>& of_warps) {
  constexpr int kKeys = kHeadThreads / kWarp * kTopTokens;
  static_assert(kKeys <= 2 * kWarp);
  const std::int32_t warp = thread_index() / kWarp, lane = thread_index() % kWarp;
  std::uint64_t keys[kLogitsOfThread];
  ASSAY_UNROLL
  for (int j = 0; j < kLogitsOfThread; ++j) {
    const std::int32_t i = j * kHeadThreads + thread_index();
    keys[j] = i < count ? key_of(own[j], first + i) : 0;
  }
  for_highest(keys, [&](int place, std::uint64_t key) {
    if (lane == 0) of_warps[warp * kTopTokens + place] = key;
  });
  barrier();
  std::uint64_t all[2];
  ASSAY_UNROLL
  for (int j = 0; j < 2; ++j) {
    const std::int32_t at = lane + j * kWarp;
    all[j] = at < kKeys ? static_cast<std::uint64_t>(of_warps[at]) : 0;
  }
  for_highest(all, [&](int place, std::uint64_t key) {
    if (key == 0) return;
    slice.top_logits[place] = logit_of(key);
    slice.top[place] = static_cast<std::int32_t>(~static_cast<std::uint32_t>(key));
    slice.tops = place + 1;
  });
}

ASSAY_DEVICE double sum_of_powers(const float (&own)[kLogitsOfThread], float most,
                                  const Shared<double>& partial) {
  double sum = 0;
  ASSAY_UNROLL
  for (int j = 0; j < kLogitsOfThread; ++j) sum += static_cast<double>(expf(own[j] - most));
  return block_sum(sum, partial);
}

// The baseline's logits, weighed by their own powers; differences of floats are exact in double.
ASSAY_DEVICE double weighed_differences(const float (&own)[kLogitsOfThread], const Global<const float>& x,
                                        std::int32_t count, const Shared<double>& partial,
                                        const Shared<float>& partial_largest) {
  float base[kLogitsOfThread];
  load_slice(base, x, count);
  float most = -infinity();
  ASSAY_UNROLL
  for (int j = 0; j < kLogitsOfThread; ++j) most = larger(most, base[j]);
  most = block_largest(most, partial_largest);
  double sum = 0;
  ASSAY_UNROLL
  for (int j = 0; j < kLogitsOfThread; ++j)
    if (j * kHeadThreads + thread_index() < count)
      sum += static_cast<double>(expf(base[j] - most)) *
             (static_cast<double>(base[j]) - static_cast<double>(own[j]));
  return block_sum(sum, partial);
}

ASSAY_KERNEL_OF(kHeadThreads) reduce_slices(ReduceSlicesArgs a) {
  wait_for_previous();
  constexpr int kWarps = kHeadThreads / kWarp;
  const Shared<std::uint64_t> highest = shared<std::uint64_t>(0);
  const Shared<double> sums = shared<double>(kWarps * kTopTokens * 8);
  const Shared<float> largest = shared<float>(kWarps * (kTopTokens * 8 + 8));
  const std::int64_t row = block_y(), first = block_x() * kHeadSlice;
  const auto count = static_cast<std::int32_t>(least(a.n - first, kHeadSlice));
  const Global<const float> x = Global<const float>(a.x) + (row * a.x_stride + first);
  const Global<RowSlice> out = Global<RowSlice>(a.out) + (row * grid_x() + block_x());
  float own[kLogitsOfThread];
  load_slice(own, x, count);
  bool is_broken = false;
  ASSAY_UNROLL
  for (int j = 0; j < kLogitsOfThread; ++j)
    is_broken = is_broken || (j * kHeadThreads + thread_index() < count && !is_finite(own[j]));
  RowSlice slice;
  if (block_any(is_broken, largest)) {
    if (thread_index() == 0) out[0] = slice;
    return;
  }
  find_highest(slice, own, static_cast<std::int32_t>(first), count, highest);
  slice.sums.is_finite = true;
  slice.sums.max = slice.top_logits[0];
  slice.sums.sum = sum_of_powers(own, slice.sums.max, sums);
  if (a.base)
    slice.weighed = weighed_differences(own, Global<const float>(a.base) + (row * a.base_stride + first),
                                        count, sums, largest);
  if (thread_index() != 0) return;
  const std::int64_t target = Global<const std::int32_t>(a.targets)[row] - first;
  slice.has_target = target >= 0 && target < count;
  if (slice.has_target) slice.target_logit = x[target];
  out[0] = slice;
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
