#include "assay/backend/cuda/kernels/launch_warpgroups.h"

#include <algorithm>

#include "assay/backend/cuda/kernels/launch_shapes.h"

namespace assay::cuda {

namespace {

// Shared memory, as kernels/warpgroups.cuh lays it out: stages of 128 bytes of each row from a multiple of
// 1,024 bytes on, and the codebook once a bank.
constexpr std::int64_t kStagesOfRows = 5, kRowBytes = 128, kAlignmentOfRows = 1024,
                       kCodebookBytes = 16 * 32 * 4;
constexpr std::int64_t kOutputsOfWarpgroup = 64, kThreadsOfWarpgroup = 128, kMaxGrid = 65535;

template <typename Args>
void launch_warpgroups(Runtime& runtime, const Kernel<Args> (&kernels)[kWarpgroupShapes], const Args& args,
                       std::int64_t more_bytes, const LaunchChoice& choice) {
  const GemmInputs& in = args.in;
  const WarpgroupShape shape = choice.warpgroups == kByRule
                                   ? warpgroup_shape(in.rows, in.weight.outputs, runtime.facts().processors)
                                   : kWarpgroupBlocks[choice.warpgroups];
  launch(runtime, kernels[shape.index],
         {.grid_x = blocks_of(in.rows, shape.rows),
          .grid_y = blocks_of(in.weight.outputs, shape.outputs),
          .block = count_of(shape.outputs / kOutputsOfWarpgroup * kThreadsOfWarpgroup),
          .shared_bytes = count_of(kAlignmentOfRows + kStagesOfRows * shape.rows * kRowBytes + more_bytes)},
         args);
}

bool fits(std::int64_t rows, const Matrix& weight) {
  return rows > kMinorRows && weight.inputs > 0 && weight.outputs > 0 &&
         weight.outputs <= kMaxGrid * kOutputsOfWarpgroup;
}

const Kernel<GemmArgs> (&kernels_of(const WarpgroupKernels& k, const Matrix& weight,
                                    Arithmetic arithmetic))[kWarpgroupShapes] {
  const bool are_float16 = arithmetic == Arithmetic::float16;
  if (weight.format == MatrixFormat::float16) return k.float16;
  if (weight.format == MatrixFormat::bfloat16) return k.bfloat16;
  if (weight.group >= 64) return are_float16 ? k.wide_float16 : k.wide_bfloat16;
  return are_float16 ? k.narrow_float16 : k.narrow_bfloat16;
}

}  // namespace

// A processor's time for 64 inputs of a block is that of its tensor cores (4,096 operations a cycle) or that
// of bringing its rows and weights from the L2 cache (about 48 bytes a cycle where all processors do); blocks
// beyond the first of a processor add theirs.
WarpgroupShape warpgroup_shape(std::int64_t rows, std::int64_t outputs, int processors) {
  const auto cycles = [&](const WarpgroupShape& s) {
    const std::int64_t blocks = ((outputs + s.outputs - 1) / s.outputs) * ((rows + s.rows - 1) / s.rows),
                       turns = (blocks + processors - 1) / processors,
                       multiplying = s.outputs * s.rows * 64 * 2 / 4096,
                       fetching = (s.outputs + s.rows) * 128 / 48;
    return turns * std::max(multiplying, fetching);
  };
  return *std::min_element(std::begin(kWarpgroupBlocks), std::end(kWarpgroupBlocks),
                           [&](const auto& a, const auto& b) { return cycles(a) < cycles(b); });
}

bool has_warpgroups(const Runtime& runtime) {
  return runtime.facts().major == 9 && runtime.facts().minor == 0 &&
         runtime.kernels().warpgroups.bfloat16[0].entry != nullptr;
}

bool takes_warpgroups(MatrixFormat format, Arithmetic arithmetic, std::int64_t group, bool has_offsets) {
  return format == MatrixFormat::int8 ||
         (format != MatrixFormat::grouped && takes_ordered_inputs(format, arithmetic, group, has_offsets));
}

bool multiply_by_warpgroups(Runtime& runtime, const LinearArgs& args, const LaunchChoice& choice) {
  const Matrix& weight = args.weight;
  const Arithmetic arithmetic = weight.format == MatrixFormat::float16    ? Arithmetic::float16
                                : weight.format == MatrixFormat::bfloat16 ? Arithmetic::bfloat16
                                                                          : args.arithmetic;
  const std::int64_t stride = rounded_inputs_stride(weight.inputs, arithmetic);
  if (!has_warpgroups(runtime) || weight.format == MatrixFormat::int8 || !fits(args.rows, weight) ||
      !takes_warpgroups(weight.format, arithmetic, weight.group, weight.offsets || weight.input_groups) ||
      args.made.kind != FusedPrologue::Kind::none || args.to.ordered.out ||
      args.rows * stride > args.scratch.bytes)
    return false;
  launch_rows(runtime, runtime.kernels().round_inputs,
              RoundArgs{.x = args.x,
                        .x_stride = args.x_stride,
                        .rows = args.rows,
                        .inputs = weight.inputs,
                        .arithmetic = arithmetic,
                        .out = args.scratch.data,
                        .out_stride = stride},
              stride / 16);
  launch_warpgroups(runtime, kernels_of(runtime.kernels().warpgroups, weight, arithmetic),
                    GemmArgs{.in = {.x = args.scratch.data,
                                    .x_stride = stride,
                                    .rows = args.rows,
                                    .weight = weight,
                                    .partial = {}},
                             .to = args.to},
                    weight.format == MatrixFormat::four_bit ? kCodebookBytes : 0, choice);
  return true;
}

bool multiply_by_warpgroups(Runtime& runtime, const LinearInt8Args& args, const LaunchChoice& choice) {
  if (!has_warpgroups(runtime) || !fits(args.rows, args.weight) || args.to.ordered.out) return false;
  launch_warpgroups(runtime, runtime.kernels().warpgroups.int8,
                    GemmInt8Args{.in = {.x = args.codes.as<const std::byte>(),
                                        .x_stride = args.codes_stride,
                                        .rows = args.rows,
                                        .weight = args.weight,
                                        .partial = {}},
                                 .linear = args},
                    0, choice);
  return true;
}

}  // namespace assay::cuda
