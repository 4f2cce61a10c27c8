// Kernels of many rows that are bound by memory: 16 bytes an access, several of them on their way, and the
// bits of the kernels of few rows (rows.cuh, attention.cuh).
#pragma once

#include "assay/backend/cuda/kernels/attention.cuh"
#include "assay/backend/cuda/kernels/rows.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

struct alignas(8) Words2 {
  std::uint32_t word[2];
};

inline constexpr int kManyThreads = 256, kGatedRows = 4;

// A thread has four columns of four rows, of which all loads are made first.
ASSAY_KERNEL_OF(kManyThreads) gate_many_rows(GatedArgs a) {
  wait_for_previous();
  const std::int64_t i = 4 * (std::int64_t{block_x()} * kManyThreads + thread_index()),
                     first = std::int64_t{block_y()} * kGatedRows;
  if (i >= a.n) return;
  const Global<const std::byte> x = Global<const float>(a.x).as<const std::byte>();
  const Global<Floats4> out = Global<float>(a.out).as<Floats4>();
  Floats4 gates[kGatedRows] = {}, values[kGatedRows] = {};
  ASSAY_UNROLL
  for (int j = 0; j < kGatedRows; ++j)
    if (first + j < a.rows) {
      const std::int64_t at = (first + j) * a.x_stride + i;
      gates[j] = x.load<Floats4>(at / 4);
      values[j] = x.load<Floats4>((at + a.n) / 4);
    }
  ASSAY_UNROLL
  for (int j = 0; j < kGatedRows; ++j) {
    if (first + j >= a.rows) continue;
    Floats4 y;
    ASSAY_UNROLL
    for (int c = 0; c < 4; ++c) y.at[c] = activate(a.activation, gates[j].at[c]) * values[j].at[c];
    out[((first + j) * a.out_stride + i) / 4] = y;
  }
}

// The pair whose elements are p and q.
ASSAY_DEVICE void turn(float& p, float& q, float cosine, float sine) {
  const float x = p, y = q;
  p = x * cosine - y * sine;
  q = y * cosine + x * sine;
}
ASSAY_DEVICE std::uint32_t two_halves(CacheFormat format, float low, float high) {
  return format == CacheFormat::float16 ? f16_bits(low) | f16_bits(high) << 16
                                        : bf16_bits(low) | bf16_bits(high) << 16;
}

// A thread has eight elements of a row's head, two by two a pair: four from `low` on, four from `high` on.
ASSAY_KERNEL_OF(kManyThreads) rotate_and_store_many(RotateStoreArgs a) {
  wait_for_previous();
  const CacheLayout& cache = a.store.cache;
  const auto turned = static_cast<std::int32_t>(a.rotate.heads),
             pairs = static_cast<std::int32_t>(a.rotate.pairs), heads = turned + cache.kv_heads,
             slots = cache.head_dim / 8, at = block_x() * kManyThreads + thread_index();
  const std::int32_t row = at / (heads * slots), head = at / slots % heads, slot = at % slots;
  if (row >= a.store.rows) return;
  const bool is_value = head >= turned, is_query = head < turned - cache.kv_heads,
             are_halves = a.rotate.pairing == RotaryPairing::halves;
  const std::int32_t kv_head = is_value ? head - turned : head - (turned - cache.kv_heads),
                     low = are_halves ? 4 * slot : 8 * slot, high = are_halves ? pairs + low : low + 4;
  const std::int64_t key = is_query ? -1 : Global<const std::int32_t>(a.store.places.key)[row];
  const std::int64_t at_head = std::int64_t{is_value ? kv_head : head} * cache.head_dim;
  const Global<const std::byte> x =
      is_value
          ? (Global<const float>(a.store.values) + (row * a.store.x_stride + at_head)).as<const std::byte>()
          : (Global<float>(a.rotate.x) + (row * a.rotate.x_stride + at_head)).as<const std::byte>();
  Floats4 p = x.load<Floats4>(low / 4), q = x.load<Floats4>(high / 4);
  if (!is_value) {
    const std::int64_t first = (std::int64_t{row} * pairs + 4 * slot) / 4;
    const auto cosines = Global<const float>(a.rotate.cosines).as<const std::byte>().load<Floats4>(first),
               sines = Global<const float>(a.rotate.sines).as<const std::byte>().load<Floats4>(first);
    ASSAY_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (are_halves)
        turn(p.at[i], q.at[i], cosines.at[i], sines.at[i]);
      else if (i < 2)
        turn(p.at[2 * i], p.at[2 * i + 1], cosines.at[i], sines.at[i]);
      else
        turn(q.at[2 * i - 4], q.at[2 * i - 3], cosines.at[i], sines.at[i]);
    }
    const Global<Floats4> out =
        (Global<float>(a.rotate.x) + (row * a.rotate.x_stride + at_head)).as<Floats4>();
    out[low / 4] = p;
    out[high / 4] = q;
  }
  if (key < 0) return;
  const CacheRow to =
      cache_row(a.store.places, cache, Global<const std::int32_t>(a.store.places.first_page)[row], key,
                is_value ? cache.values_at(a.store.layer, kv_head) : cache.keys_at(a.store.layer, kv_head));
  if (cache.format == CacheFormat::float32) {
    const Global<Floats4> out = to.page.as<Floats4>();
    out[to.row / 16 + low / 4] = p;
    out[to.row / 16 + high / 4] = q;
  } else {
    const Global<Words2> out = to.page.as<Words2>();
    out[to.row / 8 + low / 4] = {two_halves(cache.format, p.at[0], p.at[1]),
                                 two_halves(cache.format, p.at[2], p.at[3])};
    out[to.row / 8 + high / 4] = {two_halves(cache.format, q.at[0], q.at[1]),
                                  two_halves(cache.format, q.at[2], q.at[3])};
  }
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
