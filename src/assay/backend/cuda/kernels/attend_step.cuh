// Attention of one new row a sequence (attend_step_parts.cuh): the kernel, and what becomes of a chunk. Of a
// few chunks of a row the block that ends last merges them, in order; of many a kernel with a block for each
// head, since one processor would take as long to read them as all others took to make them.
#pragma once

#include "assay/backend/cuda/kernels/attend_step_merge.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// A row of padding becomes 0.
template <int Groups>
ASSAY_DEVICE void clear_step(const AttendArgs& a, const StepPlace& at) {
  const std::int32_t columns = at.heads * at.dim;
  for (std::int32_t i = 2 * thread_index(); i < columns; i += 2 * kStepThreads<Groups>)
    put_attended_pair(a, at.row, at.first_head * at.dim + i, 0, 0);
}

// What a lane has of a chunk: written where there is no other, else left in scratch memory.
template <int Dim, int Groups>
ASSAY_DEVICE void end_step_chunk(const AttendArgs& a, const StepPlace& at,
                                 const StepValues<Dim, Groups>& values) {
  constexpr int kTiles = kStepColumnTiles<Dim, Groups>;
  ASSAY_UNROLL
  for (int half = 0; half < 2; ++half) {
    const float sum = sum_of_weights<Dim>(at, half);
    if (at.g + 8 * half >= at.heads) continue;
    const float part = part_of(sum);
    const bool is_only = at.first_chunk == at.last_chunk;
    const StepScratch scratch(a, grid_x());
    const std::int32_t state = is_only ? 0 : scratch.state(a, at.row, at.head(half), at.chunk);
    if (!is_only && at.warp == 0 && at.t == 0)
      scratch.states.as<Floats2>()[state] = {shared<float>(0)[StepMemory<Dim>::kLargest + at.g + 8 * half],
                                             sum};
    ASSAY_UNROLL
    for (int j = 0; j < kTiles; ++j) {
      const std::int32_t column = 8 * (at.warp * kTiles + j) + 2 * at.t;
      if (column >= at.dim) continue;
      const float x = values[j][2 * half], y = values[j][2 * half + 1];
      if (is_only)
        put_attended_pair(a, at.row, at.head(half) * at.dim + column, x * part, y * part);
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
  weigh_keys<Type, Dim, Groups>(scores, a.attend, at);
  cp_async_wait<0>();
  barrier();
  if (has_columns<Dim, Groups>(at)) {
    StepValues<Dim, Groups> values = {};
    multiply_values<Type, Dim, Groups>(values, at);
    end_step_chunk<Dim, Groups>(a.attend, at, values);
  }
  if (at.first_chunk == at.last_chunk || !a.merges) return;
  if (is_last_of_row<Dim>(a, at)) merge_step<Groups>(a.attend, at);
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
