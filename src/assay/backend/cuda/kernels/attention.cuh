// Keys and values into pages, and attention over them.
#pragma once

#include "assay/backend/cuda/kernels/common.cuh"
#include "assay/backend/cuda/kernels/rows.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// Where a row of keys or values of a head begins: [its page] + bytes.
struct CacheRow {
  Global<std::byte> page;
  std::int64_t part, row;  // where the head's keys or values are, and of this key among them

  ASSAY_DEVICE std::int64_t scale_at(const CacheLayout& cache) const {
    return (part + cache.scales_at()) / 4 + row_in_page;
  }
  std::int64_t row_in_page;
};
ASSAY_DEVICE CacheRow cache_row(const KvSlots& places, const CacheLayout& cache, std::int64_t first_page,
                                std::int64_t key, std::int64_t part) {
  const DevicePointer<std::byte> page =
      Global<const DevicePointer<std::byte>>(places.pages)[first_page + key / kPagePositions];
  const std::int64_t at = key % kPagePositions;
  return {Global<std::byte>(page), part, part + at * cache.row_bytes(), at};
}

// A warp per row (block_x), head (block_y), and keys or values (block_z).
ASSAY_DEVICE void store_head(const StoreArgs& a, std::int64_t row, std::int64_t head, bool are_keys) {
  const std::int64_t key = Global<const std::int32_t>(a.places.key)[row];
  if (key < 0) return;
  const CacheLayout& cache = a.cache;
  const Global<const float> x =
      Global<const float>(are_keys ? a.keys : a.values) + (row * a.x_stride + head * cache.head_dim);
  const CacheRow to = cache_row(a.places, cache, Global<const std::int32_t>(a.places.first_page)[row], key,
                                are_keys ? cache.keys_at(a.layer, head) : cache.values_at(a.layer, head));
  const std::int64_t elements = cache.row_bytes() / cache.element_bytes();
  float inverse = 0;
  bool is_number = true;
  if (cache.format == CacheFormat::int8) {
    float largest = 0;
    for (std::int64_t i = thread_index(); i < cache.head_dim; i += kWarp) {
      largest = larger(largest, fabsf(x[i]));
      is_number = is_number && is_finite(x[i]);
    }
    largest = warp_largest(largest);
    is_number = ballot(!is_number) == 0;
    if (is_number && largest >= 1e-35F) inverse = 127.0F / largest;
    if (thread_index() == 0)
      to.page.as<float>()[to.scale_at(cache)] = !is_number    ? not_a_number()
                                                : inverse > 0 ? largest / 127.0F
                                                              : 0.0F;
  }
  for (std::int64_t i = thread_index(); i < elements; i += kWarp) {
    const float value = i < cache.head_dim ? x[i] : 0.0F;
    switch (cache.format) {
      case CacheFormat::float32:
        to.page.as<float>()[to.row / 4 + i] = value;
        break;
      case CacheFormat::float16:
        to.page.as<std::uint16_t>()[to.row / 2 + i] = static_cast<std::uint16_t>(f16_bits(value));
        break;
      case CacheFormat::bfloat16:
        to.page.as<std::uint16_t>()[to.row / 2 + i] = static_cast<std::uint16_t>(bf16_bits(value));
        break;
      case CacheFormat::int8:
        to.page.as<std::int8_t>()[to.row + i] =
            is_number ? static_cast<std::int8_t>(rintf(value * inverse)) : std::int8_t{0};
        break;
    }
  }
}

ASSAY_KERNEL_OF(32) store_rows(StoreArgs a) {
  wait_for_previous();
  store_head(a, block_x(), block_y(), block_z() == 0);
}

// A warp per row and head: of queries, of keys, of values.
ASSAY_KERNEL_OF(32) rotate_and_store(RotateStoreArgs a) {
  wait_for_previous();
  const std::int64_t row = block_x(), head = block_y(), queries = a.rotate.heads - a.store.cache.kv_heads;
  const bool is_turned = head < a.rotate.heads;
  if (is_turned)
    for (std::int64_t i = thread_index(); i < a.rotate.pairs; i += kWarp) rotate_pair(a.rotate, row, head, i);
  if (head < queries) return;
  warp_barrier();
  store_head(a.store, row, is_turned ? head - queries : head - a.rotate.heads, is_turned);
}

