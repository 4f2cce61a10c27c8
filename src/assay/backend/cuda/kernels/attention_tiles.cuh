// Attention by tensor cores, over keys and values in float16, bfloat16 or int8, heads of 64 to 256 elements.
//
// Rows of an mma are pairs of a row of the batch and a head of those that share keys: 16 a warp. A page of 64
// keys is a step, which cp.async fetches a step ahead. Scores become weights where they are (the accumulators
// of S are operand A of P V), rounded to the cache's format. The arithmetic is one for any number of rows:
// pages of a chunk of 256 keys one after the other, rescaled where the largest score grows; chunks as in
// attention.cuh. Of keys of up to 256 elements (KeyDim) a block takes half of the values (Dim), which fit its
// registers: two blocks make the same scores.
//
// int8 codes become bfloat16, exactly, in shared memory: cp.async fetches the codes of a page, and all
// threads expand them into the tiles that the products read. A key's scale multiplies its scores, a value's
// its weights, which are rounded behind it.
#pragma once

#include "assay/backend/cuda/kernels/attention.cuh"
#include "assay/backend/cuda/kernels/linear.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

inline constexpr int kPageKeys = static_cast<int>(kPagePositions), kTileRows = 16;

// Elements of an int8 cache.
struct Codes : Bfloat16 {};
template <typename Type>
inline constexpr bool kAreCodes = std::is_same_v<Type, Codes>;

// 16 bytes of a row of `Dim` elements: 8 rows, read together, meet no bank twice.
template <int Dim>
ASSAY_DEVICE std::int32_t tile_word(std::int32_t row, std::int32_t chunk) {
  return row * (Dim / 2) + ((chunk ^ (row & 7)) * 4);
}

// Where a block's parts of shared memory begin, in words: keys and values of each stage, queries, and values
// of the chunks before, of which each thread has its own. Of codes one place for keys and values that all
// stages share, and in each stage codes and scales of keys, then of values.
template <typename Type, int KeyDim, int Dim>
struct AttendMemory {
  static constexpr bool kExpands = kAreCodes<Type>;
  static constexpr std::int32_t kKeys = kPageKeys * KeyDim / 2, kPage = kKeys + kPageKeys * Dim / 2;
  static constexpr std::int32_t kCodes = kPage / 2, kStages = kExpands ? kPage : 0,
                                kStage = kExpands ? kCodes + 2 * kPageKeys : kPage;
  std::int32_t queries, totals;

  ASSAY_DEVICE explicit AttendMemory(std::int32_t stages)
      : queries(kStages + stages * kStage),
        totals(queries + block_threads() / kWarp * kTileRows * KeyDim / 2) {}
  ASSAY_DEVICE static std::int32_t stage_at(std::int32_t stage) { return kStages + stage * kStage; }
  ASSAY_DEVICE static std::int32_t keys(std::int32_t stage) { return kExpands ? 0 : stage_at(stage); }
  ASSAY_DEVICE static std::int32_t values(std::int32_t stage) { return keys(stage) + kKeys; }
  ASSAY_DEVICE static std::int32_t key_scales(std::int32_t stage) { return stage_at(stage) + kCodes; }
};

// The pairs of a block: rows [first_row, end_row) of the batch times the heads of a kv head, of which this
// block has kTileRows a warp from first_pair on.
struct AttendPlace {
  std::int32_t warp, lane, g, t, heads, first_pair, pairs;
  std::int64_t first_row, end_row, kv_head;

  // `parts` blocks take the values of a kv head.
  ASSAY_DEVICE AttendPlace(const AttendTilesArgs& a, std::int32_t parts)
      : warp(thread_index() / kWarp),
        lane(thread_index() % kWarp),
        g(lane / 4),
        t(lane % 4),
        heads(a.attend.heads / a.attend.cache.kv_heads),
        first_pair(block_y() % a.tiles * (block_threads() / kWarp) * kTileRows),
        pairs(0),
        first_row(std::int64_t{block_y()} / a.tiles * a.rows_of_group),
        end_row(least(first_row + a.rows_of_group, a.attend.rows)),
        kv_head(block_z() / parts) {
    pairs = static_cast<std::int32_t>(end_row - first_row) * heads;
  }
  ASSAY_DEVICE bool has(std::int32_t tile_row) const { return first_pair + tile_row < pairs; }
  ASSAY_DEVICE std::int64_t row(std::int32_t tile_row) const {
    return first_row + (first_pair + tile_row) / heads;
  }
  ASSAY_DEVICE std::int64_t head(std::int32_t tile_row) const {
    return kv_head * heads + (first_pair + tile_row) % heads;
  }
};

