// Which kernels an operation takes, and the shape of their launches.
#include <algorithm>
#include <cmath>

#include "assay/backend/cuda/kernels/kernels.h"
#include "assay/base/error.h"

namespace assay::cuda {

namespace {

constexpr std::int64_t kThreads = 256;

std::uint32_t count_of(std::int64_t n) {
  return static_cast<std::uint32_t>(n);
}
std::uint32_t blocks_of(std::int64_t n, std::int64_t unit) {
  return count_of((n + unit - 1) / unit);
}

// A row or an operation of nothing launches nothing.
template <typename Args>
void launch_rows(Runtime& runtime, const Kernel<Args>& kernel, const Args& args, std::int64_t n) {
  if (args.rows == 0 || n == 0) return;
  launch(runtime, kernel,
         {.grid_x = blocks_of(n, kThreads), .grid_y = count_of(args.rows), .block = count_of(kThreads)},
         args);
}

// A block per row, with shared memory for a value of each warp.
constexpr std::uint32_t kReduceBytes = 32 * 8, kByteTable = 256 * 4;
template <typename Args>
void launch_blocks(Runtime& runtime, const Kernel<Args>& kernel, const Args& args, std::int64_t blocks) {
  if (blocks == 0) return;
  launch(runtime, kernel,
         {.grid_x = count_of(blocks), .block = count_of(kThreads), .shared_bytes = kReduceBytes}, args);
}

// Bytes of partial sums, as kernels/linear.cuh lays them out: [8][rows][17].
std::uint32_t partial_bytes(std::int64_t rows) {
  return count_of(8 * rows * 17 * 4);
}

// Rows go by 8, 16, 32 or 64.
template <typename Args>
void launch_linear(Runtime& runtime, const Kernel<Args> (&kernels)[kRowBlocks], const Args& args,
                   std::uint32_t more_bytes) {
  if (args.rows == 0) return;
  int i = 0;
  while (i + 1 < kRowBlocks && args.rows > std::int64_t{8} << i) ++i;
  const std::int64_t rows = std::int64_t{8} << i;
  launch(runtime, kernels[i],
         {.grid_x = count_of(strips_of(args.weight.outputs)),
          .grid_y = blocks_of(args.rows, rows),
          .block = count_of(kThreads),
          .shared_bytes = more_bytes + partial_bytes(rows)},
         args);
}

// With more rows than this, rows and weights meet in tiles.
constexpr std::int64_t kFewRows = 16, kSmallTile = 64, kLargeOutputs = 128, kRangesOfSums = 8;

// Which blocks a multiplication of many rows takes. Bits do not depend on it.
struct GemmShape {
  int size = 0;  // one of kGemmSizes
  std::int64_t outputs = kSmallTile, rows = kSmallTile, blocks = 0;
  bool is_split = false;
};
GemmShape gemm_shape(std::int64_t rows, const Matrix& weight, int processors) {
  const auto blocks = [&](std::int64_t outputs_of_block, std::int64_t rows_of_block) {
    return ((weight.outputs + outputs_of_block - 1) / outputs_of_block) *
           ((rows + rows_of_block - 1) / rows_of_block);
  };
  const std::int64_t large_rows = weight.format == MatrixFormat::four_bit ? 64 : 128;
  GemmShape shape;
  // Large blocks read less; small ones keep all processors busy.
  if (rows > kSmallTile && blocks(kLargeOutputs, large_rows) >= processors)
    shape = {.size = 1, .outputs = kLargeOutputs, .rows = large_rows};
  shape.blocks = blocks(shape.outputs, shape.rows);
  shape.is_split = 2 * shape.blocks <= processors;
  return shape;
}

// Launches what args say but for `ranges`, and adds the ranges where blocks take one each.
template <typename Args>
void launch_gemm(Runtime& runtime, const Kernel<Args> (&kernels)[kGemmSizes], const Kernel<Args>& add,
                 Args args, const Scratch& partial) {
  const GemmInputs& in = args.in;
  const GemmShape shape = gemm_shape(in.rows, in.weight, runtime.facts().processors);
  const bool is_split = shape.is_split && partial.bytes >= kRangesOfSums * in.rows * in.weight.outputs * 4;
  args.in.ranges = is_split ? 1 : static_cast<std::int32_t>(kRangesOfSums);
  args.in.partial = partial.data;
  constexpr std::uint32_t kBankTables = 256 * 32 * 4;
  // Three stages of 128 bytes of each row; of 4-bit codes their tables.
  const std::uint32_t shared =
      count_of(3 * shape.rows * 128) + (in.weight.format == MatrixFormat::four_bit ? kBankTables : 0);
  launch(runtime, kernels[shape.size],
         {.grid_x = blocks_of(in.rows, shape.rows),
          .grid_y = blocks_of(in.weight.outputs, shape.outputs),
          .grid_z = is_split ? count_of(kRangesOfSums) : 1,
          .block = count_of(kThreads),
          .shared_bytes = shared},
         args);
  if (is_split)
    launch(runtime, add,
           {.grid_x = blocks_of(in.weight.outputs, kThreads),
            .grid_y = count_of(in.rows),
            .block = count_of(kThreads)},
           args);
}

bool fits_gemm(std::int64_t rows, const Matrix& weight) {
  constexpr std::int64_t kMaxBlocks = 65535;  // blocks of rows and of outputs
  return rows > kFewRows && rows <= kMaxBlocks && weight.outputs <= kMaxBlocks * kSmallTile;
}

// Rounds the rows into scratch memory and multiplies them; false where they do not fit.
bool run_gemm(Runtime& runtime, const LinearArgs& args, Arithmetic arithmetic,
              const Kernel<GemmArgs> (&kernels)[kGemmSizes]) {
  const std::int64_t stride = rounded_inputs_stride(args.weight.inputs, arithmetic),
                     rounded = round_up(args.rows * stride, 256);
  if (!fits_gemm(args.rows, args.weight) || args.weight.inputs == 0 || rounded > args.scratch.bytes)
    return false;
  const RoundArgs round{.x = args.x,
                        .x_stride = args.x_stride,
                        .rows = args.rows,
                        .inputs = args.weight.inputs,
                        .arithmetic = arithmetic,
                        .out = args.scratch.data,
                        .out_stride = stride};
  launch_rows(runtime, runtime.kernels().round_inputs, round, stride / 16);
  const GemmArgs gemm{.in = {.x = args.scratch.data,
                             .x_stride = stride,
                             .rows = args.rows,
                             .weight = args.weight,
                             .partial = {}},
                      .to = args.to};
  launch_gemm(runtime, kernels, runtime.kernels().add_ranges, gemm,
              {args.scratch.data + rounded, args.scratch.bytes - rounded});
  return true;
}

bool is_power_of_two(std::int64_t n) {
  return n > 0 && (n & (n - 1)) == 0;
}
void check_group(std::int64_t group, std::int64_t least) {
  if (!is_power_of_two(group) || group < least)
    throw Error("4-bit weights have {} inputs to a scale; a power of two from {} on was expected", group,
                least);
}

constexpr std::int64_t kAttendThreads = 128, kTileRows = 16;

// Heads that tensor cores attend.
bool has_tiles(const CacheLayout& cache) {
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
                              .stages = static_cast<std::int32_t>(stages)};
  const Kernels& kernels = runtime.kernels();
  launch(runtime,
         are_codes                              ? kernels.attend_int8[size]
         : cache.format == CacheFormat::float16 ? kernels.attend_float16[size]
                                                : kernels.attend_bfloat16[size],
         {.grid_x = is_split ? count_of(chunks) : 1,
          .grid_y = count_of((args.rows + rows - 1) / rows * tiles.tiles),
          .grid_z = count_of(cache.kv_heads * (dim / values)),
          .block = count_of(warps * 32),
          .shared_bytes = count_of(bytes(warps, stages))},
         tiles);
}

}  // namespace

