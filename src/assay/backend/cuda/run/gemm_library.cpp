#include "assay/backend/cuda/run/gemm_library.h"

#include "assay/base/error.h"

namespace assay::cuda {

namespace {

constexpr std::int64_t kElementsOfBlock = 256, kTilesOfBlock = 8, kMaxGridRows = 65535;

std::uint32_t blocks_for(std::int64_t n, std::int64_t unit) {
  return static_cast<std::uint32_t>((n + unit - 1) / unit);
}

}  // namespace

std::optional<Arithmetic> library_arithmetic(MatrixFormat format, Arithmetic chosen, Activation activation,
                                             bool adds) {
  if (adds && activation != Activation::none) return std::nullopt;  // it adds sums, not what is made of them
  switch (format) {
    case MatrixFormat::float32:
      return chosen == Arithmetic::tf32 ? Arithmetic::tf32 : Arithmetic::float32;
    case MatrixFormat::float16:
      return Arithmetic::float16;
    case MatrixFormat::bfloat16:
      return Arithmetic::bfloat16;
    case MatrixFormat::int8:
      return std::nullopt;
    case MatrixFormat::four_bit:
    case MatrixFormat::grouped:
      return chosen;
  }
  return std::nullopt;
}

void run(Runtime& runtime, const ExpandArgs& args) {
  const Matrix& m = args.matrix;
  if (m.format == MatrixFormat::int8) throw Error("an int8 matrix is not expanded");
  if (args.out_stride < expanded_stride(m.inputs) || strips_of(m.outputs) > kMaxGridRows)
    throw Error("a matrix of {} x {} is not expanded to rows of {}", m.outputs, m.inputs, args.out_stride);
  if (m.outputs == 0 || m.inputs == 0) return;
  launch(runtime, runtime.kernels().expand,
         {.grid_x = blocks_for(tiles_of_strip(m.format, m.inputs), kTilesOfBlock),
          .grid_y = static_cast<std::uint32_t>(strips_of(m.outputs)),
          .block = static_cast<std::uint32_t>(kTilesOfBlock * kLanes),
          .shared_bytes = 64},
         args);
}

void run(Runtime& runtime, const FinishArgs& args) {
  if (args.rows == 0 || args.n == 0) return;
  launch(runtime, runtime.kernels().finish,
         {.grid_x = blocks_for(args.n, kElementsOfBlock),
          .grid_y = static_cast<std::uint32_t>(args.rows),
          .block = static_cast<std::uint32_t>(kElementsOfBlock)},
         args);
}

bool multiply_by_library(Runtime& runtime, const LinearArgs& args, const LibraryScratch& scratch) {
  const Matrix& weight = args.weight;
  const std::optional<Arithmetic> arithmetic =
      library_arithmetic(weight.format, args.arithmetic, args.to.activation, args.to.adds);
  if (!arithmetic || args.rows < kLibraryRows || args.rows > kMaxGridRows ||
      args.made.kind != FusedPrologue::Kind::none || weight.outputs == 0 || weight.inputs == 0 ||
      strips_of(weight.outputs) > kMaxGridRows ||
      expanded_matrix_bytes(weight.outputs, weight.inputs, *arithmetic) > scratch.matrix.bytes)
    return false;
  GemmProblem problem{.x = args.x.as<const std::byte>(),
                      .w = scratch.matrix.data,
                      .rows = args.rows,
                      .outputs = weight.outputs,
                      .inputs = weight.inputs,
                      .x_stride = args.x_stride,
                      .w_stride = expanded_stride(weight.inputs),
                      .arithmetic = *arithmetic,
                      .adds = args.to.adds,
                      .out = args.to.out,
                      .out_stride = args.to.out_stride,
                      .workspace = scratch.workspace};
  if (element_bytes(*arithmetic) == 2) {
    const std::int64_t stride = rounded_inputs_stride(weight.inputs, *arithmetic);
    if (args.rows * stride > args.scratch.bytes) return false;
    launch(runtime, runtime.kernels().round_inputs,
           {.grid_x = blocks_for(stride / 16, kElementsOfBlock),
            .grid_y = static_cast<std::uint32_t>(args.rows),
            .block = static_cast<std::uint32_t>(kElementsOfBlock)},
           RoundArgs{.x = args.x,
                     .x_stride = args.x_stride,
                     .rows = args.rows,
                     .inputs = weight.inputs,
                     .arithmetic = *arithmetic,
                     .out = args.scratch.data,
                     .out_stride = stride});
    problem.x = args.scratch.data;
    problem.x_stride = stride / 2;
  }
  run(runtime, ExpandArgs{.matrix = weight,
                          .arithmetic = *arithmetic,
                          .out = scratch.matrix.data,
                          .out_stride = problem.w_stride});
  runtime.gemm_library().multiply(problem);
  if (args.to.bias || args.to.activation != Activation::none)
    run(runtime, FinishArgs{.bias = args.to.bias,
                            .activation = args.to.activation,
                            .out = args.to.out,
                            .out_stride = args.to.out_stride,
                            .rows = args.rows,
                            .n = weight.outputs});
  return true;
}

}  // namespace assay::cuda
