// Attention of one new row a sequence (attend_step_parts.cuh): the kernel, and what becomes of a chunk. Of
// several chunks of a row the block that ends last merges them, in order, so that no kernel has to.
#pragma once

#include "assay/backend/cuda/kernels/attend_step_parts.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

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

// A row of padding becomes 0.
template <int Groups>
ASSAY_DEVICE void clear_step(const AttendArgs& a, const StepPlace& at) {
  const std::int32_t columns = at.heads * at.dim;
  for (std::int32_t i = 2 * thread_index(); i < columns; i += 2 * kStepThreads<Groups>)
    put_attended_pair(a, at.row, at.first_head * at.dim + i, 0, 0);
}

// States of chunks in scratch memory: values of all, and behind them the largest score and sum of each.
struct StepScratch {
  Global<float> values, states;
  std::int32_t chunks, dim;

  ASSAY_DEVICE explicit StepScratch(const AttendArgs& a)
      : values(a.scratch),
        states(values + a.rows * a.heads * grid_x() * a.cache.head_dim),
        chunks(grid_x()),
        dim(a.cache.head_dim) {}
  ASSAY_DEVICE std::int32_t state(const AttendArgs& a, std::int32_t row, std::int32_t head,
                                  std::int32_t chunk) const {
    return (row * a.heads + head) * chunks + chunk;
  }
};

// What a lane has of a chunk: written where there is no other, else left in scratch memory.
template <int Dim, int Groups>
ASSAY_DEVICE void end_step_chunk(const AttendArgs& a, const StepPlace& at,
                                 const StepValues<Dim, Groups>& values) {
  constexpr int kTiles = kStepColumnTiles<Dim, Groups>;
  ASSAY_UNROLL
  for (int half = 0; half < 2; ++half) {
    const float sum = sum_of_weights<Dim>(at, half);
    if (at.g + 8 * half >= at.heads) continue;
    const bool is_only = at.first_chunk == at.last_chunk;
    const StepScratch scratch(a);
    const std::int32_t state = is_only ? 0 : scratch.state(a, at.row, at.head(half), at.chunk);
    if (!is_only && at.warp == 0 && at.t == 0)
      scratch.states.as<Floats2>()[state] = {
          shared<float>(0)[StepMemory<Dim>::kLargest + at.g + 8 * half], sum};
    ASSAY_UNROLL
    for (int j = 0; j < kTiles; ++j) {
      const std::int32_t column = 8 * (at.warp * kTiles + j) + 2 * at.t;
      if (column >= at.dim) continue;
      const float x = values[j][2 * half], y = values[j][2 * half + 1];
      if (is_only)
        put_attended_pair(a, at.row, at.head(half) * at.dim + column, x / sum, y / sum);
      else
        scratch.values.as<Floats2>()[(state * at.dim + column) / 2] = {x, y};
    }
  }
}

// Whether all other blocks of the row and the tile of heads have left their chunks.
template <int Dim>
ASSAY_DEVICE bool is_last_of_row(const AttendStepArgs& a, const StepPlace& at) {
  const Shared<std::uint32_t> is_last = shared<std::uint32_t>(4 * StepMemory<Dim>::kIsLast);
  fence();
  barrier();
  if (thread_index() == 0) {
    const auto others = static_cast<std::uint32_t>(at.last_chunk - at.first_chunk);
    const std::uint32_t before =
        atomic_count(Global<std::uint32_t>(a.counters), at.row * a.attend.heads + block_z(), others);
    is_last[0] = before == others ? 1 : 0;
  }
  barrier();
  fence();
  return is_last[0] != 0;
}

// Factors of the chunks [first, first + kMergedAtOnce) of the tile's heads: for what is merged before, for
// the chunk, and the chunk's sum. A warp takes every so manieth head and knows the largest score before.
template <int Warps>
ASSAY_DEVICE void make_factors(const AttendArgs& a, const StepPlace& at, const StepScratch& scratch,
                               std::int32_t first, float (&largest)[kTileRows / Warps]) {
  ASSAY_UNROLL
  for (int i = 0; i < kTileRows / Warps; ++i) {
    const std::int32_t row = at.warp + i * Warps, chunk = first + at.lane;
    if (row >= at.heads) continue;
    Floats2 own{-infinity(), 0};
    if (chunk <= at.last_chunk)
      own = scratch.states.load_written<Floats2>(scratch.state(a, at.row, at.first_head + row, chunk));
    float before = largest[i], all = own.x;
    for (int lanes = 1; lanes < kWarp; lanes *= 2) {
      const float theirs = shuffle_xor(all, lanes);
      if ((at.lane & lanes) != 0) before = larger(before, theirs);
      all = larger(all, theirs);
    }
    const float now = larger(before, own.x);
    largest[i] = larger(largest[i], all);
    shared<Words4>(0)[row * kMergedAtOnce + at.lane] =
        Words4{{bits_of(rescale(before, now)), bits_of(rescale(own.x, now)), bits_of(own.y), 0}};
  }
}

