// Attention over a `Vec`, and the int8 cache, for the ISA files that include it inside their own anonymous
// namespace, after float32_kernels-inl.h. Not a header for others.
#pragma once

#include "assay/backend/cpu/kernels/simd/float32_kernels-inl.h"

// Running softmax of some rows (Milakov and Gimelshein 2018; Dao et al. 2022).
struct Softmax {
  float *highest, *total;  // one for each row
};
constexpr float kMasked = -__builtin_huge_valf();

// Masks a row of scores but those of the keys [first, last] of its block; the highest of these. NaN is passed
// over, since it comes back as a weight, but not where nothing higher than masked scores is left beside it.
float mask_row(float* scores, std::int64_t first, std::int64_t last) {
  if (first > 0 || last < kKvBlockPositions - 1)
    for (std::int64_t j = 0; j < kKvBlockPositions; ++j)
      if (j < first || j > last) scores[j] = kMasked;
  Vec best = Vec::set(kMasked);
  for (std::int64_t j = 0; j < kKvBlockPositions; j += Vec::kWidth)
    best = Vec::max(Vec::load(scores + j), best);
  const float highest = best.highest();
  if (highest > kMasked) return highest;
  Vec sum = best;
  for (std::int64_t j = 0; j < kKvBlockPositions; j += Vec::kWidth)
    sum = Vec::add(sum, Vec::load(scores + j));
  return sum.total();
}

// A row of scores becomes weights relative to `highest`, which is scaled; returns their sum.
float weigh_row(float* scores, float scale, float highest) {
  Vec sum = Vec::set(0.0F);
  for (std::int64_t j = 0; j < kKvBlockPositions; j += Vec::kWidth) {
    const Vec weight = exponential(Vec::fma(Vec::load(scores + j), Vec::set(scale), Vec::set(-highest)));
    weight.store(scores + j);
    sum = Vec::add(sum, weight);
  }
  return sum.total();
}

// Scores of a block for some rows, of which row i sees the keys [first_key(i), last_key(i)], become weights
// relative to the running maxima. `factors`, as many as fill whole vectors: what earlier sums must be
// multiplied with. `scale` is positive.
template <typename FirstKey, typename LastKey>
ASSAY_INLINE void weigh_rows(float* scores, std::int64_t rows, const FirstKey& first_key,
                             const LastKey& last_key, float scale, const Softmax& state, float* factors) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float block_best =
                    scale * mask_row(scores + row * kKvBlockPositions, first_key(row), last_key(row)),
                before = state.highest[row], highest = block_best <= before ? before : block_best;
    factors[row] = highest == kMasked ? 0 : before - highest;
    state.highest[row] = highest;
  }
  for (std::int64_t row = 0; row < rows; row += Vec::kWidth)
    exponential(Vec::load(factors + row)).store(factors + row);
  for (std::int64_t row = 0; row < rows; ++row) {
    float* of_row = scores + row * kKvBlockPositions;
    if (state.highest[row] == kMasked)  // no key yet, or none of any weight
      for (std::int64_t j = 0; j < kKvBlockPositions; ++j) of_row[j] = 0;
    else
      state.total[row] = state.total[row] * factors[row] + weigh_row(of_row, scale, state.highest[row]);
  }
}

alignas(64) constexpr float kLaneNumbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// Scores of rows from `first_row` on and the first `keys` keys of the block that begins at a position,
// scaled, with the soft cap and the slopes of the call.
[[gnu::noinline]] void bend_scores(const AttendArgs& args, std::int64_t first_row, std::int64_t rows,
                                   std::int64_t begin, std::int64_t keys, float* scores) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const Vec slope = Vec::set(args.slope_of(first_row + row));
    const std::int64_t query = args.position_of(first_row + row);
    for (std::int64_t j = 0; j < keys; j += Vec::kWidth) {
      float* at = scores + row * kKvBlockPositions + j;
      Vec score = Vec::mul(Vec::load(at), Vec::set(args.scale));
      if (args.soft_cap != 0) score = soft_capped(score, args.soft_cap);
      const Vec distance = Vec::add(Vec::set(static_cast<float>(begin + j - query)), Vec::load(kLaneNumbers));
      Vec::fma(slope, distance, score).store(at);
    }
  }
}

