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

constexpr std::uint32_t kByteTable = 256 * 4, kBankTables = 256 * 32 * 4, kSpacedTables = 2 * kBankTables;

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

bool have_own_strips(const Runtime& runtime, const Matrix& weight, const LaunchChoice& choice) {
  return choice.sums == kByRule
             ? strips_of(weight.outputs) >= kThreads / 32 * std::int64_t{runtime.facts().processors}
             : choice.sums == 1;
}

CodesBy codes_by(const Runtime& runtime, const Matrix& weight, std::int64_t rows,
                 const LaunchChoice& choice) {
  if (choice.codes == kByRule || rows > 8) return CodesBy::table;
  const auto by = static_cast<CodesBy>(choice.codes);
  if (by == CodesBy::spaced_table) {
    const std::int64_t bytes = kSpacedTables + 2 * partial_bytes(8);
    return bytes <= runtime.facts().shared_bytes_per_block ? by : CodesBy::table;
  }
  for (int code = 0; code < 16; ++code)
    if (weight.codebook[code] != static_cast<float>(code - 8)) return CodesBy::table;
  return by;
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

std::uint32_t ordered_bytes(const OrderedArgs& args, std::int64_t rows, std::uint32_t table_bytes,
                            bool takes_strips) {
  const bool is_normed = args.made.kind != FusedPrologue::Kind::none;
  return table_bytes + partial_bytes(rows) * (args.to.gated > 0 ? 2 : 1) * (takes_strips ? 2 : 1) +
         (is_normed        ? count_of(normed_rows_bytes(args.rows, args.weight.inputs))
          : args.is_staged ? count_of(staged_rows_bytes(args.rows, args.weight.inputs))
                           : 0);
}

std::uint32_t own_bytes(const OrderedArgs& args, std::uint32_t table_bytes) {
  return table_bytes + count_of(kOwnSumsBytes + normed_rows_bytes(args.rows, args.weight.inputs));
}

// 4-bit codes may have a table in shared memory: so many blocks that all processors are busy take strip after
// strip. Other products have a block for each strip. Where shared memory is small, blocks take fewer rows.
void multiply_ordered(Runtime& runtime, const OrderedKernels& kernels, OrderedArgs args,
                      std::uint32_t table_bytes, const LaunchChoice& choice) {
  const bool has_gate = args.to.gated > 0, is_normed = args.made.kind != FusedPrologue::Kind::none;
  if (have_own_strips(runtime, args.weight, choice) && is_normed && kernels.own_normed.entry != nullptr &&
      !has_gate && !args.to.moments.data &&
      own_bytes(args, table_bytes) <= runtime.facts().shared_bytes_per_block)
    return launch(runtime, kernels.own_normed,
                  {.grid_x = std::min(blocks_of(strips_of(args.weight.outputs), kThreads / 32),
                                      count_of(std::int64_t{2} * runtime.facts().processors)),
                   .block = count_of(kThreads),
                   .shared_bytes = own_bytes(args, table_bytes)},
                  args);
  const std::int64_t strips = strips_of(has_gate ? args.to.gated : args.weight.outputs),
                     twice = std::int64_t{2} * runtime.facts().processors,
                     most = choice.strips == kByRule ? twice : choice.strips * twice / 2;  // blocks
  const auto fits = [&](int size, bool takes_strips) {
    return ordered_bytes(args, std::int64_t{8} << size, table_bytes, takes_strips) <=
           runtime.facts().shared_bytes_per_block;
  };
  int size = 0;
  const int largest = is_normed ? 0 : has_gate ? kRowBlocks - 2 : kRowBlocks - 1;
  while (size < largest && args.rows > std::int64_t{8} << size && fits(size + 1, false)) ++size;
  const std::int64_t rows = std::int64_t{8} << size;
  const bool takes_strips = args.weight.format == MatrixFormat::four_bit && size < 2 && most > 0 &&
                            strips > most && fits(size, true),
             is_wide = size == 0 && (choice.loads == kByRule ? strips > twice : choice.loads == 1);
  const std::int64_t inputs = args.weight.inputs;
  args.is_staged = size == 0 && !is_wide && !has_gate && !is_normed && inputs > kMaxUnstagedInputs &&
                   staged_rows_bytes(args.rows, inputs) <= kMaxStagedBytes;
  args.is_staged = args.is_staged && ordered_bytes(args, rows, table_bytes, takes_strips) <=
                                         runtime.facts().shared_bytes_per_block;
  const Kernel<OrderedArgs>& kernel =
      is_wide ? (is_normed ? (has_gate ? kernels.wide_normed_gated : kernels.wide_normed)
                           : (has_gate ? kernels.wide_gated : kernels.wide))
              : (is_normed ? (has_gate ? kernels.normed_gated : kernels.normed)
                           : (has_gate ? kernels.gated[size] : kernels.rows[size]));
  launch(runtime, kernel,
         {.grid_x = count_of(takes_strips ? most : strips),
          .grid_y = blocks_of(args.rows, rows),
          .block = count_of(kThreads),
          .shared_bytes = ordered_bytes(args, rows, table_bytes, takes_strips)},
         args);
}

}  // namespace