// Two columns of a head, of the chunks so far.
struct MergedValues {
  float values[2], sum;

  ASSAY_DEVICE void add(const Floats2& chunk, const Words4& factors, bool is_first) {
    const float mine = float_of(factors.word[0]), theirs = float_of(factors.word[1]),
                of_chunk = float_of(factors.word[2]);
    sum = is_first ? of_chunk : sum * mine + of_chunk * theirs;
    values[0] = is_first ? chunk.x : values[0] * mine + chunk.x * theirs;
    values[1] = is_first ? chunk.y : values[1] * mine + chunk.y * theirs;
  }
};

// The chunks of the tile's heads, two columns a thread; as merge() of attention.cuh, in order.
template <int Groups>
ASSAY_DEVICE void merge_step(const AttendArgs& a, const StepPlace& at) {
  constexpr int kAhead = 12, kWarps = kStepWarps * Groups;  // 64 KB of 512 threads
  const StepScratch scratch(a);
  const std::int32_t of_head = at.dim / 2, units = at.heads * of_head;
  const Global<const float> values = scratch.values.template as<const float>();
  for (std::int32_t first_unit = 0; first_unit < units; first_unit += kStepThreads<Groups>) {
    const std::int32_t unit = first_unit + thread_index(), row = unit / of_head, columns = unit % of_head;
    MergedValues merged{};
    float largest[kTileRows / kWarps];
    for (float& one : largest) one = -infinity();
    ASSAY_NO_UNROLL
    for (std::int32_t first = at.first_chunk; first <= at.last_chunk; first += kMergedAtOnce) {
      barrier();  // the factors before have been used
      make_factors<kWarps>(a, at, scratch, first, largest);
      barrier();
      if (unit >= units) continue;
      const std::int32_t from = scratch.state(a, at.row, at.first_head + row, 0),
                         end = smaller(first + kMergedAtOnce, at.last_chunk + 1);
      ASSAY_NO_UNROLL
      for (std::int32_t chunk = first; chunk < end; chunk += kAhead) {
        Floats2 loaded[kAhead] = {};
        ASSAY_UNROLL
        for (int i = 0; i < kAhead; ++i)
          if (chunk + i < end)
            loaded[i] = values.load_written<Floats2>((from + chunk + i) * of_head + columns);
        ASSAY_UNROLL
        for (int i = 0; i < kAhead; ++i)
          if (chunk + i < end)
            merged.add(loaded[i], shared<Words4>(0)[row * kMergedAtOnce + chunk + i - first],
                       chunk + i == at.first_chunk);
      }
    }
    if (unit >= units) continue;
    const std::int32_t column = (at.first_head + row) * at.dim + 2 * columns;
    put_attended_pair(a, at.row, column, merged.values[0] / merged.sum, merged.values[1] / merged.sum);
  }
}

// block_x: chunks; block_y: rows; block_z: kv heads, and tiles of the query heads of each.
template <typename Type, int Dim, int Groups>
ASSAY_KERNEL_OF(kStepThreads<Groups>, Dim <= 64 ? 2 : 1)
attend_step(AttendStepArgs a) {
  const StepPlace at(a);
  const StepRotation rotation(a.rotate, at.row, Dim / 2, StepMemory<Dim>::kMaxima);
  if (!at.has_keys()) {
    wait_for_previous();
    if (at.last < 0 && at.chunk == 0) clear_step<Groups>(a.attend, at);
    return;
  }
  const Global<std::byte> newest_page = fetch_chunk<Dim, Groups>(a, at);
  const StepRow<Type, Dim, Groups> own(a, at, rotation, newest_page);
  barrier();
  wait_for_previous();
  own.take(at);
  cp_async_wait<1>();  // the keys
  barrier();
  StepScores<Groups> scores = {};
  multiply_keys<Type, Dim, Groups>(scores, at);
  score_keys<Dim, Groups>(scores, a.attend, at);
  barrier();
  weigh_keys<Type, Dim, Groups>(scores, at);
  cp_async_wait<0>();
  barrier();
  if (has_columns<Dim, Groups>(at)) {
    StepValues<Dim, Groups> values = {};
    multiply_values<Type, Dim, Groups>(values, at);
    end_step_chunk<Dim, Groups>(a.attend, at, values);
  }
  if (at.first_chunk == at.last_chunk) return;
  if (is_last_of_row<Dim>(a, at)) merge_step<Groups>(a.attend, at);
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