// The first of the block's values of a key. Known to the compiler where there is one part.
template <int KeyDim, int Dim>
ASSAY_DEVICE std::int32_t first_value() {
  return KeyDim == Dim ? 0 : block_z() % (KeyDim / Dim) * Dim;
}

// What a lane knows of its two rows of the tile, g and g + 8: the keys they see, none of a row that is not
// there; their largest score and the lane's part of the sum of weights in this chunk, and in those before.
struct TileRows {
  std::int32_t first[2], last[2];
  float slope[2];
  float largest[2], sum[2], total_largest[2], total_sum[2];
};

template <typename Type, int Dim>
ASSAY_DEVICE void load_queries(const AttendTilesArgs& a, const AttendPlace& at, std::int32_t to) {
  const Shared<std::uint32_t> words = shared<std::uint32_t>(0);
  const Global<const float> q(a.attend.q);
  const std::int64_t dim = a.attend.cache.head_dim;
  const std::int32_t rows = block_threads() / kWarp * kTileRows;
  for (std::int32_t i = thread_index(); i < rows * (Dim / 2); i += block_threads()) {
    const std::int32_t row = i / (Dim / 2), word = i % (Dim / 2);
    Floats2 pair{0, 0};
    if (at.has(row)) {
      const std::int64_t from = at.row(row) * a.attend.q_stride + at.head(row) * dim;
      if (2 * word < dim) pair.x = q[from + 2 * word];
      if (2 * word + 1 < dim) pair.y = q[from + 2 * word + 1];
    }
    words[to + tile_word<Dim>(row, word / 4) + word % 4] = packed<Type>(pair);
  }
}

// Keys [first, last] of a page and their values, the others zero; commits.
template <typename Type, int KeyDim, int Dim>
ASSAY_DEVICE void load_page(const AttendTilesArgs& a, const AttendPlace& at, std::int64_t first_page,
                            std::int64_t page, std::int64_t first, std::int64_t last, std::int32_t stage) {
  using Memory = AttendMemory<Type, KeyDim, Dim>;
  constexpr std::int32_t kOfChunk = kAreCodes<Type> ? 16 : 8;  // elements
  constexpr std::int32_t kOfKeys = kPageKeys * KeyDim / kOfChunk, kOfValues = kPageKeys * Dim / kOfChunk;
  const CacheLayout& cache = a.attend.cache;
  const Global<const std::byte> from =
      Global<std::byte>(Global<const DevicePointer<std::byte>>(a.attend.places.pages)[first_page + page])
          .template as<const std::byte>();
  const std::int64_t keys_at = cache.keys_at(a.attend.layer, at.kv_head),
                     values_at = cache.values_at(a.attend.layer, at.kv_head);
  const auto row_bytes = static_cast<std::int32_t>(cache.row_bytes()),
             first_row = static_cast<std::int32_t>(first - page * kPageKeys),
             last_row = static_cast<std::int32_t>(least(last - page * kPageKeys, kPageKeys));
  const Shared<std::uint32_t> words = shared<std::uint32_t>(0);
  ASSAY_NO_UNROLL
  for (std::int32_t i = thread_index(); i < kOfKeys + kOfValues; i += block_threads()) {
    const bool is_key = i < kOfKeys;
    const std::int32_t of_part = is_key ? i : i - kOfKeys,
                       chunks = is_key ? KeyDim / kOfChunk : Dim / kOfChunk, row = of_part / chunks,
                       chunk = of_part % chunks,
                       byte = chunk * 16 + (is_key ? 0 : 16 / kOfChunk * first_value<KeyDim, Dim>());
    const std::int32_t to = kAreCodes<Type> ? Memory::stage_at(stage) + 4 * i
                            : is_key        ? Memory::keys(stage) + tile_word<KeyDim>(row, chunk)
                                            : Memory::values(stage) + tile_word<Dim>(row, chunk);
    if (row >= first_row && row <= last_row && byte < row_bytes)
      cp_async_16(words, to, from, (is_key ? keys_at : values_at) + row * row_bytes + byte);
    else
      for (int j = 0; j < 4; ++j) words[to + j] = 0;
  }
  if constexpr (kAreCodes<Type>) {
    // All of them: nobody takes those of other keys.
    constexpr std::int32_t kOfScales = kPageKeys / 4;
    if (const std::int32_t i = thread_index(); i < 2 * kOfScales)
      cp_async_16(words, Memory::key_scales(stage) + 4 * i, from,
                  (i < kOfScales ? keys_at : values_at) + cache.scales_at() + i % kOfScales * 16);
  }
  cp_async_commit();
}

