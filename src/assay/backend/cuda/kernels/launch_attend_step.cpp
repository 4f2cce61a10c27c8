// Attention of decode steps: one kernel where there is one, else those of many rows.
#include "assay/backend/cuda/kernels/attend_step.h"
#include "assay/backend/cuda/kernels/launch_shapes.h"

namespace assay::cuda {

namespace {

constexpr std::int64_t kGroupThreads = 128, kHeadsOfTile = 16;
constexpr std::int64_t kMergeThreads = 256, kMergedInPass = 64;  // attend_step_merge.cuh

// Keys and values of a chunk, the queries of a tile, the largest scores, and a flag (attend_step_parts.cuh).
std::int64_t step_shared_bytes(std::int64_t head_dim) {
  const std::int64_t dim = head_dim <= 64 ? 64 : 128;
  return kChunkKeys * dim * 2 * 2 + kHeadsOfTile * dim * 2 + kHeadsOfTile * 4 * 4 * 4 + 16;
}

}  // namespace

bool has_step_kernel(const CacheLayout& cache, std::int64_t shared_bytes_per_block) {
  return (cache.format == CacheFormat::float16 || cache.format == CacheFormat::bfloat16) &&
         cache.head_dim >= 64 && cache.head_dim <= 128 && cache.head_dim % 4 == 0 &&
         step_shared_bytes(cache.head_dim) <= shared_bytes_per_block;
}

void run(Runtime& runtime, const AttendStepArgs& given) {
  AttendStepArgs args = given;
  const AttendArgs& attend = args.attend;
  if (attend.rows == 0) return;
  const CacheLayout& cache = attend.cache;
  const std::int64_t chunks = (attend.longest + kChunkKeys - 1) / kChunkKeys;
  const bool fits = chunks <= 1 || attend_scratch_floats(attend.rows, attend.heads, cache.head_dim,
                                                         attend.longest) <= attend.scratch_floats;
  if (!fits || !has_step_kernel(cache, runtime.facts().shared_bytes_per_block)) {
    if (args.rotate.pairs > 0)
      run(runtime, RotateStoreArgs{args.rotate, args.store});
    else
      run(runtime, args.store);
    return run(runtime, attend);
  }
  const std::int64_t heads = attend.heads / cache.kv_heads, size = cache.head_dim <= 64 ? 0 : 1;
  const std::int64_t tiles = cache.kv_heads * ((heads + kHeadsOfTile - 1) / kHeadsOfTile);
  // Four groups of warps make a block of many keys short; where blocks of few keys queue up for processors,
  // more small ones share one.
  const bool is_short = chunks > 1 || attend.rows * tiles <= 2 * std::int64_t{runtime.facts().processors};
  args.merges = chunks <= kMergedByStep;
  const Kernels& kernels = runtime.kernels();
  launch(runtime,
         (cache.format == CacheFormat::float16 ? kernels.step_float16
                                               : kernels.step_bfloat16)[size][is_short ? 1 : 0],
         {.grid_x = count_of(chunks > 1 ? chunks : 1),
          .grid_y = count_of(attend.rows),
          .grid_z = count_of(tiles),
          .block = count_of(is_short ? 4 * kGroupThreads : kGroupThreads),
          .shared_bytes = count_of(step_shared_bytes(cache.head_dim))},
         args);
  if (args.merges) return;
  launch(runtime, kernels.merge_step_chunks,
         {.grid_x = count_of(attend.heads),
          .grid_y = count_of(attend.rows),
          .block = count_of(kMergeThreads),
          .shared_bytes = count_of(kMergedInPass * (cache.head_dim + 4) * 4)},
         args);
}

}  // namespace assay::cuda
