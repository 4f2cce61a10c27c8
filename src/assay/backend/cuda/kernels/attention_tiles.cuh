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

#include "assay/backend/cuda/kernels/attention_weights.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// Without an index into registers.
ASSAY_DEVICE void weights_of_step(std::uint32_t (&a)[4], const PageWeights& weights, int step) {
  ASSAY_UNROLL
  for (int j = 0; j < 4; ++j)
    a[j] =
        step < 2 ? (step == 0 ? weights[0][j] : weights[1][j]) : (step == 2 ? weights[2][j] : weights[3][j]);
}
// Where a lane's first values of a page are: those of other columns by an exclusive or, as keys in
// score_page.
template <int Dim>
ASSAY_DEVICE std::int32_t first_values(const AttendPlace& at, std::int32_t from) {
  return from + tile_word<Dim>(at.lane % 16, at.lane / 16);
}

template <typename Type, int Dim>
ASSAY_DEVICE void add_values(float (&values)[Dim / 8][4], const PageWeights& weights, const AttendPlace& at,
                             std::int32_t from) {
  const std::int32_t first = opaque(first_values<Dim>(at, from));
  ASSAY_UNROLL
  for (int step = 0; step < 4; ++step) {
    ASSAY_UNROLL
    for (int pair = 0; pair < Dim / 16; ++pair) {
      std::uint32_t b[4];
      ldmatrix_x4_trans(b, shared<std::uint32_t>(0), (first ^ (8 * pair)) + 16 * step * (Dim / 2));
      Type::multiply(values[2 * pair], weights[step], {b[0], b[1]});
      Type::multiply(values[2 * pair + 1], weights[step], {b[2], b[3]});
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
    const int turn = opaque(i), row = turn / 4, step = turn % 4;
    const std::int32_t first = shuffle_from(row < 8 ? rows.first[0] : rows.first[1], row % 8 * 4),
                       last = shuffle_from(row < 8 ? rows.last[0] : rows.last[1], row % 8 * 4),
                       key = page * kPageKeys + 16 * step + 2 * at.t;
    std::uint32_t a[4];
    weights_of_step(a, weights, step);
    const bool is_low = at.g == row && row < 8, is_high = at.g + 8 == row;
    const std::int32_t its_first = opaque(first_values<Dim>(at, from) + 16 * step * (Dim / 2));
    ASSAY_UNROLL
    for (int pair = 0; pair < Dim / 16; ++pair) {
      std::uint32_t b[4];
      ldmatrix_x4_trans(b, shared<std::uint32_t>(0), its_first ^ (8 * pair));
      ASSAY_UNROLL
      for (int part = 0; part < 2; ++part) {
        float(&sums)[4] = values[2 * pair + part];
        float c[4] = {sums[0], sums[1], sums[2], sums[3]};
        Type::multiply(c, a,
                       {seen(b[2 * part], key, first, last), seen(b[2 * part + 1], key + 8, first, last)});
        ASSAY_UNROLL
        for (int k = 0; k < 4; ++k)
          if (k < 2 ? is_low : is_high) sums[k] = c[k];
      }
    }
  }
}
// Whether a value of the page that is in shared memory is not finite: a carry out of an exponent that is set.
template <typename Type, int Dim>
ASSAY_DEVICE bool has_others(const AttendPlace& at, std::int32_t from) {
  constexpr std::uint32_t kExponents = Type::kExponent * 0x10001U, kLowest = kExponents & (~kExponents << 1),
                          kCarries = 0x80008000U;
  const Shared<Words4> words = shared<Words4>(4 * from);
  std::uint32_t carries = 0;
  ASSAY_NO_UNROLL
  for (int first = 0; first < kPageKeys * Dim / 8; first += 4 * kWarp) {
    ASSAY_UNROLL
    for (int i = 0; i < 4; ++i) {
      const Words4 elements = words[first + i * kWarp + at.lane];
      ASSAY_UNROLL
      for (int j = 0; j < 4; ++j) carries |= (elements.word[j] & kExponents) + kLowest;
    }
  }
  return ballot((carries & kCarries) != 0) != 0;
}

// A row's values of all its keys.
template <int KeyDim, int Dim>
ASSAY_DEVICE void write_row(const AttendArgs& a, const AttendPlace& at, std::int32_t tile_row,
                            const float (&values)[Dim / 8][4], int half, float sum) {
  const auto dim = static_cast<std::int32_t>(a.cache.head_dim);
  const std::int32_t row = at.row(tile_row), head = at.head(tile_row);
  const float part = part_of(sum);
  ASSAY_UNROLL
  for (int j = 0; j < Dim / 8; ++j) {
    const std::int32_t column = first_value<KeyDim, Dim>(at) + 8 * j + 2 * at.t;
    if (column >= dim) continue;
    const float x = values[j][2 * half] * part, y = values[j][2 * half + 1] * part;
    if (dim % 2 == 0) {
      put_attended_pair(a, row, head * dim + column, x, y);
      continue;
    }
    put_attended(a, row, head, column, x);
    if (column + 1 < dim) put_attended(a, row, head, column + 1, y);
  }
}

// A row's chunk, for merge_chunks.
template <int KeyDim, int Dim>
ASSAY_DEVICE void leave_chunk(const AttendArgs& a, const AttendPlace& at, std::int32_t tile_row,
                              const float (&values)[Dim / 8][4], int half, std::int64_t chunk, float largest,
                              float sum) {
  const auto dim = static_cast<std::int32_t>(a.cache.head_dim);
  const Global<float> to = chunk_scratch(a, at.row(tile_row), at.head(tile_row), chunk, grid_x());
  if (at.t == 0 && first_value<KeyDim, Dim>(at) == 0) {
    to[0] = largest;
    to[1] = sum;
  }
  ASSAY_UNROLL
  for (int j = 0; j < Dim / 8; ++j) ASSAY_UNROLL
  for (int i = 0; i < 2; ++i)
    if (const std::int32_t column = first_value<KeyDim, Dim>(at) + 8 * j + 2 * at.t + i; column < dim)
      to[2 + column] = values[j][2 * half + i];
}

// A chunk's end: its states are merged with those of the chunks before, as merge() does, or left for
// merge_chunks. Of rows that see none of its keys nothing happens.
template <int KeyDim, int Dim>
ASSAY_DEVICE void end_chunk(const AttendTilesArgs& a, const AttendPlace& at, TileRows& rows,
                            float (&values)[Dim / 8][4], std::int32_t chunk, std::int32_t totals) {
  constexpr auto kKeys = static_cast<std::int32_t>(kChunkKeys);
  const Shared<Floats2> held = shared<Floats2>(4 * totals);
  ASSAY_UNROLL
  for (int half = 0; half < 2; ++half) {
    float sum = rows.sum[half];
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    const float chunk_largest = rows.largest[half];
    rows.largest[half] = -infinity();
    rows.sum[half] = 0;
    const std::int32_t first_chunk = rows.first[half] / kKeys, last_chunk = rows.last[half] / kKeys,
                       tile_row = at.warp * kTileRows + at.g + 8 * half;
    if (rows.first[half] > rows.last[half] || chunk < first_chunk || chunk > last_chunk) continue;
    if (grid_x() > 1) {
      leave_chunk<KeyDim, Dim>(a.attend, at, tile_row, values, half, chunk, chunk_largest, sum);
      continue;
    }
    const std::int32_t slot = half * (Dim / 8) * block_threads() + thread_index();
    if (chunk == first_chunk) {
      rows.total_largest[half] = chunk_largest;
      rows.total_sum[half] = sum;
    } else {
      const float largest = larger(rows.total_largest[half], chunk_largest),
                  mine = rescale(rows.total_largest[half], largest), theirs = rescale(chunk_largest, largest);
      rows.total_largest[half] = largest;
      rows.total_sum[half] = rows.total_sum[half] * mine + sum * theirs;
      ASSAY_UNROLL
      for (int j = 0; j < Dim / 8; ++j) {
        const Floats2 before = held[slot + j * block_threads()];
        values[j][2 * half] = before.x * mine + values[j][2 * half] * theirs;
        values[j][2 * half + 1] = before.y * mine + values[j][2 * half + 1] * theirs;
      }
    }
    if (chunk == last_chunk) {
      write_row<KeyDim, Dim>(a.attend, at, tile_row, values, half, rows.total_sum[half]);
      continue;
    }
    ASSAY_UNROLL
    for (int j = 0; j < Dim / 8; ++j)
      held[slot + j * block_threads()] = {values[j][2 * half], values[j][2 * half + 1]};
  }
  ASSAY_UNROLL
  for (int j = 0; j < Dim / 8; ++j) ASSAY_UNROLL
  for (int i = 0; i < 4; ++i) values[j][i] = 0;
}

// Rows [first, end) of the batch that stand in one sequence, and the keys that any of them sees.
struct SequenceRun {
  std::int32_t end, first_page, first_key, last_key;

  ASSAY_DEVICE SequenceRun(const AttendArgs& a, std::int32_t first, std::int32_t end_row)
      : end(first),
        first_page(Global<const std::int32_t>(a.places.first_page)[first]),
        first_key(0),
        last_key(-1) {
    for (; end < end_row && Global<const std::int32_t>(a.places.first_page)[end] == first_page; ++end) {
      const std::int32_t last = Global<const std::int32_t>(a.places.key)[end];
      if (last < 0) continue;
      const auto its_first = static_cast<std::int32_t>(first_key_of(a, last));
      first_key = last_key < 0 ? its_first : smaller(first_key, its_first);
      last_key = larger(last_key, last);
    }
  }
};

// What a warp makes of a page that is in shared memory.
template <typename Type, int KeyDim, int Dim>
ASSAY_DEVICE void attend_page(const AttendTilesArgs& a, const AttendPlace& at, const Softmax& softmax,
                              const HeldQueries<KeyDim>& queries, TileRows& rows, float (&values)[Dim / 8][4],
                              std::int32_t page, std::int32_t stage) {
  using Memory = AttendMemory<Type, KeyDim, Dim>;
  const std::int32_t first = page * kPageKeys, from = Memory::values(stage);
  const bool is_cut = ballot(rows.are_cut(first, first + kPageKeys - 1)) != 0;
  float s[8][4] = {};
  score_page<Type, KeyDim>(s, at, queries, Memory::keys(stage));
  compare_page<Type>(s, rows, a.attend, softmax, at, first, is_cut, Memory::key_scales(stage));
  PageWeights weights;
  weigh_page<Type, Dim>(weights, s, values, rows, softmax, at, Memory::key_scales(stage));
  // Codes are always finite: what is not is a scale, and belongs to the weights.
  if (!kAreCodes<Type> && is_cut && has_others<Type, Dim>(at, from))
    add_values_by_row<Type, Dim>(values, weights, rows, at, from, page);
  else
    add_values<Type, Dim>(values, weights, at, from);
}

template <typename Type, int KeyDim, int Dim>
ASSAY_DEVICE void attend_run(const AttendTilesArgs& a, const AttendPlace& at, const SequenceRun& run,
                             TileRows& rows) {
  const AttendMemory<Type, KeyDim, Dim> memory(a.stages);
  std::int32_t page = run.first_key / kPageKeys, end = run.last_key / kPageKeys + 1;
  constexpr auto kChunkPages = static_cast<std::int32_t>(kChunkKeys / kPagePositions);
  if (grid_x() > 1) {
    page = larger(page, block_x() * kChunkPages);
    end = smaller(end, (block_x() + 1) * kChunkPages);
  }
  if (page >= end) return;
  PageStream<Type, KeyDim, Dim> pages(a, at, run.first_page, page, end);
  const auto load = [&](std::int32_t stage) { pages.load(a, at, run.first_key, run.last_key, stage); };
  const bool has_rows = at.has(at.warp * kTileRows),  // a warp without rows helps to load
      is_ahead = a.stages > 1;
  std::int32_t stage = 0;
  load(stage);
  warp_barrier();  // its queries
  const HeldQueries<KeyDim> queries(at, memory.queries);
  const Softmax softmax(a.attend);
  float values[Dim / 8][4] = {};
  ASSAY_NO_UNROLL
  for (; page < end; ++page) {
    cp_async_wait<0>();
    barrier();  // the page is there, and the one before has been used
    if (is_ahead) load(stage ^ 1);
    if constexpr (kAreCodes<Type>) {
      expand_page<KeyDim, Dim>(stage);
      barrier();
    }
    if (has_rows) {
      attend_page<Type, KeyDim, Dim>(a, at, softmax, queries, rows, values, page, stage);
      if (page + 1 == end || (page + 1) % kChunkPages == 0)
        end_chunk<KeyDim, Dim>(a, at, rows, values, page / kChunkPages, memory.totals);
    }
    if (is_ahead) {
      stage ^= 1;
    } else {
      barrier();  // the page has been used
      load(stage);
    }
  }
  barrier();
}

// Blocks that share a processor, by shared memory and registers.
template <int KeyDim>
inline constexpr int kAttendBlocks = KeyDim <= 64    ? 3
                                     : KeyDim <= 128 ? 2
                                                     : 1;

// block_x: one, which takes all chunks, or one for each; block_y and block_z: as many blocks as there
// are kv heads, parts of their values, groups of rows and tiles of their pairs (AttendPlace::rank_of).
template <typename Type, int KeyDim, int Dim>
ASSAY_KERNEL_OF(kAttendThreads, kAttendBlocks<KeyDim>)
attend_tiles(AttendTilesArgs a) {
  wait_for_previous();
  const AttendPlace at(a, KeyDim / Dim);
  load_queries<Type, KeyDim>(a, at, AttendMemory<Type, KeyDim, Dim>(a.stages).queries);
  const Global<const std::int32_t> keys(a.attend.places.key);
  for (std::int32_t row = at.first_row; row < at.end_row;) {
    const SequenceRun run(a.attend, row, at.end_row);
    TileRows rows;
    for (int half = 0; half < 2; ++half) {
      const std::int32_t tile_row = at.warp * kTileRows + at.g + 8 * half;
      const std::int32_t its_row = at.has(tile_row) ? at.row(tile_row) : -1;
      const bool is_here = its_row >= row && its_row < run.end;
      rows.last[half] = is_here ? std::int32_t{keys[its_row]} : -1;
      rows.first[half] =
          rows.last[half] < 0 ? 0 : static_cast<std::int32_t>(first_key_of(a.attend, rows.last[half]));
      rows.slope[half] =
          is_here && a.attend.slopes ? Global<const float>(a.attend.slopes)[at.head(tile_row)] : 0;
      rows.largest[half] = rows.total_largest[half] = -infinity();
      rows.sum[half] = rows.total_sum[half] = 0;
      if (is_here && rows.last[half] < 0 && grid_x() == 1 && first_value<KeyDim, Dim>(at) == 0) {  // padding
        clear_attended<KeyDim <= kMaxOrderedHeadDim>(a.attend, its_row, at.head(tile_row), at.t);
      }
    }
    if (run.last_key >= 0) attend_run<Type, KeyDim, Dim>(a, at, run, rows);
    row = run.end;
  }
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