// Two codes, the low bytes of `codes` with their sign bits flipped, as bfloat16: 2^23 + 128 + code is exact
// in float32, and so is what is left of it.
ASSAY_DEVICE std::uint32_t expanded_pair(std::uint32_t codes) {
  constexpr std::uint32_t kShift = 0x4b000000U;  // 2^23
  const float low = float_of(kShift | (codes & 0xffU)) - 8388736.0F,
              high = float_of(kShift | (codes >> 8 & 0xffU)) - 8388736.0F;
  return bits_of(low) >> 16 | (bits_of(high) & 0xffff0000U);
}
// Codes of a stage into the place of keys and values, 8 at a time.
template <int KeyDim, int Dim>
ASSAY_DEVICE void expand_page(std::int32_t stage) {
  using Memory = AttendMemory<Codes, KeyDim, Dim>;
  constexpr std::int32_t kOfKeys = kPageKeys * KeyDim / 8, kOfValues = kPageKeys * Dim / 8;
  const Shared<std::uint32_t> words = shared<std::uint32_t>(0);
  const Shared<Words4> expanded = shared<Words4>(0);
  for (std::int32_t i = thread_index(); i < kOfKeys + kOfValues; i += block_threads()) {
    const bool is_key = i < kOfKeys;
    const std::int32_t of_part = is_key ? i : i - kOfKeys, chunks = is_key ? KeyDim / 8 : Dim / 8,
                       row = of_part / chunks, chunk = of_part % chunks;
    const std::int32_t to = is_key ? Memory::keys(stage) + tile_word<KeyDim>(row, chunk)
                                   : Memory::values(stage) + tile_word<Dim>(row, chunk);
    const std::uint32_t low = words[Memory::stage_at(stage) + 2 * i] ^ 0x80808080U,
                        high = words[Memory::stage_at(stage) + 2 * i + 1] ^ 0x80808080U;
    expanded[to / 4] = Words4{
        {expanded_pair(low), expanded_pair(low >> 16), expanded_pair(high), expanded_pair(high >> 16)}};
  }
}

// Scores of the 64 keys of a page: of n-tile j keys 8 j + 2 t and the next, rows g and g + 8.
template <typename Type, int Dim>
ASSAY_DEVICE void score_page(float (&s)[8][4], const AttendPlace& at, std::int32_t queries,
                             std::int32_t keys) {
  const std::int32_t q_row = at.warp * kTileRows + at.lane % 16, k_row = at.lane % 8 + at.lane / 16 * 8;
  const Shared<std::uint32_t> words = shared<std::uint32_t>(0);
  ASSAY_NO_UNROLL
  for (int step = 0; step < Dim / 16; ++step) {
    std::uint32_t a[4];
    ldmatrix_x4(a, words, queries + tile_word<Dim>(q_row, 2 * step + at.lane / 16));
    ASSAY_UNROLL
    for (int j = 0; j < 4; ++j) {
      std::uint32_t b[4];
      ldmatrix_x4(b, words, keys + tile_word<Dim>(k_row + 16 * j, 2 * step + at.lane / 8 % 2));
      Type::multiply(s[2 * j], a, {b[0], b[1]});
      Type::multiply(s[2 * j + 1], a, {b[2], b[3]});
    }
  }
}

// Operand A of the weights of a page: four steps of 16 keys.
using PageWeights = std::uint32_t[4][4];