Floats keys_of(const AttendArgs& args, const float* block) {
  return {block + args.k_offset, kKvBlockPositions, kPanel, &args.fetch};
}
Floats values_of(const AttendArgs& args, const float* values) {
  return {values, args.shape.padded(), kPanel, &args.fetch};
}
Codes keys_of(const AttendArgs& args, const std::int8_t* block) {
  return {block + args.k_offset, kKvBlockPositions, kPanel, &args.fetch};
}
Codes values_of(const AttendArgs& args, const std::int8_t* values) {
  return {values, args.shape.padded(), kPanel, &args.fetch};
}
Pairs keys_of(const AttendArgs& args, const std::uint16_t* block) {
  return {block + args.k_offset, args.shape.dim_padded() * kPanel, &args.fetch};
}
Pairs values_of(const AttendArgs& args, const std::uint16_t* values) {
  return {values, kKvBlockPositions * kPanel, &args.fetch};
}

// Values of one head in a block, with nothing where they are not seen: of positions but [first, last].
template <typename Element>
void copy_seen_values(const KvShape& shape, const Element* values, std::int64_t first, std::int64_t last,
                      Element* to) {
  const std::int64_t padded = shape.padded();
  __builtin_memcpy(to, values, static_cast<std::size_t>(padded * kKvBlockPositions) * sizeof(Element));
  const auto* scales = reinterpret_cast<const float*>(values + padded * kKvBlockPositions);
  auto* to_scales = reinterpret_cast<float*>(to + padded * kKvBlockPositions);
  for (std::int64_t at = 0; at < kKvBlockPositions; ++at) {
    const bool is_seen = at >= first && at <= last;
    if (sizeof(Element) == 1) to_scales[at] = is_seen ? scales[at] : 0.0F;
    for (std::int64_t i = 0; !is_seen && i < padded; ++i)
      to[sizeof(Element) == 2
             ? (i / kPanel * kKvBlockPositions + at / 2 * 2) * kPanel + i % kPanel * 2 + at % 2
             : at * padded + i] = 0;
  }
}
// What those of a block take at most.
constexpr std::int64_t kMaxValueBytes = kKvBlockPositions * kMaxHeadDim * 4;

// Scores of int8 keys, or weights of int8 values, times the scales of their positions.
void scale_positions(const std::int8_t* scales, std::int64_t rows, float* x) {
  for (std::int64_t j = 0; j < kKvBlockPositions; j += Vec::kWidth) {
    const Vec scale = Vec::load(reinterpret_cast<const float*>(scales) + j);
    for (std::int64_t row = 0; row < rows; ++row) {
      float* at = x + row * kKvBlockPositions + j;
      Vec::mul(Vec::load(at), scale).store(at);
    }
  }
}

// Keys or values of a block, into the second-level cache: the next block lies all layers away, where no
// prefetcher of a processor looks.
ASSAY_INLINE void fetch_bytes(const void* from, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const char*>(from) + i, 0, 2);
}
template <typename Element>
ASSAY_INLINE void fetch_keys(const KvShape& shape, const Element* keys, std::int64_t count) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(Element));
  if (kSize == 2) return fetch_bytes(keys, round_up(count, kPanel) * shape.dim_padded() * kSize);
  if (kSize == 1 || count > kKvBlockPositions - kPanel)
    return fetch_bytes(keys, shape.head_dim * kKvBlockPositions * kSize);
  for (std::int64_t i = 0; i < shape.head_dim; ++i)
    fetch_bytes(keys + i * kKvBlockPositions, round_up(count, kPanel) * kSize);
}
template <typename Element>
ASSAY_INLINE void fetch_values(const KvShape& shape, const Element* values, std::int64_t count) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(Element));
  if (kSize != 2) return fetch_bytes(values, count * shape.padded() * kSize);
  for (std::int64_t i = 0; i < shape.padded(); i += kPanel)
    fetch_bytes(values + i * kKvBlockPositions, round_up(count, 2) * kPanel * kSize);
}