inline constexpr int kAttendThreads = 128;
inline constexpr int kDimsOfThread = static_cast<int>(kMaxHeadDim) / kAttendThreads;
// Floats of shared memory: the query, weights of a chunk, partial sums.
inline constexpr int kQueryAt = 0, kWeightsAt = 512, kPartialAt = kWeightsAt + 256,
                     kWarpsAt = kPartialAt + 128, kAttendShared = kWarpsAt + 4;

template <CacheFormat Format>
ASSAY_DEVICE void load_elements(const Global<std::byte>& page, std::int64_t byte, float (&out)[16]) {
  const Words4 words = page.load<Words4>(byte / 16);
  if constexpr (Format == CacheFormat::float32) {
    for (int i = 0; i < 4; ++i) out[i] = float_of(words.word[i]);
  } else if constexpr (Format == CacheFormat::int8) {
    for (int i = 0; i < 16; ++i)
      out[i] = static_cast<float>(static_cast<std::int8_t>(words.word[i / 4] >> (8 * (i % 4)) & 0xffU));
  } else {
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t bits = words.word[i / 2] >> (16 * (i % 2)) & 0xffffU;
      out[i] = Format == CacheFormat::float16 ? f16_value(bits) : bf16_value(bits);
    }
  }
}

// The query in shared memory times a key; elements beyond head_dim are zero in the cache and in the query.
template <CacheFormat Format>
ASSAY_DEVICE float dot_key(const CacheRow& key, const CacheLayout& cache, const Shared<float>& query) {
  constexpr int kElements = Format == CacheFormat::float32 ? 4 : Format == CacheFormat::int8 ? 16 : 8;
  const std::int64_t bytes = cache.row_bytes();
  float sums[4] = {};  // four chains are four times shorter
  for (std::int64_t at = 0; at < bytes; at += 16) {
    float k[16];
    load_elements<Format>(key.page, key.row + at, k);
    ASSAY_UNROLL
    for (int i = 0; i < kElements; ++i) sums[i % 4] = fmaf(query[at / 16 * kElements + i], k[i], sums[i % 4]);
  }
  float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  if constexpr (Format == CacheFormat::int8) sum *= key.page.load<float>(key.scale_at(cache));
  return sum;
}

template <CacheFormat Format>
ASSAY_DEVICE float cached(const CacheRow& value, std::int64_t i) {
  if constexpr (Format == CacheFormat::float32) return value.page.load<float>(value.row / 4 + i);
  if constexpr (Format == CacheFormat::float16)
    return f16_value(value.page.load<std::uint16_t>(value.row / 2 + i));
  if constexpr (Format == CacheFormat::bfloat16)
    return bf16_value(value.page.load<std::uint16_t>(value.row / 2 + i));
  return static_cast<float>(value.page.load<std::int8_t>(value.row + i));
}

// Scores are multiplied by log2 e, so that a weight is a power of two: one instruction of a GPU.
inline constexpr float kLog2OfE = 1.44269504F;

// What some keys contribute: their largest score, the sum of 2^(score - largest), and the values so weighted,
// of which a thread holds those of its dimensions.
struct ChunkState {
  float largest, sum;
  float values[kDimsOfThread];
};

// The factor for what was weighted by 2^(. - from) to be weighted by 2^(. - to).
ASSAY_DEVICE float rescale(float from, float to) {
  return exp2_of(from == to ? 0.0F : from - to);  // 2^0 is 1 exactly
}
ASSAY_DEVICE void merge(ChunkState& state, const ChunkState& next) {
  const float largest = larger(state.largest, next.largest);
  const float mine = rescale(state.largest, largest), theirs = rescale(next.largest, largest);
  state.largest = largest;
  state.sum = state.sum * mine + next.sum * theirs;
  for (int j = 0; j < kDimsOfThread; ++j) state.values[j] = state.values[j] * mine + next.values[j] * theirs;
}

// How products of queries and keys become weights, for the kernels of tensor cores, whose results have the
// same bits. Where scores are products times a positive number, products are compared, and one multiply-add
// gives the exponent of a weight; else shape() makes scores of them first.
struct Softmax {
  bool is_plain;
  float factor, in_caps;  // in_caps: what makes a product a multiple of soft_cap

