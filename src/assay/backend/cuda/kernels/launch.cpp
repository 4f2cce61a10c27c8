// Which kernels an operation takes, and the shape of their launches; of multiplications launch_linear.cpp.
#include <algorithm>
#include <cmath>

#include "assay/backend/cuda/kernels/kernels.h"
#include "assay/backend/cuda/kernels/launch_many_rows.h"
#include "assay/backend/cuda/kernels/launch_shapes.h"
#include "assay/base/error.h"

namespace assay::cuda {

namespace {

constexpr std::int64_t kAttendThreads = 128, kTileRows = 16;

// Heads that tensor cores attend; int8 codes become bfloat16 there.
bool has_tiles(const Runtime& runtime, const CacheLayout& cache) {
  if (cache.format == CacheFormat::int8 && !has_bfloat16(runtime.facts())) return false;
  return cache.format != CacheFormat::float32 && cache.head_dim >= 64 && cache.head_dim <= 256;
}

void launch_tiles(Runtime& runtime, const AttendArgs& args, std::int64_t chunks, bool is_split) {
  const CacheLayout& cache = args.cache;
  const bool are_codes = cache.format == CacheFormat::int8;
  const int size = cache.head_dim <= 64 ? 0 : cache.head_dim <= 128 ? 1 : 2;
  const std::int64_t dim = std::int64_t{64} << size, values = std::min<std::int64_t>(dim, 128),
                     heads = args.heads / cache.kv_heads;
  const auto bytes = [&](std::int64_t warps, std::int64_t stages) {
    const std::int64_t page = kPagePositions * (dim + values),  // elements
        pages = are_codes ? 2 * page + stages * (page + 2 * kPagePositions * 4) : stages * 2 * page,
                       queries = warps * kTileRows * dim * 2,
                       totals = chunks > 1 && !is_split ? warps * kTileRows * values * 4 : 0;
    return pages + queries + totals;
  };
  // A page ahead where there is room; fewer rows at a time where there is little.
  std::int64_t warps = kAttendThreads / 32, stages = 2;
  while (bytes(warps, stages) > runtime.facts().shared_bytes_per_block && (stages > 1 || warps > 1))
    stages > 1 ? --stages : warps /= 2;
  const std::int64_t tile = warps * kTileRows;
  const std::int64_t of_sequence =
      std::max<std::int64_t>(1, args.rows / std::max<std::int64_t>(1, args.sequences));
  const std::int64_t rows = std::clamp<std::int64_t>(tile / heads, 1, of_sequence);
  const AttendTilesArgs tiles{.attend = args,
                              .rows_of_group = static_cast<std::int32_t>(rows),
                              .tiles = static_cast<std::int32_t>((rows * heads + tile - 1) / tile),
                              .stages = static_cast<std::int32_t>(stages),
                              .processors = std::max(1, runtime.facts().processors)};
  const Kernels& kernels = runtime.kernels();
  launch(runtime,
         are_codes                              ? kernels.attend_int8[size]
         : cache.format == CacheFormat::float16 ? kernels.attend_float16[size]
                                                : kernels.attend_bfloat16[size],
         {.grid_x = is_split ? count_of(chunks) : 1,
          .grid_y = count_of(cache.kv_heads * (dim / values)),
          .grid_z = count_of((args.rows + rows - 1) / rows * tiles.tiles),
          .block = count_of(warps * 32),
          .shared_bytes = count_of(bytes(warps, stages))},
         tiles);
}

}  // namespace

void run(Runtime& runtime, const EmbedArgs& args) {
  if (args.rows == 0) return;
  launch(runtime, runtime.kernels().embed, {.grid_x = count_of(args.rows), .block = count_of(kThreads)},
         args);
}

void run(Runtime& runtime, const NormArgs& args) {
  if (args.rows == 0 || args.groups == 0) return;
  // By the width alone: sums have one order.
  launch(runtime, runtime.kernels().norm,
         {.grid_x = count_of(args.rows * args.groups),
          .block = args.n <= 256 ? 32U : count_of(kThreads),
          .shared_bytes = kReduceBytes},
         args);
}

void run(Runtime& runtime, const GatherArgs& args) {
  launch_rows(runtime, runtime.kernels().gather, args, args.n);
}
void run(Runtime& runtime, const GatedArgs& args) {
  if (gate_many(runtime, args)) return;
  launch_rows(runtime, runtime.kernels().gated, args, args.n);
}
void run(Runtime& runtime, const AddArgs& args) {
  launch_rows(runtime, runtime.kernels().add, args, args.n);
}
void run(Runtime& runtime, const BendArgs& args) {
  launch_rows(runtime, runtime.kernels().bend, args, args.n);
}
void run(Runtime& runtime, const RotateArgs& args) {
  launch_rows(runtime, runtime.kernels().rotate, args, args.heads * args.pairs);
}

void run(Runtime& runtime, const StoreArgs& args) {
  if (args.rows == 0) return;
  launch(runtime, runtime.kernels().store,
         {.grid_x = count_of(args.rows), .grid_y = count_of(args.cache.kv_heads), .grid_z = 2, .block = 32},
         args);
}

void run(Runtime& runtime, const RotateStoreArgs& args) {
  if (args.store.rows == 0 || rotate_and_store_many(runtime, args)) return;
  launch(runtime, runtime.kernels().rotate_and_store,
         {.grid_x = count_of(args.store.rows),
          .grid_y = count_of(args.rotate.heads + args.store.cache.kv_heads),
          .block = 32},
         args);
}

void run(Runtime& runtime, const AttendArgs& args) {
  if (args.rows == 0) return;
  if (args.cache.head_dim > kMaxHeadDim)
    throw Error("attention heads have {} elements; at most {} fit the kernels of a GPU", args.cache.head_dim,
                kMaxHeadDim);
  constexpr std::uint32_t kAttendBytes = (512 + 256 + 128 + 4) * 4;
  LaunchShape shape{.grid_y = count_of(args.rows),
                    .grid_z = count_of(args.heads),
                    .block = count_of(kAttendThreads),
                    .shared_bytes = kAttendBytes};
  const std::int64_t chunks = (args.longest + kChunkKeys - 1) / kChunkKeys;
  // Many rows keep a GPU busy; few take their chunks side by side.
  const bool is_split =
      chunks > 1 && args.rows * args.heads < std::int64_t{4} * runtime.facts().processors &&
      attend_scratch_floats(args.rows, args.heads, args.cache.head_dim, args.longest) <= args.scratch_floats;
  if (has_tiles(runtime, args.cache)) {
    launch_tiles(runtime, args, chunks, is_split);
    if (!is_split) return;
  } else {
    shape.grid_x = is_split ? count_of(chunks) : 1;
    launch(runtime, runtime.kernels().attend, shape, args);
    if (!is_split) return;
    shape.grid_x = 1;
  }
  shape.shared_bytes = 0;
  launch(runtime, runtime.kernels().merge_chunks, shape, args);
}

void run(Runtime& runtime, const ArgmaxArgs& args) {
  launch_blocks(runtime, runtime.kernels().argmax, args, args.rows);
}
void run(Runtime& runtime, const BestKeyArgs& args) {
  if (args.rows == 0 || args.n == 0) return;
  constexpr std::int64_t kLogitsOfThread = 8;
  launch(runtime, runtime.kernels().best_key,
         {.grid_x = blocks_of(args.n, kThreads * kLogitsOfThread),
          .grid_y = count_of(args.rows),
          .block = count_of(kThreads)},
         args);
}
void run(Runtime& runtime, const NextTokenArgs& args) {
  if (args.embed.rows == 0) return;
  launch(
      runtime, runtime.kernels().next_token,
      {.grid_x = count_of(args.embed.rows),
       .block = count_of(std::clamp(round_up(args.embed.columns, 32), std::int64_t{32}, kMaxEmbedThreads))},
      args);
}
void run(Runtime& runtime, const LogProbabilityArgs& args) {
  launch_blocks(runtime, runtime.kernels().log_probability, args, args.rows);
}
void run(Runtime& runtime, const ReduceSlicesArgs& args) {
  if (args.rows == 0 || args.n == 0) return;
  // The highest of each warp, and room for a sum and a largest number of each.
  constexpr std::int64_t kWarps = kThreads / 32, kBytes = kWarps * (kTopTokens * 8 + 8 + 4);
  launch(runtime, runtime.kernels().reduce_slices,
         {.grid_x = blocks_of(args.n, kHeadSlice),
          .grid_y = count_of(args.rows),
          .block = count_of(kThreads),
          .shared_bytes = count_of(kBytes)},
         args);
}

}  // namespace assay::cuda