// What is read behind the values of a block: the keys of the next one, or of the next head's first.
template <typename Element>
ASSAY_INLINE void fetch_next_keys(const AttendArgs& args, std::int64_t block, std::int64_t first_block,
                                  std::int64_t last_position) {
  const bool is_last = block == last_position / kKvBlockPositions;
  if (is_last && args.next_k_offset == 0) return;
  const std::int64_t next = is_last ? first_block : block + 1,
                     keys = last_position - next * kKvBlockPositions + 1;
  fetch_keys(args.shape,
             static_cast<const Element*>(args.blocks[next]) + (is_last ? args.next_k_offset : args.k_offset),
             keys < kKvBlockPositions ? keys : kKvBlockPositions);
}

bool sees_keys(const AttendArgs& args, std::int64_t row) {
  return args.first_key <= args.position_of(row);
}

// Dimensions from `first` on, a multiple of 64, at most 64 of them. A row that sees no key is zero; one whose
// keys have no weight, 0 / 0.
void store_attended(const AttendArgs& args, std::int64_t row, std::int64_t first, const float* out,
                    float total) {
  const Vec divisor = Vec::set(sees_keys(args, row) ? total : 1.0F);
  const std::int64_t left = args.shape.head_dim - first,
                     end = left < kKvBlockPositions ? left : kKvBlockPositions;
  for (std::int64_t j = 0; j < end; j += Vec::kWidth) {
    const std::int64_t i = first + j, n = end - j < Vec::kWidth ? end - j : Vec::kWidth;
    const Vec value = Vec::div(Vec::load(out + j), divisor);
    if (args.out != nullptr) value.store_n(args.out + row * args.out_stride + i, n);
    if (args.out_tiles.data != nullptr)
      store_tiles(args.out_tiles, args.tile_row_of(row), args.tile_column_of(row) + i, value, n);
  }
}

// Sums of some rows lie [columns / 64][rows][64].
constexpr std::int64_t kSumColumns = kGroup * kPanel;
static_assert(kSumColumns == kKvBlockPositions);

// c[rows, 16 * panels] = a * b, at most kRows rows and 4 panels. kReadsBeyond: values of keys beyond the k-th
// are multiplied with zeros, so that NaN among them is seen.
template <typename Values>
struct FewRowProducts {
  static constexpr std::int64_t kRows = kRowsAtOnce;
  static constexpr bool kReadsBeyond = false;
  static void multiply_rows(std::int64_t rows, std::int64_t panels, const float* a, std::int64_t a_stride,
                            const Values& b, std::int64_t k, float* c) {
    multiply(rows, panels, a, a_stride, b, k, c, kSumColumns);
  }
};
// Heads of one position: a block of keys or values stays in the nearest cache while all of them pass.
template <typename Values>
struct HeadProducts {
  using Few = FewRowProducts<Values>;
  static constexpr std::int64_t kRows = 16;
  static constexpr bool kReadsBeyond = Few::kReadsBeyond;
  static void multiply_rows(std::int64_t rows, std::int64_t panels, const float* a, std::int64_t a_stride,
                            const Values& b, std::int64_t k, float* c) {
    for (std::int64_t row = 0; row < rows; row += Few::kRows)
      Few::multiply_rows(rows - row < Few::kRows ? rows - row : Few::kRows, panels, a + row * a_stride,
                         a_stride, b, k, c + row * kSumColumns);
  }
};
#if defined(ASSAY_HAS_WIDE_CHUNKS)
// kMinChunkRows to Rows rows times two panels.
template <int Rows, typename Values>
void multiply_two_panels(std::int64_t rows, const float* a, std::int64_t a_stride, const Values& b,
                         std::int64_t k, float* c) {
  if constexpr (Rows > kMinChunkRows)
    if (rows < Rows) return multiply_two_panels<Rows - 1>(rows, a, a_stride, b, k, c);
  multiply_block<Rows, 2>(a, a_stride, b, k, c, kSumColumns);
}