OrderedArgs ordered_product(const LinearArgs& args, Arithmetic arithmetic) {
  if (args.to.gated > 0 && (args.rows > kFewRows || args.to.gated % 16 != 0 ||
                            2 * args.to.gated != args.weight.outputs || args.to.adds))
    throw Error(
        "a multiplication with a gate has {} rows and {} outputs, {} of them the gate's; at most {} "
        "rows and half of the outputs, a multiple of 16, were expected",
        args.rows, args.weight.outputs, args.to.gated, kFewRows);
  return {.x = args.ordered,
          .x_stride = rounded_inputs_stride(args.weight.inputs, arithmetic),
          .rows = args.rows,
          .weight = args.weight,
          .to = args.to};
}

void put_in_order(Runtime& runtime, const LinearArgs& args, Arithmetic arithmetic, OrderedArgs& product) {
  const std::int64_t stride = product.x_stride;
  if (args.rows * stride > args.scratch.bytes)
    throw Error(
        "a multiplication puts {} rows of {} inputs into {} bytes of scratch memory; {} were expected",
        args.rows, args.weight.inputs, args.scratch.bytes, args.rows * stride);
  const OrderArgs order{.x = args.x,
                        .x_stride = args.x_stride,
                        .rows = args.rows,
                        .inputs = args.weight.inputs,
                        .made = args.made,
                        .arithmetic = arithmetic,
                        .out = args.scratch.data,
                        .out_stride = stride};
  const bool makes_moments = args.made.kind == FusedPrologue::Kind::norm && !args.made.moments.data;
  launch(runtime, runtime.kernels().order_inputs,
         {.grid_x = makes_moments ? 1 : std::max(1U, blocks_of(stride / 4, kThreads)),
          .grid_y = count_of(args.rows),
          .block = count_of(kThreads),
          .shared_bytes = kReduceBytes},
         order);
  product.x = args.scratch.data;
}

namespace {

// Puts the rows into order in scratch memory, or lets each block norm them, and multiplies them.
void run_ordered(Runtime& runtime, const LinearArgs& args, Arithmetic arithmetic,
                 const OrderedKernels& kernels, std::uint32_t table_bytes, const LaunchChoice& choice) {
  if (args.rows == 0) return;
  OrderedArgs product = ordered_product(args, arithmetic);
  if (args.ordered) return multiply_ordered(runtime, kernels, product, table_bytes, choice);
  const bool is_norm = args.made.kind == FusedPrologue::Kind::norm,
             has_moments = static_cast<bool>(args.made.moments.data),
             is_made_in_front = choice.inputs == 0 && args.rows * product.x_stride <= args.scratch.bytes;
  if (is_norm && has_moments && args.rows <= kMaxNormedRows && !is_made_in_front) {
    product.made_of = args.x;
    product.made_stride = args.x_stride;
    product.made = args.made;
    if (ordered_bytes(product, 8, table_bytes, false) <= runtime.facts().shared_bytes_per_block)
      return multiply_ordered(runtime, kernels, product, table_bytes, choice);
    product.made = {};
  }
  put_in_order(runtime, args, arithmetic, product);
  multiply_ordered(runtime, kernels, product, table_bytes, choice);
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