// Scores to weights; values so far are rescaled. scales: of codes, the word of shared memory where those of
// the page's keys begin, and behind them those of its values.
template <typename Type, int Dim>
ASSAY_DEVICE void weigh_page(PageWeights& weights, float (&s)[8][4], float (&values)[Dim / 8][4],
                             TileRows& rows, const AttendArgs& a, const AttendPlace& at, std::int32_t page,
                             std::int32_t scales) {
  float largest[2] = {rows.largest[0], rows.largest[1]};
  // The scales of keys, or values, 8 j + 2 t and the next.
  const auto scale_pair = [&](std::int32_t first, int j) -> Floats2 {
    return shared<Floats2>(0)[(first + 8 * j) / 2 + at.t];
  };
  if constexpr (kAreCodes<Type>) {
    ASSAY_UNROLL
    for (int j = 0; j < 8; ++j) {
      const Floats2 of_keys = scale_pair(scales, j);
      ASSAY_UNROLL
      for (int i = 0; i < 4; ++i) s[j][i] *= i % 2 == 0 ? of_keys.x : of_keys.y;
    }
  }
  cap_scores(s, a);
  const float scale = a.soft_cap != 0 ? 1.0F : a.scale;
  ASSAY_UNROLL
  for (int j = 0; j < 8; ++j) ASSAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    const std::int32_t key = page * kPageKeys + 8 * j + 2 * at.t + i % 2;
    const int half = i / 2;
    float score = scale * s[j][i];
    if (a.slopes) score += rows.slope[half] * static_cast<float>(key - rows.last[half]);
    s[j][i] = key >= rows.first[half] && key <= rows.last[half] ? score : -infinity();
    largest[half] = larger(largest[half], s[j][i]);
  }
  float mine[2], of_page[2] = {}, of_step[2] = {};
  ASSAY_UNROLL
  for (int half = 0; half < 2; ++half) {
    largest[half] = larger(largest[half], shuffle_xor(largest[half], 1));
    largest[half] = larger(largest[half], shuffle_xor(largest[half], 2));
    mine[half] = rescale(rows.largest[half], largest[half]);
    rows.largest[half] = largest[half];
  }
  ASSAY_UNROLL
  for (int j = 0; j < 8; ++j) {
    Floats2 of_values{1, 1};
    if constexpr (kAreCodes<Type>) of_values = scale_pair(scales + kPageKeys, j);
    ASSAY_UNROLL
    for (int half = 0; half < 2; ++half) {
      std::uint32_t pair = 0;
      ASSAY_UNROLL
      for (int i = 0; i < 2; ++i) {
        const float score = s[j][2 * half + i];
        float weight = score == -infinity() ? 0.0F : expf(score - largest[half]);
        if constexpr (kAreCodes<Type>) {
          of_step[half] += weight;
          // Behind a key that is not seen is whatever was there.
          if (score != -infinity()) weight *= i == 0 ? of_values.x : of_values.y;
        }
        const std::uint32_t bits = Type::bits(weight);
        if constexpr (!kAreCodes<Type>)
          of_step[half] += Type::value(bits);  // what is multiplied is what is added up
        pair |= bits << (16 * i);
      }
      weights[j / 2][j % 2 * 2 + half] = pair;
      if (j % 2 == 0) continue;
      of_page[half] += of_step[half];  // attend_step has the sums of steps side by side
      of_step[half] = 0;
    }
  }
  ASSAY_UNROLL
  for (int j = 0; j < Dim / 8; ++j) ASSAY_UNROLL
  for (int i = 0; i < 4; ++i) values[j][i] *= mine[i / 2];
  ASSAY_UNROLL
  for (int half = 0; half < 2; ++half) rows.sum[half] = rows.sum[half] * mine[half] + of_page[half];
}

// Without an index into registers.
ASSAY_DEVICE void weights_of_step(std::uint32_t (&a)[4], const PageWeights& weights, int step) {
  ASSAY_UNROLL
  for (int j = 0; j < 4; ++j)
    a[j] =
        step < 2 ? (step == 0 ? weights[0][j] : weights[1][j]) : (step == 2 ? weights[2][j] : weights[3][j]);
}
template <int Dim>
ASSAY_DEVICE void load_values(std::uint32_t (&b)[4], const AttendPlace& at, std::int32_t values, int step,
                              int pair) {
  ldmatrix_x4_trans(b, shared<std::uint32_t>(0),
                    values + tile_word<Dim>(16 * step + at.lane % 16, 2 * pair + at.lane / 16));
}

