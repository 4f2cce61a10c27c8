// Products of few rows in order: which kernels they take, and the shape of their launches.
#include <algorithm>

#include "assay/backend/cuda/kernels/kernels.h"
#include "assay/backend/cuda/kernels/launch_shapes.h"
#include "assay/base/error.h"

namespace assay::cuda {

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

std::uint32_t staged_bytes(const Matrix& weight, std::int64_t rows) {
  return 2 * partial_bytes(rows > 32 ? 64 : 32) + count_of(rows * staged_row_bytes(weight.inputs));
}

bool are_rows_staged(const Runtime& runtime, const Matrix& weight, std::int64_t rows,
                     const LaunchChoice& choice) {
  const bool is_half = weight.format == MatrixFormat::float16 || weight.format == MatrixFormat::bfloat16;
  if (!is_half || rows <= 16 || rows > kFewRows ||
      staged_bytes(weight, rows) > runtime.facts().shared_bytes_per_block)
    return false;
  return choice.strips == kByRule ? have_own_strips(runtime, weight, {}) : choice.strips > 0;
}

bool have_own_strips(const Runtime& runtime, const Matrix& weight, const LaunchChoice& choice) {
  return choice.sums == kByRule
             ? strips_of(weight.outputs) >= kThreads / 32 * std::int64_t{runtime.facts().processors}
             : choice.sums == 1;
}

namespace {

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
  if (!has_gate && !is_normed && are_rows_staged(runtime, args.weight, args.rows, choice))
    return launch(
        runtime, kernels.staged[args.rows > 32 ? 1 : 0],
        {.grid_x = std::min(count_of(strips_of(args.weight.outputs)), count_of(runtime.facts().processors)),
         .block = count_of(kThreads),
         .shared_bytes = staged_bytes(args.weight, args.rows)},
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

}  // namespace assay::cuda
