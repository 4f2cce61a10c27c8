// From logits to what is asked of them. A block per row.
#pragma once

#include "assay/backend/cuda/kernels/common.cuh"
#include "assay/backend/cuda/kernels/rows.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

inline constexpr int kHeadThreads = 256;

struct Best {
  float value;
  std::int32_t index;
};
ASSAY_DEVICE Best better(Best a, Best b) {
  return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

ASSAY_KERNEL_OF(kHeadThreads) argmax_rows(ArgmaxArgs a) {
  wait_for_previous();
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

// Larger of larger numbers; of equals of the lower index. NaN is above all, so that it is seen.
inline constexpr std::uint64_t kNaNKey = ~std::uint64_t{0};
ASSAY_DEVICE std::uint64_t key_of(float value, std::int64_t index) {
  if (value != value) return kNaNKey;
  const std::uint32_t bits = bits_of(value == 0 ? 0.0F : value),
                      ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return std::uint64_t{ordered} << 32 | ~static_cast<std::uint32_t>(index);
}
// -1 as ArgmaxArgs has it.
ASSAY_DEVICE std::int32_t index_of(std::uint64_t key) {
  constexpr std::uint32_t kInfinite = 0xff800000U, kMinusInfinite = ~0xff800000U;  // ordered
  const auto ordered = static_cast<std::uint32_t>(key >> 32);
  if (ordered >= kInfinite || ordered <= kMinusInfinite) return -1;
  return static_cast<std::int32_t>(~static_cast<std::uint32_t>(key));
}

// Blocks along the logits (block_x) of a row (block_y).
ASSAY_KERNEL_OF(kHeadThreads) best_keys(BestKeyArgs a) {
  wait_for_previous();
  const Global<const float> x = Global<const float>(a.x) + block_y() * a.x_stride;
  std::uint64_t best = 0;
  for (std::int64_t i = std::int64_t{block_x()} * kHeadThreads + thread_index(); i < a.n;
       i += std::int64_t{grid_x()} * kHeadThreads)
    best = larger(best, key_of(x[i], i));
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) best = larger(best, shuffle_xor(best, lanes));
  if (thread_index() % kWarp == 0) atomic_max(Global<std::uint64_t>(a.keys), block_y(), best);
}

// A block per row, with a thread for each of up to 1,024 columns that it embeds: one of a table's reads waits
// for memory, and not several, one after another.
ASSAY_KERNEL_OF(kMaxEmbedThreads) next_token(NextTokenArgs a) {
  wait_for_previous();
  const std::int64_t row = block_x();
  const Global<std::uint64_t> keys(a.keys);
  const Global<std::int32_t> ids(a.ids), positions(a.positions), angles(a.angles), cache_keys(a.key),
      tokens(a.tokens), count(a.count);
  const std::int32_t best = index_of(keys[row]), id = best < 0 ? 0 : best, position = positions[row] + 1;
  barrier();  // all have read what thread 0 writes
  if (thread_index() == 0) {
    keys[row] = 0;
    ids[row] = id;
    positions[row] = position;
    angles[row] = angles[row] + 1;
    cache_keys[row] = cache_keys[row] + 1;
    const std::int32_t at = count[row];
    if (at < a.token_stride) {
      tokens[row * a.token_stride + at] = best;
      count[row] = at + 1;
    }
  }
  embed_row(a.embed, row, id, smaller(position, a.last_position) + a.embed.position_offset);
}

ASSAY_KERNEL_OF(kHeadThreads) log_probability_rows(LogProbabilityArgs a) {
  wait_for_previous();
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

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
