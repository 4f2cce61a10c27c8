// Which kernels quantize rows and multiply them by an int8 matrix, and the shape of their launches.
#include <algorithm>
#include <cmath>

#include "assay/backend/cuda/kernels/kernels.h"
#include "assay/backend/cuda/kernels/launch_shapes.h"
#include "assay/backend/cuda/kernels/launch_warpgroups.h"
#include "assay/base/error.h"

namespace assay::cuda {

namespace {

bool has_outliers(const QuantizeArgs& args) {
  return args.kind == QuantizeArgs::Kind::symmetric && args.threshold > 0 && std::isfinite(args.threshold);
}

// Rows of whole quads with codes of their own, and moments of those that are normed.
bool have_codes_of_their_own(const QuantizeArgs& args) {
  const bool has_quads = reinterpret_cast<std::uintptr_t>(args.x.address) % 16 == 0 &&
                         args.x_stride % 4 == 0 && args.inputs % 4 == 0;
  const bool has_moments = args.made.kind == FusedPrologue::Kind::none || args.made.moments.data;
  return has_quads && has_moments && args.kind != QuantizeArgs::Kind::tensor_range && !has_outliers(args);
}

// A block has one strip, with a gate those of both halves.
std::int64_t strips_of_blocks(const LinearInt8Args& args) {
  return strips_of(args.to.gated > 0 ? args.to.gated : args.weight.outputs);
}

void check_gate(const LinearInt8Args& args) {
  const std::int64_t gated = args.to.gated;
  if (gated == 0) return;
  if (gated % kStrip != 0 || 2 * gated != args.weight.outputs || args.to.adds)
    throw Error(
        "a gate has {} columns of {} outputs; half of them were expected, in strips of {}, added to nothing",
        gated, args.weight.outputs, kStrip);
  if (args.rows > kFewGatedInt8Rows)
    throw Error("a multiplication goes through its gate for {} rows; at most {} were expected", args.rows,
                kFewGatedInt8Rows);
}

void run_ordered_int8(Runtime& runtime, const LinearInt8Args& args) {
  if (args.rows > kFewInt8Rows || args.codes_stride % 64 != 0)
    throw Error("{} rows of int8 codes in order are {} apart; up to {} were expected, a multiple of 64 apart",
                args.rows, args.codes_stride, kFewInt8Rows);
  const bool is_gated = args.to.gated > 0;
  int i = 0;
  while (args.rows > std::int64_t{8} << i) ++i;
  const std::int64_t rows = std::int64_t{8} << i;
  const Kernels& kernels = runtime.kernels();
  launch(runtime, is_gated ? kernels.gated_int8[i] : kernels.ordered_int8[i],
         {.grid_x = count_of(strips_of_blocks(args)),
          .block = count_of(kThreads),
          .shared_bytes = (is_gated ? 2 : 1) * partial_bytes(rows)},
         args);
}

std::uint32_t coded_bytes(const QuantizedLinearArgs& args) {
  const LinearInt8Args& linear = args.linear;
  return count_of(kCodedRowsAt + linear.rows * coded_row_bytes(args.quantize.inputs)) +
         (linear.to.gated > 0 ? 2 : 1) * partial_bytes(8);
}

void run_coded_int8(Runtime& runtime, const QuantizedLinearArgs& args) {
  const LinearInt8Args& linear = args.linear;
  const bool is_gated = linear.to.gated > 0, is_normed = args.quantize.made.kind != FusedPrologue::Kind::none;
  const Kernels& kernels = runtime.kernels();
  launch(runtime,
         is_normed ? (is_gated ? kernels.normed_gated_int8 : kernels.normed_int8)
                   : (is_gated ? kernels.coded_gated_int8 : kernels.coded_int8),
         {.grid_x = count_of(strips_of_blocks(linear)),
          .block = count_of(kThreads),
          .shared_bytes = coded_bytes(args)},
         args);
}

void run_coded_row(Runtime& runtime, const QuantizedLinearArgs& args, const CodedRowShape& shape) {
  const bool is_gated = args.linear.to.gated > 0,
             is_normed = args.quantize.made.kind != FusedPrologue::Kind::none;
  launch(runtime, runtime.kernels().coded_row_int8[is_gated][is_normed][shape.has_own_strips][shape.is_wide],
         {.grid_x = shape.blocks, .block = count_of(kThreads), .shared_bytes = shape.shared_bytes}, args);
}

}  // namespace

// A vocabulary's strips are many enough for all warps to have their own. With two strips of a gate a warp
// needs the registers of a processor's half.
std::optional<CodedRowShape> coded_row_shape(const Runtime& runtime, const QuantizedLinearArgs& args,
                                             const LaunchChoice& choice) {
  constexpr std::int64_t kWarps = kThreads / 32;
  const std::int64_t inputs = args.quantize.inputs, strips = strips_of_blocks(args.linear),
                     processors = runtime.facts().processors;
  const bool is_normed = args.quantize.made.kind != FusedPrologue::Kind::none;
  if (!makes_codes_of_row(args.quantize.rows, inputs, is_normed) || !have_codes_of_their_own(args.quantize))
    return std::nullopt;
  const auto chosen = [](std::int8_t choice_of, bool by_rule) {
    return choice_of == kByRule ? by_rule : choice_of == 1;
  };
  CodedRowShape shape{.has_own_strips = chosen(choice.sums, strips >= kWarps * processors)};
  shape.is_wide = inputs <= coded_row_held(true) && !(shape.has_own_strips && args.linear.to.gated > 0) &&
                  chosen(choice.loads, strips > (shape.has_own_strips ? 2 * kWarps : 2) * processors);
  const std::int64_t blocks = shape.has_own_strips ? (strips + kWarps - 1) / kWarps : strips;
  shape.blocks = count_of(std::min(blocks, (shape.is_wide ? 3 : 2) * processors));
  shape.shared_bytes = count_of(coded_row_bytes(inputs, args.linear.to.gated > 0 ? 2 : 1, shape.is_wide));
  if (shape.shared_bytes > runtime.facts().shared_bytes_per_block) return std::nullopt;
  return shape;
}

bool can_make_codes(const Runtime& runtime, const QuantizedLinearArgs& args) {
  return args.quantize.rows <= kMaxCodedRows && have_codes_of_their_own(args.quantize) &&
         coded_bytes(args) <= runtime.facts().shared_bytes_per_block;
}
bool makes_codes_by_rule(const QuantizedLinearArgs& args) {
  return makes_codes(args.quantize.rows, args.quantize.inputs, strips_of_blocks(args.linear));
}

void run(Runtime& runtime, const QuantizeArgs& args) {
  if (args.rows == 0) return;
  const std::int64_t unit = args.is_ordered ? 64 : 32;
  if (args.codes_stride % unit != 0 || args.codes_stride < args.inputs)
    throw Error("rows of int8 codes are {} apart; a multiple of {} was expected, {} or more",
                args.codes_stride, unit, args.inputs);
  const bool has_norm = args.made.kind == FusedPrologue::Kind::norm;
  if (args.made.kind == FusedPrologue::Kind::gated ||
      (has_norm && (args.kind == QuantizeArgs::Kind::tensor_range || has_outliers(args))))
    throw Error("rows are quantized as they are, or behind a norm where each has codes of its own");
  const Kernels& kernels = runtime.kernels();
  if (has_outliers(args)) {
    launch(runtime, kernels.mark_outliers,
           {.grid_x = blocks_of(args.inputs, kThreads), .block = count_of(kThreads)}, args);
    launch_blocks(runtime, kernels.list_outliers, args, 1);
  }
  if (args.kind == QuantizeArgs::Kind::tensor_range) launch_blocks(runtime, kernels.ranges, args, args.rows);
  launch(runtime, kernels.quantize,
         {.grid_x = count_of(args.rows),
          .block = count_of(kThreads),
          .shared_bytes = has_norm ? count_of(quantize_bytes(args.inputs)) : kReduceBytes},
         args);
}

void run(Runtime& runtime, const LinearInt8Args& args, const LaunchChoice& choice) {
  if (args.rows == 0) return;
  check_gate(args);
  // Where there are no inputs there is no order.
  if (args.is_ordered || args.weight.inputs == 0) return run_ordered_int8(runtime, args);
  if (args.to.gated > 0 || args.to.moments.data)
    throw Error("codes of inputs that leave a gate or moments lie in order");
  if (args.many_rows == ManyRows::warpgroups && multiply_by_warpgroups(runtime, args, choice)) return;
  if (!run_gemm_int8(runtime, args, choice))
    throw Error("{} rows times an int8 matrix of {} outputs are too many for a GPU", args.rows,
                args.weight.outputs);
}

void run(Runtime& runtime, const QuantizedLinearArgs& args, const LaunchChoice& choice) {
  if (args.linear.rows == 0) return;
  check_gate(args.linear);
  if (const auto shape = coded_row_shape(runtime, args, choice); shape && choice.inputs != 0)
    return run_coded_row(runtime, args, *shape);
  if (can_make_codes(runtime, args) &&
      (choice.inputs == kByRule ? makes_codes_by_rule(args) : choice.inputs == 1))
    return run_coded_int8(runtime, args);
  QuantizedLinearArgs apart = args;
  apart.quantize.is_ordered = apart.linear.is_ordered = args.linear.rows <= kFewInt8Rows;
  run(runtime, apart.quantize);
  run(runtime, apart.linear, choice);
}

}  // namespace assay::cuda