  ASSAY_DEVICE explicit Softmax(const AttendArgs& a)
      : is_plain(a.soft_cap == 0 && !a.slopes && a.scale > 0),
        factor(is_plain ? a.scale * kLog2OfE : 1.0F),
        in_caps(a.soft_cap != 0 ? a.scale / a.soft_cap : 0.0F) {}
  // Products in accumulators, of rows with these slopes. distance(tile, i): how far the key of one is behind
  // the row's own.
  template <int Tiles, typename Distance>
  ASSAY_DEVICE void shape(float (&s)[Tiles][4], const AttendArgs& a, const float (&slope)[2],
                          const Distance& distance) const {
    if (is_plain) return;
    if (a.soft_cap != 0) {
      ASSAY_UNROLL
      for (int i = 0; i < 4 * Tiles; ++i)
        s[i / 4][i % 4] = a.soft_cap * kLog2OfE * tanhf(s[i / 4][i % 4] * in_caps);
    } else {
      ASSAY_UNROLL
      for (int i = 0; i < 4 * Tiles; ++i) s[i / 4][i % 4] *= a.scale * kLog2OfE;
    }
    if (!a.slopes) return;
    ASSAY_UNROLL
    for (int i = 0; i < 4 * Tiles; ++i)
      s[i / 4][i % 4] += slope[i / 2 % 2] * kLog2OfE * static_cast<float>(distance(i / 4, i % 4));
  }
  // The first is a number.
  ASSAY_DEVICE static float larger_of(float a, float b) { return fmaxf(a, b); }
  // largest: the product's, times factor. Of -infinity, which stands for keys that are not seen, 0.
  ASSAY_DEVICE float weight(float product, float largest) const {
    return exp2_of(fmaf(product, factor, largest == -infinity() ? 0.0F : -largest));
  }
};

// Thread t holds dimensions t, t + 128 ... of a head. Where a head has half as many or fewer, the block's
// threads go through the keys in parts side by side, whose sums the first part's threads add up.
ASSAY_DEVICE std::int32_t dims_at_once(std::int64_t head_dim) {
  return head_dim <= 32 ? 32 : head_dim <= 64 ? 64 : kAttendThreads;
}

template <CacheFormat Format>
ASSAY_DEVICE ChunkState attend_chunk(const AttendArgs& a, std::int64_t row, std::int64_t head,
                                     std::int64_t last, std::int64_t begin, std::int64_t end) {
  const CacheLayout& cache = a.cache;
  const std::int64_t kv_head = head / (a.heads / cache.kv_heads);
  const std::int64_t pages = Global<const std::int32_t>(a.places.first_page)[row];
  const Shared<float> query = shared<float>(4 * kQueryAt), weights = shared<float>(4 * kWeightsAt),
                      partial = shared<float>(4 * kPartialAt), warps = shared<float>(4 * kWarpsAt);
  const float slope = a.slopes ? Global<const float>(a.slopes)[head] : 0.0F;
  float scores[kChunkKeys / kAttendThreads], largest = -infinity();
  for (int j = 0; j < kChunkKeys / kAttendThreads; ++j) {
    const std::int64_t key = begin + thread_index() + j * kAttendThreads;
    scores[j] = -infinity();
    if (key >= end) continue;
    float score =
        a.scale * dot_key<Format>(cache_row(a.places, cache, pages, key, cache.keys_at(a.layer, kv_head)),
                                  cache, query);
    if (a.soft_cap != 0) score = a.soft_cap * tanhf(score / a.soft_cap);
    if (a.slopes) score += slope * static_cast<float>(key - last);
    scores[j] = score *= kLog2OfE;
    largest = larger(largest, score);
  }
  largest = block_largest(largest, warps);
  float sum = 0;
  for (int j = 0; j < kChunkKeys / kAttendThreads; ++j) {
    const std::int64_t key = begin + thread_index() + j * kAttendThreads;
    float weight = 0;
    if (key < end) weight = scores[j] == -infinity() ? 0.0F : exp2_of(scores[j] - largest);
    weights[thread_index() + j * kAttendThreads] = weight;
    sum += weight;
  }
  ChunkState state{largest, block_sum(sum, warps), {}};  // its barriers are behind the weights
  const std::int32_t width = dims_at_once(cache.head_dim), parts = kAttendThreads / width;
  const std::int32_t part = thread_index() / width, first_dim = thread_index() % width;
  for (std::int64_t key = begin + part; key < end; key += parts) {
    const CacheRow value = cache_row(a.places, cache, pages, key, cache.values_at(a.layer, kv_head));
    float weight = weights[key - begin];
    if constexpr (Format == CacheFormat::int8) weight *= value.page.load<float>(value.scale_at(cache));
    for (int j = 0; j < kDimsOfThread; ++j) {
      const std::int64_t dim = first_dim + j * kAttendThreads;
      if (dim < cache.head_dim) state.values[j] = fmaf(weight, cached<Format>(value, dim), state.values[j]);
    }
  }
  if (parts > 1) {
    partial[thread_index()] = state.values[0];
    barrier();
    state.values[0] = 0;
    if (part == 0)
      for (int i = 0; i < parts; ++i) state.values[0] += static_cast<float>(partial[i * width + first_dim]);
  }
  barrier();  // the next chunk writes weights and partial sums
  return state;
}

