// How the chunks of a row are merged (attend_step.cuh): in order, with the bits of merge() of attention.cuh,
// by the block that ends last, or by a kernel with a block for each head.
#pragma once

#include "assay/backend/cuda/kernels/attend_step_scores.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

inline constexpr int kMergeThreads = 256, kMergedInPass = 64;  // chunks

// States of chunks in scratch memory: values of all, and behind them the largest score and sum of each.
struct StepScratch {
  Global<float> values, states;
  std::int32_t chunks, dim;

  ASSAY_DEVICE StepScratch(const AttendArgs& a, std::int32_t of_row)
      : values(a.scratch),
        states(values + a.rows * a.heads * of_row * a.cache.head_dim),
        chunks(of_row),
        dim(a.cache.head_dim) {}
  ASSAY_DEVICE std::int32_t state(const AttendArgs& a, std::int32_t row, std::int32_t head,
                                  std::int32_t chunk) const {
    return (row * a.heads + head) * chunks + chunk;
  }
};

// A lane's chunk among those of its warp: factors for what is merged before it, for itself, and its sum;
// largest: the score before the warp's chunks, then with them.
ASSAY_DEVICE Words4 factors_of_chunk(const Floats2& own, float& largest) {
  float before = largest, all = own.x;
  for (int lanes = 1; lanes < kWarp; lanes *= 2) {
    const float theirs = shuffle_xor(all, lanes);
    if ((thread_index() & lanes) != 0) before = larger(before, theirs);
    all = larger(all, theirs);
  }
  const float now = larger(before, own.x);
  largest = larger(largest, all);
  return Words4{{bits_of(rescale(before, now)), bits_of(rescale(own.x, now)), bits_of(own.y), 0}};
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
    shared<Words4>(0)[row * kMergedAtOnce + at.lane] = factors_of_chunk(own, largest[i]);
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
  const StepScratch scratch(a, grid_x());
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
    const float part = part_of(merged.sum);
    put_attended_pair(a, at.row, column, merged.values[0] * part, merged.values[1] * part);
  }
}

// A block per head (block_x) and row (block_y), where attend_step leaves all chunks: those of a pass come to
// shared memory together.
ASSAY_KERNEL_OF(kMergeThreads)
merge_step_chunks(AttendStepArgs step) {
  wait_for_previous();
  const AttendArgs& a = step.attend;
  constexpr auto kKeys = static_cast<std::int32_t>(kChunkKeys);
  const std::int32_t head = block_x(), row = block_y(), t = thread_index(), dim = a.cache.head_dim,
                     last = Global<const std::int32_t>(a.places.key).load_written<std::int32_t>(row),
                     first_chunk = static_cast<std::int32_t>(first_key_of(a, last)) / kKeys,
                     last_chunk = last < 0 ? -1 : last / kKeys;
  if (first_chunk >= last_chunk) return;  // padding, and what is alone, is written already
  const StepScratch scratch(a, static_cast<std::int32_t>((a.longest + kKeys - 1) / kKeys));
  const Global<const std::byte> values = scratch.values.as<const std::byte>();
  const Shared<std::uint32_t> words = shared<std::uint32_t>(0);
  const std::int32_t factors_at = kMergedInPass * dim / 4;  // in 16 bytes, behind values
  MergedValues merged{};
  float largest = -infinity();
  ASSAY_NO_UNROLL
  for (std::int32_t first = first_chunk; first <= last_chunk; first += kMergedInPass) {
    const std::int32_t count = smaller(last_chunk + 1 - first, kMergedInPass),
                       state = scratch.state(a, row, head, first);
    barrier();  // the pass before has been used
    ASSAY_NO_UNROLL
    for (std::int32_t i = t; i < count * dim / 4; i += kMergeThreads)
      cp_async_16(words, 4 * i, values, (std::int64_t{state} * dim / 4 + i) * 16);
    cp_async_commit();
    if (t < kWarp) {
      Floats2 own[kMergedInPass / kWarp];
      ASSAY_UNROLL
      for (int i = 0; i < kMergedInPass / kWarp; ++i) {
        const std::int32_t chunk = i * kWarp + t;
        own[i] = scratch.states.load_written<Floats2>(state + smaller(chunk, count - 1));
        if (chunk >= count) own[i] = {-infinity(), 0};
      }
      ASSAY_UNROLL
      for (int i = 0; i < kMergedInPass / kWarp; ++i)
        shared<Words4>(0)[factors_at + i * kWarp + t] = factors_of_chunk(own[i], largest);
    }
    cp_async_wait<0>();
    barrier();
    if (2 * t >= dim) continue;
    for (std::int32_t i = 0; i < count; ++i)
      merged.add(shared<Floats2>(0)[(i * dim) / 2 + t], shared<Words4>(0)[factors_at + i],
                 first + i == first_chunk);
  }
  if (2 * t >= dim) return;
  const float part = part_of(merged.sum);
  put_attended_pair(a, row, head * dim + 2 * t, merged.values[0] * part, merged.values[1] * part);
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
