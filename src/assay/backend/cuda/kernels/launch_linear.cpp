// Which kernels a matrix multiplication takes, and what of its inputs, and the shape of their launches.
#include <algorithm>

#include "assay/backend/cuda/kernels/kernels.h"
#include "assay/backend/cuda/kernels/launch_shapes.h"
#include "assay/backend/cuda/kernels/launch_warpgroups.h"
#include "assay/base/error.h"

namespace assay::cuda {

namespace {

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

constexpr std::uint32_t kByteTable = 256 * 4;

constexpr std::int64_t kLargeOutputs = 128;

}  // namespace

GemmShape gemm_shape(std::int64_t rows, const Matrix& weight, int processors, const LaunchChoice& choice) {
  const auto blocks = [&](std::int64_t outputs_of_block, std::int64_t rows_of_block) {
    return ((weight.outputs + outputs_of_block - 1) / outputs_of_block) *
           ((rows + rows_of_block - 1) / rows_of_block);
  };
  const std::int64_t large_rows = weight.format == MatrixFormat::four_bit ? 64 : 128;
  GemmShape shape;
  // Large blocks read less; small ones keep all processors busy.
  const bool are_large = rows > kSmallTile && blocks(kLargeOutputs, large_rows) >= processors;
  if (choice.blocks == kByRule ? are_large : choice.blocks == 1)
    shape = {.size = 1, .outputs = kLargeOutputs, .rows = large_rows};
  shape.blocks = blocks(shape.outputs, shape.rows);
  shape.is_split = choice.ranges == kByRule ? 2 * shape.blocks <= processors : choice.ranges == 1;
  return shape;
}

namespace {

// Launches what args say but for `ranges`, and adds the ranges where blocks take one each.
template <typename Args>
void launch_gemm(Runtime& runtime, const Kernel<Args> (&kernels)[kGemmSizes], const Kernel<Args>& add,
                 Args args, const Scratch& partial, const LaunchChoice& choice) {
  const GemmInputs& in = args.in;
  const GemmShape shape = gemm_shape(in.rows, in.weight, runtime.facts().processors, choice);
  const bool is_split = shape.is_split && partial.bytes >= kRangesOfSums * in.rows * in.weight.outputs * 4;
  args.in.ranges = is_split ? 1 : static_cast<std::int32_t>(kRangesOfSums);
  args.in.partial = partial.data;
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

bool fits_gemm(std::int64_t rows, std::int64_t few_rows, const Matrix& weight) {
  constexpr std::int64_t kMaxBlocks = 65535;  // blocks of rows and of outputs
  return rows > few_rows && rows <= kMaxBlocks && weight.outputs <= kMaxBlocks * kSmallTile;
}

// Rounds the rows into scratch memory and multiplies them; false where they do not fit.
bool run_gemm(Runtime& runtime, const LinearArgs& args, Arithmetic arithmetic,
              const Kernel<GemmArgs> (&kernels)[kGemmSizes], const LaunchChoice& choice) {
  const std::int64_t stride = rounded_inputs_stride(args.weight.inputs, arithmetic),
                     rounded = round_up(args.rows * stride, 256);
  if (!fits_gemm(args.rows, args.few_rows, args.weight) || args.weight.inputs == 0 ||
      rounded > args.scratch.bytes)
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
              {args.scratch.data + rounded, args.scratch.bytes - rounded}, choice);
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

}  // namespace

std::int64_t partial_sums_bytes(std::int64_t rows, std::int64_t outputs, int processors) {
  const std::int64_t all = round_up(rows, kSmallTile) * round_up(outputs, kSmallTile),
                     most = std::int64_t{processors} / 2 * kSmallTile * kSmallTile;  // see gemm_shape()
  return kRangesOfSums * 4 * std::min(all, most);
}

bool takes_ordered_inputs(MatrixFormat format, Arithmetic arithmetic, std::int64_t group, bool has_offsets) {
  if (format == MatrixFormat::float16 || format == MatrixFormat::bfloat16) return true;
  if (arithmetic != Arithmetic::float16 && arithmetic != Arithmetic::bfloat16) return false;
  return format == MatrixFormat::grouped || (format == MatrixFormat::four_bit && group >= 16 && !has_offsets);
}

namespace {

void check_prologue(const LinearArgs& args, bool is_ordered) {
  if (args.made.kind == FusedPrologue::Kind::none) return;
  const std::int64_t most = is_ordered ? kMaxOrderedPrologueRows : kMaxPrologueRows;
  if (args.rows > most)
    throw Error("a multiplication makes {} rows of its inputs; at most {} were expected", args.rows, most);
  if (args.weight.format == MatrixFormat::float32 && args.arithmetic == Arithmetic::float32)
    throw Error("a multiplication in float32 takes its inputs as they are");
}

void run_float32(Runtime& runtime, const LinearArgs& args) {
  if (args.rows == 0) return;
  const int i = args.rows <= 4 ? 0 : 1;
  const std::int64_t rows = i == 0 ? 4 : 16;
  launch(runtime, runtime.kernels().linear_float32[i],
         {.grid_x = count_of(strips_of(args.weight.outputs)),
          .grid_y = blocks_of(args.rows, rows),
          .block = count_of(kThreads),
          .shared_bytes = partial_bytes(rows)},
         args);
}

void run_ordered_codes(Runtime& runtime, const LinearArgs& args, const LaunchChoice& choice) {
  const Kernels& kernels = runtime.kernels();
  const bool are_float16 = args.arithmetic == Arithmetic::float16, are_wide = args.weight.group >= 64;
  if (run_gemm(runtime, args, args.arithmetic,
               are_float16 ? kernels.gemm_four_float16 : kernels.gemm_four_bfloat16, choice))
    return;
  const auto run_by = [&](const OrderedKernels& by, std::uint32_t table_bytes) {
    run_ordered(runtime, args, args.arithmetic, by, table_bytes, choice);
  };
  switch (codes_by(runtime, args.weight, args.rows, choice)) {
    case CodesBy::spaced_table:
      return run_by(kernels.spaced_codes[are_wide ? 1 : 0][are_float16 ? 1 : 0], kSpacedTables);
    case CodesBy::integers:
      return run_by(kernels.integer_codes[are_wide ? 1 : 0][are_float16 ? 1 : 0], 0);
    case CodesBy::table:
      break;
  }
  run_by(are_wide ? (are_float16 ? kernels.wide_float16 : kernels.wide_bfloat16)
                  : (are_float16 ? kernels.narrow_float16 : kernels.narrow_bfloat16),
         kBankTables);
}

}  // namespace

void run(Runtime& runtime, const LinearArgs& args, const LaunchChoice& choice) {
  const Kernels& kernels = runtime.kernels();
  const bool has_offsets = args.weight.offsets || args.weight.input_groups;
  const bool is_ordered =
      takes_ordered_inputs(args.weight.format, args.arithmetic, args.weight.group, has_offsets);
  check_prologue(args, is_ordered);
  const std::uint32_t made_bytes = args.made.kind != FusedPrologue::Kind::none ? kMadeBytes : 0;
  if (args.many_rows == ManyRows::warpgroups && multiply_by_warpgroups(runtime, args, choice)) return;
  switch (args.weight.format) {
    case MatrixFormat::float16:
      if (run_gemm(runtime, args, Arithmetic::float16, kernels.gemm_float16, choice)) return;
      return run_ordered(runtime, args, Arithmetic::float16, kernels.ordered_float16, 0, choice);
    case MatrixFormat::bfloat16:
      if (run_gemm(runtime, args, Arithmetic::bfloat16, kernels.gemm_bfloat16, choice)) return;
      return run_ordered(runtime, args, Arithmetic::bfloat16, kernels.ordered_bfloat16, 0, choice);
    case MatrixFormat::int8:
      throw Error("an int8 matrix is multiplied by codes of inputs, not by floats");
    case MatrixFormat::float32:
      if (args.arithmetic != Arithmetic::tf32) return run_float32(runtime, args);
      if (run_gemm(runtime, args, Arithmetic::tf32, kernels.gemm_tf32, choice)) return;
      return launch_linear(runtime, kernels.linear_tf32, args, made_bytes);
    case MatrixFormat::four_bit:
    case MatrixFormat::grouped:
      break;
  }
  const bool is_grouped = args.weight.format == MatrixFormat::grouped;
  if (!is_grouped) check_group(args.weight.group, 1);
  if (is_ordered && is_grouped) return run_grouped(runtime, args);
  if (is_ordered) return run_ordered_codes(runtime, args, choice);
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

bool run_gemm_int8(Runtime& runtime, const LinearInt8Args& args, const LaunchChoice& choice) {
  if (!fits_gemm(args.rows, 0, args.weight) || args.weight.inputs == 0) return false;
  const GemmInt8Args gemm{.in = {.x = args.codes.as<const std::byte>(),
                                 .x_stride = args.codes_stride,
                                 .rows = args.rows,
                                 .weight = args.weight,
                                 .partial = {}},
                          .linear = args};
  launch_gemm(runtime, runtime.kernels().gemm_int8, runtime.kernels().add_int8_ranges, gemm, args.scratch,
              choice);
  return true;
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

}  // namespace assay::cuda