// The same sums for 7 rows and more. Pairs of panels: the columns beyond an odd one are read and written too.
template <typename Values>
struct ManyRowProducts {
  static constexpr bool kReadsBeyond = false;
  static constexpr std::int64_t kRows = 12;  // 24 sums, 4 vectors of weights as floats and 1 input
  static void multiply_rows(std::int64_t rows, std::int64_t panels, const float* a, std::int64_t a_stride,
                            const Values& b, std::int64_t k, float* c) {
    for (std::int64_t i = 0; i < panels; i += 2)
      multiply_two_panels<kRows>(rows, a, a_stride, b.panel(i), k, c + i * kPanel);
  }
};
template <>
struct ManyRowProducts<Floats> {
  static constexpr std::int64_t kRows = kChunkRows;
  static constexpr bool kReadsBeyond = false;
  static void multiply_rows(std::int64_t rows, std::int64_t panels, const float* a, std::int64_t a_stride,
                            const Floats& b, std::int64_t k, float* c) {
    for (std::int64_t i = 0; i < panels; i += 2)
      add_spread_chunk(rows, {.a = a,
                              .a_stride = a_stride,
                              .b = b.data + i * b.panel_stride,
                              .b_stride = b.k_stride,
                              .inputs = k,
                              .c = c + i * kPanel});
  }
};
#endif

#if defined(ASSAY_HAS_PAIR_PRODUCTS)
#include "assay/backend/cpu/kernels/avx512bf16/pair_attention-inl.h"
#endif

// How the keys and values of a cache lie.
template <typename Element>
using ValuesOf = decltype(keys_of(AttendArgs{}, static_cast<const Element*>(nullptr)));

template <typename Element>
void attend_row_alone(const AttendArgs& args, std::int64_t row);