template <typename Type, int Dim>
ASSAY_DEVICE void add_values(float (&values)[Dim / 8][4], const PageWeights& weights, const AttendPlace& at,
                             std::int32_t from) {
  ASSAY_NO_UNROLL
  for (int step = 0; step < 4; ++step) {
    std::uint32_t a[4];
    weights_of_step(a, weights, step);
    ASSAY_UNROLL
    for (int pair = 0; pair < Dim / 16; ++pair) {
      std::uint32_t b[4];
      load_values<Dim>(b, at, from, step, pair);
      Type::multiply(values[2 * pair], a, {b[0], b[1]});
      Type::multiply(values[2 * pair + 1], a, {b[2], b[3]});
    }
  }
}

// The elements of two keys, key and the next, that a row sees; the others 0.
ASSAY_DEVICE std::uint32_t seen(std::uint32_t pair, std::int32_t key, std::int32_t first, std::int32_t last) {
  return (key >= first && key <= last ? pair & 0xffffU : 0U) |
         (key + 1 >= first && key + 1 <= last ? pair & 0xffff0000U : 0U);
}
// The same of values that are not all finite, where a row does not see all of the page: a weight of 0 would
// not keep them away, so each row has its own operand B.
template <typename Type, int Dim>
ASSAY_DEVICE void add_values_by_row(float (&values)[Dim / 8][4], const PageWeights& weights,
                                    const TileRows& rows, const AttendPlace& at, std::int32_t from,
                                    std::int32_t page) {
  ASSAY_NO_UNROLL
  for (int i = 0; i < 4 * kTileRows; ++i) {
    const int row = i / 4, step = i % 4;
    const std::int32_t first = shuffle_from(row < 8 ? rows.first[0] : rows.first[1], row % 8 * 4),
                       last = shuffle_from(row < 8 ? rows.last[0] : rows.last[1], row % 8 * 4),
                       key = page * kPageKeys + 16 * step + 2 * at.t;
    std::uint32_t a[4];
    weights_of_step(a, weights, step);
    const bool is_low = at.g == row && row < 8, is_high = at.g + 8 == row;
    ASSAY_UNROLL
    for (int j = 0; j < Dim / 8; ++j) {
      std::uint32_t b[4];
      load_values<Dim>(b, at, from, step, j / 2);
      float c[4] = {values[j][0], values[j][1], values[j][2], values[j][3]};
      Type::multiply(c, a,
                     {seen(b[j % 2 * 2], key, first, last), seen(b[j % 2 * 2 + 1], key + 8, first, last)});
      ASSAY_UNROLL
      for (int k = 0; k < 4; ++k)
        if (k < 2 ? is_low : is_high) values[j][k] = c[k];
    }
  }
}
// Whether a value of the page that is in shared memory is not finite.
template <typename Type, int Dim>
ASSAY_DEVICE bool has_others(const AttendPlace& at, std::int32_t from) {
  const Shared<std::uint32_t> words = shared<std::uint32_t>(0);
  bool found = false;
  for (std::int32_t i = at.lane; i < kPageKeys * Dim / 2; i += kWarp) {
    const std::uint32_t pair = words[from + i];
    found = found || !is_finite(Type::value(pair & 0xffffU)) || !is_finite(Type::value(pair >> 16));
  }
  return ballot(found) != 0;
}

