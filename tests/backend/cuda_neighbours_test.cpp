// What multiplications of few rows do for what stands in front of them and behind: a gate in the epilogue,
// moments for the norm behind, and norms made of moments that somebody left: the bits of each by itself.
#include <gtest/gtest.h>

#include "assay/backend/cuda/run/neighbours.h"
#include "assay/base/error.h"
#include "support/cuda_kernels.h"
#include "support/cuda_ordered.h"
#include "support/hand_written_plan.h"

namespace assay::cuda {
namespace {

using namespace testing_support;

// So few processors that blocks take strip after strip, and share a processor.
EmulatedDevice small_device() {
  EmulatedDevice device;
  device.facts.processors = 3;
  return device;
}

class CudaNeighbours : public CudaKernels {
 protected:
  CudaNeighbours() : CudaKernels(make_test_runtime(small_device())) {}

  // One for each kernel.
  static std::vector<Way> ordered_ways() {
    return {{MatrixFormat::float16, Arithmetic::float16},
            {MatrixFormat::bfloat16, Arithmetic::bfloat16},
            {MatrixFormat::four_bit, Arithmetic::float16, 32},
            {MatrixFormat::four_bit, Arithmetic::bfloat16, 64},
            {MatrixFormat::four_bit, Arithmetic::bfloat16, 16},
            {MatrixFormat::four_bit, Arithmetic::float16, 4096}};
  }
  // Moments as a product leaves them that adds 0 * x to the rows.
  MomentParts moments_of_rows(DevicePointer<float> rows, std::int64_t stride, std::int64_t count,
                              std::int64_t columns) {
    const std::int64_t parts = 2 * ((columns + 15) / 16) + 2;  // a stride beyond what is needed
    const MomentParts moments{.data = room<float>(count * parts), .stride = parts};
    run(*runtime_, LinearArgs{.x = put(Floats(at_of(count * 32), 0.0F)),
                              .x_stride = 32,
                              .rows = count,
                              .weight = put(make_matrix(MatrixFormat::bfloat16, columns, 32, random_)),
                              .arithmetic = Arithmetic::bfloat16,
                              .to = {.adds = true, .out = rows, .out_stride = stride, .moments = moments},
                              .scratch = scratch_for(count, 32, Arithmetic::bfloat16)});
    return moments;
  }
  void expect_equal(DevicePointer<float> got_at, DevicePointer<float> wanted_at, std::int64_t count) {
    const Floats wanted = get(wanted_at, count), got = get(got_at, count);
    for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_TRUE(is_same(got[i], wanted[i])) << i;
  }
};

TEST_F(CudaNeighbours, GateInTheProductInFront) {
  constexpr Activation kGates[] = {Activation::silu, Activation::gelu_tanh, Activation::relu2,
                                   Activation::none};
  std::size_t next = 0;
  for (const Way& way : ordered_ways())
    for (const Shape& shape : {Shape{16, 64, 1},
                               {48, 203, 2},
                               {304, 72, 1},
                               {16, 40, 8},
                               {32, 520, 9},
                               {304, 96, 11},
                               {64, 1283, 16},
                               {48, 144, 50}}) {
      const std::int64_t n = shape.outputs, rows = shape.rows, stride = n + 3;
      SCOPED_TRACE(text_of(way) + ", " + std::to_string(shape.inputs) + " inputs, " + std::to_string(rows) +
                   " rows");
      const Activation activation = kGates[next++ % std::size(kGates)];
      const auto both = room<float>(rows * 2 * n), apart = room<float>(rows * stride),
                 together = room<float>(rows * stride), bias = put(random_.floats(2 * n));
      LinearArgs args{
          .x = put(random_.floats(rows * shape.inputs, -2, 2)),
          .x_stride = shape.inputs,
          .rows = rows,
          .weight = put(make_matrix(way.format, 2 * n, shape.inputs, random_, way.group)),
          .arithmetic = way.arithmetic,
          .to = {.bias = next % 2 == 0 ? bias : DevicePointer<float>(), .out = both, .out_stride = 2 * n},
          .scratch = scratch_for(rows, shape.inputs, way.arithmetic)};
      run(*runtime_, args);
      run(*runtime_, GatedArgs{.x = both,
                               .x_stride = 2 * n,
                               .activation = activation,
                               .out = apart,
                               .out_stride = stride,
                               .rows = rows,
                               .n = n});
      const OrderedRows ordered(memory_, rows, n, way.arithmetic == Arithmetic::float16);
      args.to.activation = activation;
      args.to.out = together;
      args.to.out_stride = stride;
      args.to.gated = n;
      args.to.ordered = ordered.out();
      run(*runtime_, args);
      for (std::int64_t row = 0; row < rows; ++row)
        expect_equal(together + row * stride, apart + row * stride, n);
      ordered.expect(get(apart, rows * stride), stride);
    }
}

TEST_F(CudaNeighbours, LeaveMomentsWithTheBitsOfTheNormByItself) {
  for (const Way& way : ordered_ways())
    for (const Shape& shape : {Shape{33, 16, 1},
                               {17, 203, 2},
                               {416, 131, 1},
                               {32, 256, 3},
                               {21, 300, 16},
                               {40, 1103, 1},
                               {16, 2100, 2}})
      for (const bool subtracts_mean : {false, true}) {
        const std::int64_t rows = shape.rows, n = shape.inputs, stride = n % 4 == 0 ? n + 4 : n + 1;
        SCOPED_TRACE(text_of(way) + ", " + std::to_string(n) + " inputs, " + std::to_string(rows) +
                     " rows, " + std::to_string(subtracts_mean));
        Floats x = random_.floats(rows * stride, -3, 5);
        if (rows == 16) x[at_of(2 * stride + n - 1)] = kInfinity;
        const auto held = put(x);
        FusedPrologue made{.kind = FusedPrologue::Kind::norm,
                           .gain = put(random_.floats(n)),
                           .bias = subtracts_mean ? put(random_.floats(n)) : DevicePointer<float>(),
                           .epsilon = 1e-5F,
                           .subtracts_mean = subtracts_mean};
        const auto apart = room<float>(rows * shape.outputs), together = room<float>(rows * shape.outputs);
        LinearArgs args{.x = held,
                        .x_stride = stride,
                        .rows = rows,
                        .weight = put(make_matrix(way.format, shape.outputs, n, random_, way.group)),
                        .arithmetic = way.arithmetic,
                        .to = {.out = apart, .out_stride = shape.outputs},
                        .scratch = scratch_for(rows, n, way.arithmetic),
                        .made = made};
        run(*runtime_, args);
        args.made.moments = moments_of_rows(held, stride, rows, n);
        args.to.out = together;
        run(*runtime_, args);
        expect_equal(together, apart, rows * shape.outputs);
        if (shape.outputs % 32 != 0) continue;
        const std::int64_t gated = shape.outputs / 2;
        args.to.gated = gated;
        args.to.out_stride = gated;
        run(*runtime_, args);
        args.made.moments = {};
        args.to.out = apart;
        run(*runtime_, args);
        expect_equal(together, apart, rows * gated);
      }
}

// Doubles agree with what moments say of a row far from zero.
TEST_F(CudaNeighbours, HaveMomentsOfRowsFarFromZero) {
  constexpr std::int64_t kColumns = 1000;
  const Floats x = random_.floats(kColumns, 999, 1001);
  const auto held = put(x), out = room<float>(kColumns);
  run(*runtime_, NormArgs{.x = held,
                          .x_stride = kColumns,
                          .gain = put(Floats(at_of(kColumns), 1.0F)),
                          .subtracts_mean = true,
                          .out = out,
                          .out_stride = kColumns,
                          .rows = 1,
                          .n = kColumns});
  double mean = 0, squares = 0;
  for (const float one : x) mean += static_cast<double>(one) / kColumns;
  for (const float one : x) squares += (static_cast<double>(one) - mean) * (static_cast<double>(one) - mean);
  const Floats got = get(out, kColumns);
  for (std::size_t i = 0; i < x.size(); ++i)
    expect_near(got[i], (static_cast<double>(x[i]) - mean) / std::sqrt(squares / kColumns), 2e-4, "norm");
}

TEST_F(CudaNeighbours, RefuseGatesThatDoNotFit) {
  LinearArgs args{.x = room<float>(17 * 32),
                  .x_stride = 32,
                  .rows = 2,
                  .weight = put(make_matrix(MatrixFormat::bfloat16, 64, 32, random_)),
                  .to = {.out = room<float>(17 * 64), .out_stride = 64, .gated = 32},
                  .scratch = scratch_for(17, 32, Arithmetic::bfloat16)};
  run(*runtime_, args);
  args.to.gated = 16;
  EXPECT_THROW(run(*runtime_, args), Error);
  args.to.gated = 32;
  args.to.adds = true;
  EXPECT_THROW(run(*runtime_, args), Error);
}

// A T4 has 64 KB of shared memory for a block: tables of codes, sums of many rows and normed rows do not fit
// together there.
class CudaSmallNeighbours : public CudaNeighbours {
 protected:
  CudaSmallNeighbours() {
    EmulatedDevice device = small_device();
    device.facts.shared_bytes_per_block = 64 << 10;
    small_ = make_emulated_runtime(device);
  }
  std::unique_ptr<Runtime> small_, large_ = make_emulated_runtime(small_device());
};

TEST_F(CudaSmallNeighbours, MultiplyInWhatSharedMemoryThereIs) {
  const Way way{MatrixFormat::four_bit, Arithmetic::float16, 64};
  for (const Shape& shape : {Shape{160, 64, 60}, {160, 64, 12}, {32, 4200, 2}})
    for (const bool is_normed : {false, true}) {
      const std::int64_t rows = shape.rows, n = shape.inputs, gated = shape.outputs / 2;
      SCOPED_TRACE(std::to_string(n) + " inputs, " + std::to_string(rows) + " rows, " +
                   std::to_string(is_normed));
      const TestMatrix m = make_matrix(way.format, shape.outputs, n, random_, way.group);
      const Floats x = random_.floats(rows * n, -2, 2), gain = random_.floats(n);
      const auto multiplied = [&](Runtime& runtime) {
        DeviceMemory memory(runtime);
        const MomentParts moments{.data = memory.put(Floats(at_of(rows * 2 * strips_of(n)), 0.5F)),
                                  .stride = 2 * strips_of(n)};
        const std::int64_t bytes = round_up(rows * rounded_inputs_stride(n, way.arithmetic), 256);
        LinearArgs args{
            .x = memory.put(x),
            .x_stride = n,
            .rows = rows,
            .weight = put_matrix(memory, m),
            .arithmetic = way.arithmetic,
            .to = {.out = memory.of<float>(at_of(rows * gated)), .out_stride = gated, .gated = gated},
            .scratch = {memory.of<std::byte>(at_of(bytes)), bytes}};
        if (is_normed)
          args.made = {.kind = FusedPrologue::Kind::norm,
                       .gain = memory.put(gain),
                       .epsilon = 1e-5F,
                       .moments = moments};
        run(runtime, args);
        return memory.get(args.to.out, at_of(rows * gated));
      };
      EXPECT_EQ(multiplied(*small_), multiplied(*large_));
    }
}

// Moments lie in one place: of products with norms between them each second one leaves some.
TEST(CudaNeighboursOfPlan, LeaveNoMomentsWhereTheyReadSome) {
  constexpr int kProducts = 4;
  test::HandWrittenPlan p;
  BufferId x = p.buffer(64);
  for (int i = 0; i < kProducts; ++i) {
    const BufferId out = p.buffer(64), normed = p.buffer(64);
    p.op(OpClass::linear, LinearOp{.weight = p.matrix(64, 64, formats::kBfloat16), .in = x, .out = out});
    if (i + 1 < kProducts)
      p.op(OpClass::norm, NormOp{.gain = p.vector(64, 1, 0.1), .epsilon = 1e-5F, .in = out, .out = normed});
    p.plan.hidden = out;
    x = normed;
  }
  p.plan.head.product.weight = p.matrix(16, 64, formats::kBfloat16);
  p.plan.vocab = 16;
  p.plan.context = 64;
  DeviceFacts facts;
  facts.processors = 4;
  facts.memory_bytes = std::int64_t{1} << 30;
  WorkspaceLayout layout(p.plan, facts);
  std::int64_t apart = 0;  // no two buffers share memory
  for (auto& place : layout.buffers) place.at = apart += std::int64_t{1} << 30;
  const Neighbours around = neighbours_of(p.plan, layout);
  const std::vector<bool> wanted{true, false, false, false, true, false, false};
  EXPECT_EQ(around.leaves_moments, wanted);
}

}  // namespace
}  // namespace assay::cuda