ASSAY_DEVICE ChunkState attend_chunk_of(const AttendArgs& a, std::int64_t row, std::int64_t head,
                                        std::int64_t last, std::int64_t begin, std::int64_t end) {
  switch (a.cache.format) {
    case CacheFormat::float32:
      return attend_chunk<CacheFormat::float32>(a, row, head, last, begin, end);
    case CacheFormat::float16:
      return attend_chunk<CacheFormat::float16>(a, row, head, last, begin, end);
    case CacheFormat::bfloat16:
      return attend_chunk<CacheFormat::bfloat16>(a, row, head, last, begin, end);
    default:
      return attend_chunk<CacheFormat::int8>(a, row, head, last, begin, end);
  }
}

// What weighted values are multiplied by at the end. The largest weight is 1: no sum is so small that this
// would not be a number.
ASSAY_DEVICE float part_of(float sum) {
  return inverse_of(sum);
}
ASSAY_DEVICE void put_attended(const AttendArgs& a, std::int64_t row, std::int64_t head, std::int64_t dim,
                               float value) {
  const std::int64_t column = head * a.cache.head_dim + dim;
  Global<float>(a.out)[row * a.out_stride + column] = value;
  put_ordered(a.ordered, row, column, value);
}
// Two columns of a row's output, of which the first is even.
ASSAY_DEVICE void put_attended_pair(const AttendArgs& a, std::int32_t row, std::int32_t column, float x,
                                    float y) {
  const Global<float> out = Global<float>(a.out) + (row * a.out_stride + column);
  out[0] = x;
  out[1] = y;
  if (!a.ordered.out) return;
  const std::int32_t half = row * static_cast<std::int32_t>(a.ordered.out_stride / 2) + half_of_input(column);
  Global<std::byte>(a.ordered.out).as<std::uint32_t>()[half / 2] =
      a.ordered.is_float16 ? f16_bits(x) | f16_bits(y) << 16 : bf16_bits(x) | bf16_bits(y) << 16;
}

// A row of padding, by four threads.
template <bool IsOrdered>
ASSAY_DEVICE void clear_attended(const AttendArgs& a, std::int64_t row, std::int64_t head,
                                 std::int32_t first) {
  const std::int64_t dim = a.cache.head_dim;
  for (std::int64_t i = first; i < dim; i += 4) {
    Global<float>(a.out)[row * a.out_stride + head * dim + i] = 0;
    if constexpr (IsOrdered) put_ordered(a.ordered, row, head * dim + i, 0);
  }
}
// The thread's dimensions of a head, of the state of all its keys. Of nothing but scores of -infinity NaN.
ASSAY_DEVICE void write_attended(const AttendArgs& a, std::int64_t row, std::int64_t head,
                                 const ChunkState& state) {
  const float part = part_of(state.sum);
  for (int j = 0; j < kDimsOfThread; ++j) {
    const std::int64_t dim = thread_index() + j * kAttendThreads;
    if (dim < a.cache.head_dim) put_attended(a, row, head, dim, state.values[j] * part);
  }
}
ASSAY_DEVICE std::int64_t first_key_of(const AttendArgs& a, std::int64_t last) {
  return a.window > 0 && last >= a.window ? last - a.window + 1 : 0;
}
ASSAY_DEVICE Global<float> chunk_scratch(const AttendArgs& a, std::int64_t row, std::int64_t head,
                                         std::int64_t chunk, std::int64_t chunks) {
  return Global<float>(a.scratch) + ((row * a.heads + head) * chunks + chunk) * (a.cache.head_dim + 2);
}