// A chunk's end: its states are merged with those of the chunks before, as merge() does, or left for
// merge_chunks. Of rows that see none of its keys nothing happens.
template <int KeyDim, int Dim>
ASSAY_DEVICE void end_chunk(const AttendTilesArgs& a, const AttendPlace& at, TileRows& rows,
                            float (&values)[Dim / 8][4], std::int64_t chunk, std::int32_t totals) {
  const Shared<float> held = shared<float>(0);
  const auto dim = static_cast<std::int32_t>(a.attend.cache.head_dim);
  ASSAY_UNROLL
  for (int half = 0; half < 2; ++half) {
    float sum = rows.sum[half];
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    const float chunk_largest = rows.largest[half];
    rows.largest[half] = -infinity();
    rows.sum[half] = 0;
    const std::int64_t first_chunk = rows.first[half] / kChunkKeys;
    if (rows.first[half] > rows.last[half] || chunk < first_chunk || chunk > rows.last[half] / kChunkKeys)
      continue;
    const std::int32_t tile_row = at.warp * kTileRows + at.g + 8 * half;
    if (grid_x() > 1) {
      const Global<float> to = chunk_scratch(a.attend, at.row(tile_row), at.head(tile_row), chunk, grid_x());
      if (at.t == 0 && first_value<KeyDim, Dim>() == 0) {
        to[0] = chunk_largest;
        to[1] = sum;
      }
      ASSAY_UNROLL
      for (int j = 0; j < Dim / 8; ++j) ASSAY_UNROLL
      for (int i = 0; i < 2; ++i)
        if (const std::int32_t column = first_value<KeyDim, Dim>() + 8 * j + 2 * at.t + i; column < dim)
          to[2 + column] = values[j][2 * half + i];
      continue;
    }
    const bool is_first = chunk == first_chunk;
    const float largest = is_first ? chunk_largest : larger(rows.total_largest[half], chunk_largest);
    const float mine = is_first ? 1.0F : rescale(rows.total_largest[half], largest),
                theirs = is_first ? 1.0F : rescale(chunk_largest, largest);
    rows.total_largest[half] = largest;
    rows.total_sum[half] = is_first ? sum : rows.total_sum[half] * mine + sum * theirs;
    const bool is_last = chunk == rows.last[half] / kChunkKeys;
    const Global<float> out =
        Global<float>(a.attend.out) + (at.row(tile_row) * a.attend.out_stride + at.head(tile_row) * dim);
    ASSAY_UNROLL
    for (int j = 0; j < Dim / 8; ++j) ASSAY_UNROLL
    for (int i = 0; i < 2; ++i) {
      const std::int32_t slot = totals + (4 * j + 2 * half + i) * block_threads() + thread_index();
      float value = values[j][2 * half + i];
      if (!is_first) value = static_cast<float>(held[slot]) * mine + value * theirs;
      if (!is_last)
        held[slot] = value;
      else if (const std::int32_t column = first_value<KeyDim, Dim>() + 8 * j + 2 * at.t + i; column < dim)
        out[column] = value / rows.total_sum[half];
    }
    if (KeyDim <= kMaxOrderedHeadDim && is_last && a.attend.ordered.out)
      order_attended<Dim / 4>(a.attend, at.row(tile_row), at.head(tile_row),
                              first_value<KeyDim, Dim>() + 2 * at.t);
  }
  ASSAY_UNROLL
  for (int j = 0; j < Dim / 8; ++j) ASSAY_UNROLL
  for (int i = 0; i < 4; ++i) values[j][i] = 0;
}

// Rows [first, end) of the batch that stand in one sequence, and the keys that any of them sees.
struct SequenceRun {
  std::int64_t end, first_page, first_key, last_key;

  ASSAY_DEVICE SequenceRun(const AttendArgs& a, std::int64_t first, std::int64_t end_row)
      : end(first),
        first_page(Global<const std::int32_t>(a.places.first_page)[first]),
        first_key(0),
        last_key(-1) {
    for (; end < end_row && Global<const std::int32_t>(a.places.first_page)[end] == first_page; ++end) {
      const std::int64_t last = Global<const std::int32_t>(a.places.key)[end];
      if (last < 0) continue;
      const std::int64_t its_first = first_key_of(a, last);
      first_key = last_key < 0 ? its_first : least(first_key, its_first);
      last_key = larger(last_key, last);
    }
  }
};