// Rows [first_row, first_row + rows), at most Products::kRows. Of a row alone, with room for the values of a
// block: those that it does not see are looked at as zeros.
template <typename Products, typename Element>
void attend_rows(const AttendArgs& args, std::int64_t first_row, std::int64_t rows, Element* room = nullptr) {
  constexpr std::int64_t kBlock = kKvBlockPositions, kRows = Products::kRows;
  alignas(64) float scores[kRows * kBlock];
  alignas(64) float block_out[kRows * kMaxHeadDim];
  alignas(64) float out[kRows * kMaxHeadDim];
  float highest[kRows], total[kRows];
  alignas(64) float factors[(kRows + Vec::kWidth - 1) / Vec::kWidth * Vec::kWidth] = {};
  const std::int64_t padded = args.shape.padded(), first_position = args.position_of(first_row);
  const std::int64_t next = args.rows_are_heads ? 0 : 1;  // from a row's position to that of the next
  const bool bends = args.has_score_modifiers();
  constexpr bool kIsInt8 = sizeof(Element) == 1;
  const Softmax state{highest, total};
  for (std::int64_t row = 0; row < rows; ++row) {
    highest[row] = -__builtin_huge_valf();
    total[row] = 0;
  }
  for (std::int64_t i = 0; i < rows * round_up(padded, kSumColumns); i += Vec::kWidth)
    Vec::set(0.0F).store(out + i);
  const auto sums_at = [&](std::int64_t row, std::int64_t column) {
    return (column / kSumColumns * rows + row) * kSumColumns + column % kSumColumns;
  };
  const std::int64_t last_position = first_position + (rows - 1) * next;
  const std::int64_t oldest = args.window > 0 ? first_position - args.window + 1 : 0;
  const std::int64_t first_key = oldest > args.first_key ? oldest : args.first_key;
  for (std::int64_t block = first_key / kBlock; block <= last_position / kBlock; ++block) {
    const auto* base = static_cast<const Element*>(args.blocks[block]);
    const std::int64_t begin = block * kBlock,
                       keys = last_position - begin + 1 < kBlock ? last_position - begin + 1 : kBlock;
    const bool fetches = rows == 1 || args.rows_are_heads;  // with many rows each passes what is near already
    if (fetches) fetch_values(args.shape, base + args.v_offset, keys);
    // Scores of panels without a key are never looked at: they are masked.
    Products::multiply_rows(rows, (keys + kPanel - 1) / kPanel, args.q + first_row * args.q_stride,
                            args.q_stride, keys_of(args, base), args.shape.head_dim, scores);
    if constexpr (kIsInt8) scale_positions(base + args.k_offset + args.shape.head_dim * kBlock, rows, scores);
    if (bends) bend_scores(args, first_row, rows, begin, round_up(keys, kPanel), scores);
    const auto last_key = [&](std::int64_t row) { return first_position + row * next - begin; };
    const auto first_key_of = [&](std::int64_t row) {
      const std::int64_t in_window = args.window > 0 ? first_position + row * next - args.window + 1 : 0;
      return (in_window > args.first_key ? in_window : args.first_key) - begin;
    };
    weigh_rows(scores, rows, first_key_of, last_key, bends ? 1.0F : args.scale, state, factors);
    const Element* values = base + args.v_offset;
    if (room != nullptr) {
      copy_seen_values(args.shape, values, first_key_of(0), last_key(0), room);
      values = room;
    }
    if constexpr (kIsInt8) scale_positions(values + padded * kBlock, rows, scores);
    if (fetches) fetch_next_keys<Element>(args, block, first_key / kBlock, last_position);
    // Keys beyond the last visible one have weight zero: leaving them out changes no bit.
    for (std::int64_t panel = 0; panel < padded / kPanel; panel += kGroup)
      Products::multiply_rows(rows, padded / kPanel - panel < kGroup ? padded / kPanel - panel : kGroup,
                              scores, kBlock, values_of(args, values).panel(panel), keys,
                              block_out + sums_at(0, panel * kPanel));
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < padded; i += Vec::kWidth) {
        float* sum = out + sums_at(row, i);
        Vec::fma(Vec::load(sum), Vec::set(factors[row]), Vec::load(block_out + sums_at(row, i))).store(sum);
      }
  }
  // Where a row sees all that it is multiplied with there is nothing to look for.
  const bool may_hide = room == nullptr && (rows > 1 || first_key % kBlock > 0 || Products::kReadsBeyond) &&
                        is_any_poisoned(out, rows * round_up(padded, kSumColumns));
  for (std::int64_t row = 0; row < rows; ++row) {
    bool is_bad = false;
    for (std::int64_t i = 0; may_hide && i < args.shape.head_dim; i += kSumColumns) {
      const std::int64_t left = args.shape.head_dim - i;
      is_bad = is_bad || is_any_poisoned(out + sums_at(row, i), left < kSumColumns ? left : kSumColumns);
    }
    if (is_bad && total[row] == total[row]) {
      attend_row_alone<Element>(args, first_row + row);
      continue;
    }
    for (std::int64_t i = 0; i < args.shape.head_dim; i += kSumColumns)
      store_attended(args, first_row + row, i, out + sums_at(row, i), total[row]);
  }
}

// A row whose weights are numbers and whose output is not, perhaps by a value that another row sees and this
// one has a weight of zero for.
template <typename Element>
[[gnu::noinline]] void attend_row_alone(const AttendArgs& args, std::int64_t row) {
  alignas(64) char room[kMaxValueBytes];
  attend_rows<FewRowProducts<ValuesOf<Element>>, Element>(args, row, 1, reinterpret_cast<Element*>(room));
}