std::int64_t partial_sums_bytes(std::int64_t rows, std::int64_t outputs, int processors) {
  const std::int64_t all = round_up(rows, kSmallTile) * round_up(outputs, kSmallTile),
                     most = std::int64_t{processors} / 2 * kSmallTile * kSmallTile;  // see gemm_shape()
  return kRangesOfSums * 4 * std::min(all, most);
}

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
  if (args.store.rows == 0) return;
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
  if (has_tiles(args.cache)) {
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

void run(Runtime& runtime, const LinearArgs& args) {
  const Kernels& kernels = runtime.kernels();
  const bool makes_inputs = args.made.kind != FusedPrologue::Kind::none;
  if (makes_inputs && args.rows > kMaxPrologueRows)
    throw Error("a multiplication makes {} rows of its inputs; at most {} were expected", args.rows,
                kMaxPrologueRows);
  if (makes_inputs && args.weight.format == MatrixFormat::float32 && args.arithmetic == Arithmetic::float32)
    throw Error("a multiplication in float32 takes its inputs as they are");
  const std::uint32_t made_bytes = makes_inputs ? kMadeBytes : 0;
  switch (args.weight.format) {
    case MatrixFormat::float16:
      if (run_gemm(runtime, args, Arithmetic::float16, kernels.gemm_float16)) return;
      return launch_linear(runtime, kernels.linear_float16, args, made_bytes);
    case MatrixFormat::bfloat16:
      if (run_gemm(runtime, args, Arithmetic::bfloat16, kernels.gemm_bfloat16)) return;
      return launch_linear(runtime, kernels.linear_bfloat16, args, made_bytes);
    case MatrixFormat::int8:
      throw Error("an int8 matrix is multiplied by codes of inputs, not by floats");
    case MatrixFormat::float32: {
      if (args.arithmetic == Arithmetic::tf32) {
        if (run_gemm(runtime, args, Arithmetic::tf32, kernels.gemm_tf32)) return;
        return launch_linear(runtime, kernels.linear_tf32, args, made_bytes);
      }
      if (args.rows == 0) return;
      const std::int64_t rows = args.rows <= 4 ? 4 : 16;
      return launch(runtime, kernels.linear_float32[rows / 16],
                    {.grid_x = count_of(strips_of(args.weight.outputs)),
                     .grid_y = blocks_of(args.rows, rows),
                     .block = count_of(kThreads),
                     .shared_bytes = partial_bytes(rows)},
                    args);
    }
    case MatrixFormat::four_bit:
    case MatrixFormat::grouped:
      break;
  }
  check_group(args.weight.group, 1);
  const bool is_grouped = args.weight.format == MatrixFormat::grouped,
             has_offsets = args.weight.offsets || args.weight.input_groups;
  const bool has_wide_groups = args.weight.group >= 16 && !has_offsets && !is_grouped;
  if (has_wide_groups && args.arithmetic == Arithmetic::float16) {
    if (run_gemm(runtime, args, args.arithmetic, kernels.gemm_four_float16)) return;
    return launch_linear(runtime, kernels.four_bit_float16, args, kByteTable + made_bytes);
  }
  if (has_wide_groups && args.arithmetic == Arithmetic::bfloat16) {
    if (run_gemm(runtime, args, args.arithmetic, kernels.gemm_four_bfloat16)) return;
    return launch_linear(runtime, kernels.four_bit_bfloat16, args, kByteTable + made_bytes);
  }
  if (args.rows == 0) return;
  const auto& kernel = is_grouped    ? kernels.linear_grouped
                       : has_offsets ? kernels.four_bit_offsets
                                     : kernels.four_bit_float32;
  launch(runtime, kernel,
         {.grid_x = count_of(strips_of(args.weight.outputs)),
          .grid_y = blocks_of(args.rows, 4),
          .block = count_of(kThreads),
          .shared_bytes = 64 + partial_bytes(4) + made_bytes},
         args);
}

void run(Runtime& runtime, const QuantizeArgs& args) {
  if (args.rows == 0) return;
  if (args.codes_stride % 32 != 0 || args.codes_stride < args.inputs)
    throw Error("rows of int8 codes are {} apart; a multiple of 32 was expected, {} or more",
                args.codes_stride, args.inputs);
  const Kernels& kernels = runtime.kernels();
  if (args.kind == QuantizeArgs::Kind::symmetric && args.threshold > 0 && std::isfinite(args.threshold)) {
    launch(runtime, kernels.mark_outliers,
           {.grid_x = blocks_of(args.inputs, kThreads), .block = count_of(kThreads)}, args);
    launch_blocks(runtime, kernels.list_outliers, args, 1);
  }
  if (args.kind == QuantizeArgs::Kind::tensor_range) launch_blocks(runtime, kernels.ranges, args, args.rows);
  launch_blocks(runtime, kernels.quantize, args, args.rows);
}

void run(Runtime& runtime, const LinearInt8Args& args) {
  if (fits_gemm(args.rows, args.weight) && args.weight.inputs > 0) {
    const GemmInt8Args gemm{.in = {.x = args.codes.as<const std::byte>(),
                                   .x_stride = args.codes_stride,
                                   .rows = args.rows,
                                   .weight = args.weight,
                                   .partial = {}},
                            .linear = args};
    return launch_gemm(runtime, runtime.kernels().gemm_int8, runtime.kernels().add_int8_ranges, gemm,
                       args.scratch);
  }
  launch_linear(runtime, runtime.kernels().linear_int8, args, 0);
}

void run(Runtime& runtime, const QuantizeGroupsArgs& args) {
  check_group(args.group, 16);
  if (args.codes_stride % 64 != 0 || args.codes_stride < args.inputs)
    throw Error("rows of int8 codes are {} apart; a multiple of 64 was expected, {} or more",
                args.codes_stride, args.inputs);
  launch_blocks(runtime, runtime.kernels().quantize_groups, args, args.rows);
}

void run(Runtime& runtime, const LinearInt8ActivationsArgs& args) {
  check_group(args.weight.group, 16);
  launch_linear(runtime, runtime.kernels().linear_int8_activations, args, kByteTable);
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
  launch(runtime, runtime.kernels().next_token,
         {.grid_x = count_of(args.embed.rows), .block = count_of(kThreads)}, args);
}
void run(Runtime& runtime, const LogProbabilityArgs& args) {
  launch_blocks(runtime, runtime.kernels().log_probability, args, args.rows);
}

}  // namespace assay::cuda