template <typename Type, int KeyDim, int Dim>
ASSAY_DEVICE void attend_run(const AttendTilesArgs& a, const AttendPlace& at, const SequenceRun& run,
                             TileRows& rows) {
  const AttendMemory<Type, KeyDim, Dim> memory(a.stages);
  auto page = static_cast<std::int32_t>(run.first_key / kPageKeys),
       end = static_cast<std::int32_t>(run.last_key / kPageKeys) + 1;
  constexpr auto kChunkPages = static_cast<std::int32_t>(kChunkKeys / kPagePositions);
  if (grid_x() > 1) {
    page = larger(page, block_x() * kChunkPages);
    end = smaller(end, (block_x() + 1) * kChunkPages);
  }
  if (page >= end) return;
  float values[Dim / 8][4] = {};
  const bool has_rows = at.has(at.warp * kTileRows);  // a warp without rows helps to load
  const auto load = [&](std::int32_t which) {
    if (which < end)
      load_page<Type, KeyDim, Dim>(a, at, run.first_page, which, run.first_key, run.last_key,
                                   which % a.stages);
    else
      cp_async_commit();
  };
  load(page);
  for (; page < end; ++page) {
    const std::int32_t stage = page % a.stages;
    if (a.stages > 1) {
      load(page + 1);
      cp_async_wait<1>();
    } else {
      cp_async_wait<0>();
    }
    barrier();
    if constexpr (kAreCodes<Type>) {
      expand_page<KeyDim, Dim>(stage);
      barrier();
    }
    if (has_rows) {
      const std::int32_t first = page * kPageKeys, last = first + kPageKeys - 1;
      bool is_cut = false;
      for (int half = 0; half < 2; ++half)
        is_cut = is_cut || (rows.first[half] <= rows.last[half] &&
                            (rows.first[half] > first || rows.last[half] < last));
      float s[8][4] = {};
      score_page<Type, KeyDim>(s, at, memory.queries, memory.keys(stage));
      PageWeights weights;
      weigh_page<Type, Dim>(weights, s, values, rows, a.attend, at, page, memory.key_scales(stage));
      // Codes are always finite: what is not is a scale, and belongs to the weights.
      if (!kAreCodes<Type> && ballot(is_cut) != 0 && has_others<Type, Dim>(at, memory.values(stage)))
        add_values_by_row<Type, Dim>(values, weights, rows, at, memory.values(stage), page);
      else
        add_values<Type, Dim>(values, weights, at, memory.values(stage));
      if (page + 1 == end || (page + 1) % kChunkPages == 0)
        end_chunk<KeyDim, Dim>(a, at, rows, values, page / kChunkPages, memory.totals);
    }
    barrier();  // the page has been used
    if (a.stages == 1) load(page + 1);
  }
  cp_async_wait<0>();
}

// block_x: one, which takes all chunks, or one for each; block_y: groups of rows, and the tiles of their
// pairs; block_z: kv heads, and the parts of their values.
template <typename Type, int KeyDim, int Dim>
ASSAY_KERNEL_OF(kAttendThreads)
attend_tiles(AttendTilesArgs a) {
  wait_for_previous();
  const AttendPlace at(a, KeyDim / Dim);
  load_queries<Type, KeyDim>(a, at, AttendMemory<Type, KeyDim, Dim>(a.stages).queries);
  const Global<const std::int32_t> keys(a.attend.places.key);
  for (std::int64_t row = at.first_row; row < at.end_row;) {
    const SequenceRun run(a.attend, row, at.end_row);
    TileRows rows;
    for (int half = 0; half < 2; ++half) {
      const std::int32_t tile_row = at.warp * kTileRows + at.g + 8 * half;
      const std::int64_t its_row = at.has(tile_row) ? at.row(tile_row) : -1;
      const bool is_here = its_row >= row && its_row < run.end;
      rows.last[half] = is_here ? std::int32_t{keys[its_row]} : -1;
      rows.first[half] =
          rows.last[half] < 0 ? 0 : static_cast<std::int32_t>(first_key_of(a.attend, rows.last[half]));
      rows.slope[half] =
          is_here && a.attend.slopes ? Global<const float>(a.attend.slopes)[at.head(tile_row)] : 0;
      rows.largest[half] = rows.total_largest[half] = -infinity();
      rows.sum[half] = rows.total_sum[half] = 0;
      if (is_here && rows.last[half] < 0 && grid_x() == 1 && first_value<KeyDim, Dim>() == 0) {  // padding
        clear_attended<KeyDim <= kMaxOrderedHeadDim>(a.attend, its_row, at.head(tile_row), at.t);
      }
    }
    if (run.last_key >= 0) attend_run<Type, KeyDim, Dim>(a, at, run, rows);
    row = run.end;
  }
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