// Rows in calls of Products, as many in each as nearly equals give.
template <typename Products, typename Element>
void attend_by(const AttendArgs& args) {
  const std::int64_t calls = (args.rows + Products::kRows - 1) / Products::kRows;
  for (std::int64_t call = 0; call < calls; ++call) {
    const std::int64_t row = args.rows * call / calls, end = args.rows * (call + 1) / calls;
    attend_rows<Products, Element>(args, row, end - row);
  }
}

template <typename Element>
void attend_of(const AttendArgs& args) {
  if (args.rows_are_heads) return attend_by<HeadProducts<ValuesOf<Element>>, Element>(args);
#if defined(ASSAY_HAS_WIDE_CHUNKS)
  using Products = ManyRowProducts<ValuesOf<Element>>;
  if (args.rows >= kMinChunkRows && args.shape.padded() % (2 * kPanel) == 0)
    return attend_by<Products, Element>(args);
#endif
  using Few = FewRowProducts<ValuesOf<Element>>;
  for (std::int64_t row = 0; row < args.rows; row += Few::kRows)
    attend_rows<Few, Element>(args, row, args.rows - row < Few::kRows ? args.rows - row : Few::kRows);
}

void attend(const AttendArgs& args) noexcept {
  attend_of<float>(args);
}
void attend_bfloat16(const AttendArgs& args) noexcept {
  attend_of<std::uint16_t>(args);
}

void attend_int8(const AttendArgs& args) noexcept {
  attend_of<std::int8_t>(args);
}

// One key or value to codes, zero from n on to a whole vector; returns their scale.
float quantize_values(const float* x, std::int64_t n, std::int8_t* codes) {
  Vec best = Vec::set(0.0F), poison = Vec::set(0.0F);
  for (std::int64_t i = 0; i < n; i += Vec::kWidth) {
    const Vec v = Vec::load_n(x + i, n - i < Vec::kWidth ? n - i : Vec::kWidth);
    best = Vec::max(best, Vec::max(v, Vec::sub(Vec::set(0.0F), v)));
    poison = add_poison(poison, v);
  }
  const float largest = best.highest();
  if (is_poisoned(poison)) {
    for (std::int64_t i = 0; i < n; i += Vec::kWidth) Vec::set(0.0F).store_bytes(codes + i);
    return poison.total();
  }
  const float inverse = largest >= 1e-35F ? 127.0F / largest : 0.0F;
  for (std::int64_t i = 0; i < n; i += Vec::kWidth)
    Vec::mul(Vec::load_n(x + i, n - i < Vec::kWidth ? n - i : Vec::kWidth), Vec::set(inverse))
        .store_bytes(codes + i);
  return inverse > 0 ? largest / 127.0F : 0.0F;
}

void store_int8(const StoreArgs& args) noexcept {
  alignas(64) std::int8_t key[kMaxHeadDim];
  const std::int64_t dim = args.shape.head_dim, padded = args.shape.padded();
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const std::int64_t position = args.first_position + row, at = position % kKvBlockPositions;
    auto* block = static_cast<std::int8_t*>(args.blocks[position / kKvBlockPositions]);
    std::int8_t *keys = block + args.k_offset, *values = block + args.v_offset;
    reinterpret_cast<float*>(keys + dim * kKvBlockPositions)[at] =
        quantize_values(args.k + row * args.stride, dim, key);
    for (std::int64_t i = 0; i < dim; ++i) keys[i * kKvBlockPositions + at] = key[i];
    std::int8_t* value = values + at * padded;
    if (Vec::kWidth < kPanel)
      for (std::int64_t i = padded - Vec::kWidth; i < padded; i += Vec::kWidth)
        Vec::set(0.0F).store_bytes(value + i);
    reinterpret_cast<float*>(values + padded * kKvBlockPositions)[at] =
        quantize_values(args.v + row * args.stride, dim, value);
  }
}