// A block per row (block_y) and head (block_z); block_x: one, which takes all chunks, or one for each chunk,
// which leaves its state in scratch memory for merge_chunks.
ASSAY_KERNEL_OF(kAttendThreads) attend_rows(AttendArgs a) {
  wait_for_previous();
  const std::int64_t row = block_y(), head = block_z();
  const bool takes_all = grid_x() == 1;
  const std::int64_t last = Global<const std::int32_t>(a.places.key)[row];
  if (last < 0) {
    for (int j = 0; j < kDimsOfThread; ++j) {
      const std::int64_t dim = thread_index() + j * kAttendThreads;
      if (takes_all && dim < a.cache.head_dim) put_attended(a, row, head, dim, 0);
    }
    return;
  }
  const std::int64_t first = first_key_of(a, last);
  const Shared<float> query = shared<float>(4 * kQueryAt);
  const Global<const float> q = Global<const float>(a.q) + (row * a.q_stride + head * a.cache.head_dim);
  const std::int64_t elements = a.cache.row_bytes() / a.cache.element_bytes();
  for (std::int64_t i = thread_index(); i < elements; i += kAttendThreads)
    query[i] = i < a.cache.head_dim ? q[i] : 0.0F;
  barrier();
  const auto chunk_state = [&](std::int64_t chunk) {
    const std::int64_t begin = chunk * kChunkKeys;
    return attend_chunk_of(a, row, head, last, begin > first ? begin : first,
                           least(begin + kChunkKeys, last + 1));
  };
  if (!takes_all) {
    const std::int64_t chunk = block_x();
    if (chunk < first / kChunkKeys || chunk > last / kChunkKeys) return;
    const ChunkState state = chunk_state(chunk);
    const Global<float> to = chunk_scratch(a, row, head, chunk, grid_x());
    if (thread_index() == 0) {
      to[0] = state.largest;
      to[1] = state.sum;
    }
    for (int j = 0; j < kDimsOfThread; ++j) {
      const std::int64_t dim = thread_index() + j * kAttendThreads;
      if (dim < a.cache.head_dim) to[2 + dim] = state.values[j];
    }
    return;
  }
  ChunkState state = chunk_state(first / kChunkKeys);
  for (std::int64_t chunk = first / kChunkKeys + 1; chunk <= last / kChunkKeys; ++chunk)
    merge(state, chunk_state(chunk));
  write_attended(a, row, head, state);
}

// A block per row (block_y) and head (block_z); a.longest tells how many chunks scratch memory has room for.
ASSAY_KERNEL_OF(kAttendThreads) merge_chunks(AttendArgs a) {
  wait_for_previous();
  const std::int64_t row = block_y(), head = block_z();
  const std::int64_t chunks = (a.longest + kChunkKeys - 1) / kChunkKeys;
  const std::int64_t last = Global<const std::int32_t>(a.places.key)[row], first = first_key_of(a, last);
  const auto read = [&](std::int64_t chunk) {
    const Global<float> from = chunk_scratch(a, row, head, chunk, chunks);
    ChunkState state{from[0], from[1], {}};
    for (int j = 0; j < kDimsOfThread; ++j) {
      const std::int64_t dim = thread_index() + j * kAttendThreads;
      if (dim < a.cache.head_dim) state.values[j] = from[2 + dim];
    }
    return state;
  };
  ChunkState state{0, 1, {}};  // for a row of padding: 0
  if (last >= 0) {
    state = read(first / kChunkKeys);
    for (std::int64_t chunk = first / kChunkKeys + 1; chunk <= last / kChunkKeys; ++chunk)
      merge(state, read(chunk));
  }
  write_attended(a, row, head, state);
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
