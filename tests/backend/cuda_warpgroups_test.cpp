// Multiplications of many rows by Hopper's warpgroups, against doubles and the kernels of mma.sync.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/backend/cuda/kernels/launch_warpgroups.h"
#include "assay/base/error.h"
#include "support/cuda_kernels.h"

namespace assay::cuda {
namespace {

using namespace testing_support;

struct WarpgroupCase {
  std::int64_t outputs, inputs, rows;
  int block;  // which one is taken where there is one processor
};
// Ragged in each direction; stages that go round once and more, or are fewer than are fetched ahead; whole
// ones.
constexpr WarpgroupCase kWarpgroupCases[] = {{150, 331, 200, 0}, {70, 203, 65, 1}, {60, 700, 100, 2},
                                             {40, 130, 64, 3},   {3, 9, 33, 3},    {128, 768, 128, 1}};

std::vector<Way> warpgroup_ways() {
  std::vector<Way> all{{MatrixFormat::float16, Arithmetic::float16},
                       {MatrixFormat::bfloat16, Arithmetic::bfloat16}};
  for (const std::int64_t group : {16, 32, 64, 128})
    for (const Arithmetic arithmetic : {Arithmetic::float16, Arithmetic::bfloat16})
      all.push_back({MatrixFormat::four_bit, arithmetic, group});
  return all;
}

// The device that tests run on, which in the emulation has one processor: the shape alone says which blocks
// are taken.
std::unique_ptr<Runtime> one_processor() {
  std::unique_ptr<Runtime> runtime = make_test_runtime();
  if (dynamic_cast<EmulatedRuntime*>(runtime.get()) == nullptr) return runtime;
  EmulatedDevice device;
  device.facts.processors = 1;
  return make_emulated_runtime(device);
}

class CudaWarpgroups : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_warpgroups(*runtime_)) GTEST_SKIP() << "the GPU has no warpgroup products";
  }
  Scratch scratch(std::int64_t bytes) { return {memory_.of<std::byte>(at_of(bytes)), bytes}; }
  Scratch scratch_for(std::int64_t rows, std::int64_t inputs) {
    return scratch(round_up(rows * rounded_inputs_stride(inputs, Arithmetic::bfloat16), 256));
  }

  std::unique_ptr<Runtime> runtime_ = one_processor();
  DeviceMemory memory_{*runtime_};
  Random random_;
};

// What a weight becomes: of codes the code times its scale, rounded.
double warpgroup_weight(const TestMatrix& m, std::int64_t output, std::int64_t k, const Way& way) {
  return static_cast<double>(rounded(m.value(output, k), way));
}

TEST_F(CudaWarpgroups, MultiplyEveryFormatAndShape) {
  for (const WarpgroupCase& c : kWarpgroupCases)
    for (const Way& way : warpgroup_ways()) {
      SCOPED_TRACE(text_of(way) + ", " + std::to_string(c.outputs) + " x " + std::to_string(c.inputs) + ", " +
                   std::to_string(c.rows) + " rows");
      EXPECT_EQ(warpgroup_shape(c.rows, c.outputs, 1).index, c.block);
      const TestMatrix m = make_matrix(way.format, c.outputs, c.inputs, random_, way.group);
      const std::int64_t stride = c.inputs + c.rows % 2, out_stride = c.outputs + 1;
      Floats x = random_.floats(c.rows * stride);
      x[at_of(5 * stride + 7)] = kNaN;
      x[at_of(6 * stride + c.inputs - 1)] = kInfinity;
      const Floats before = random_.floats(c.rows * out_stride), bias = random_.floats(c.outputs);
      const bool adds = c.block % 2 == 0, has_bias = way.group != 32;
      const Activation activation = c.block < 2 ? Activation::silu : Activation::none;
      const auto out = memory_.put(before);
      const LinearArgs args{.x = memory_.put(x),
                            .x_stride = stride,
                            .rows = c.rows,
                            .weight = put_matrix(memory_, m),
                            .arithmetic = way.arithmetic,
                            .to = {.bias = has_bias ? memory_.put(bias) : DevicePointer<float>(),
                                   .activation = activation,
                                   .adds = adds,
                                   .out = out,
                                   .out_stride = out_stride},
                            .scratch = scratch_for(c.rows, c.inputs)};
      ASSERT_TRUE(multiply_by_warpgroups(*runtime_, args));
      const Floats got = memory_.get(out, before.size());
      for (std::int64_t row = 0; row < c.rows; ++row) {
        for (std::int64_t output = 0; output < c.outputs; ++output) {
          double sum = has_bias ? static_cast<double>(bias[at_of(output)]) : 0, size = 1;
          for (std::int64_t k = 0; k < c.inputs; ++k) {
            const double product = static_cast<double>(rounded(x[at_of(row * stride + k)], way)) *
                                   warpgroup_weight(m, output, k, way);
            sum += product;
            size += std::fabs(product);
          }
          if (activation == Activation::silu) sum = sum / (1 + std::exp(-sum));
          if (adds) sum += static_cast<double>(before[at_of(row * out_stride + output)]);
          expect_near(got[at_of(row * out_stride + output)], sum, std::isfinite(size) ? 4e-6 * size : 0,
                      "a sum of a warpgroup");
        }
        ASSERT_EQ(got[at_of(row * out_stride + c.outputs)], before[at_of(row * out_stride + c.outputs)]);
      }
      if (HasFailure()) return;
    }
}

// Weights that are not finite stay with their output: what lies behind the inputs adds nothing.
TEST_F(CudaWarpgroups, KeepInfiniteWeightsApart) {
  TestMatrix m = make_matrix(MatrixFormat::bfloat16, 40, 80, random_);
  const std::uint16_t infinity = 0x7f80;
  std::memcpy(m.data.data() + byte_of(m.format, m.inputs, 17, 79), &infinity, sizeof infinity);
  const auto out = memory_.of<float>(20 * 40);
  const LinearArgs args{.x = memory_.put(Floats(20 * 80, 1)),
                        .x_stride = 80,
                        .rows = 20,
                        .weight = put_matrix(memory_, m),
                        .to = {.out = out, .out_stride = 40},
                        .scratch = scratch_for(20, 80)};
  ASSERT_TRUE(multiply_by_warpgroups(*runtime_, args));
  const Floats got = memory_.get(out, 20 * 40);
  for (std::size_t i = 0; i < got.size(); ++i)
    if (i % 40 == 17)
      EXPECT_EQ(got[i], kInfinity);
    else
      EXPECT_TRUE(std::isfinite(got[i])) << i;
}

// int8 codes: sums are exact, whichever kernel makes them.
TEST_F(CudaWarpgroups, GiveTheBitsOfFewRowsOfCodes) {
  for (const WarpgroupCase& c : kWarpgroupCases)
    for (const bool has_outliers : {false, true}) {
      SCOPED_TRACE(std::to_string(c.outputs) + " x " + std::to_string(c.inputs) + ", " +
                   std::to_string(c.rows));
      const TestMatrix m = make_matrix(MatrixFormat::int8, c.outputs, c.inputs, random_);
      const std::int64_t stride = round_up(c.inputs, 32);
      std::vector<std::int8_t> codes(at_of(c.rows * stride));
      std::vector<std::int32_t> zero_points, sums;
      for (std::int64_t row = 0; row < c.rows; ++row) {
        zero_points.push_back(random_.below(256) - 128);
        for (std::int64_t k = 0; k < c.inputs; ++k)
          codes[at_of(row * stride + k)] = static_cast<std::int8_t>(random_.below(256) - 128);
      }
      for (std::int64_t output = 0; output < c.outputs; ++output) sums.push_back(random_.below(9999));
      const Floats absmax = random_.floats(c.rows, 0.1F, 3), x = random_.floats(c.rows * c.inputs),
                   before = random_.floats(c.rows * c.outputs);
      LinearInt8Args args{.codes = memory_.put(codes),
                          .codes_stride = stride,
                          .rows = c.rows,
                          .absmax = memory_.put(absmax),
                          .zero_points = memory_.put(zero_points),
                          .sums = memory_.put(sums),
                          .weight = put_matrix(memory_, m),
                          .x = memory_.put(x),
                          .x_stride = c.inputs,
                          .to = {.bias = memory_.put(Floats(at_of(c.outputs), 0.25F)),
                                 .activation = Activation::gelu_tanh,
                                 .adds = true,
                                 .out_stride = c.outputs},
                          .scratch = scratch(partial_sums_bytes(c.rows, c.outputs, 132))};
      if (has_outliers) {
        args.outliers = memory_.put(std::vector<std::int32_t>{0, 8});
        args.outlier_count = memory_.put(std::vector<std::int32_t>{2});
      }
      const auto multiply = [&](ManyRows by) {
        args.many_rows = by;
        args.to.out = memory_.put(before);
        run(*runtime_, args);
        return memory_.get(args.to.out, before.size());
      };
      ASSERT_TRUE(multiply_by_warpgroups(*runtime_, [&] {
        LinearInt8Args other = args;
        other.to.out = memory_.of<float>(before.size());
        other.to.adds = false;
        return other;
      }()));
      const Floats few = multiply(ManyRows::ranges), many = multiply(ManyRows::warpgroups);
      for (std::size_t i = 0; i < few.size(); ++i) ASSERT_EQ(few[i], many[i]) << "element " << i;
    }
}

// On a GPU alone: blocks of every shape on all processors, and matrices of models.
TEST_F(CudaWarpgroups, AgreeWithOtherKernelsOnAGpu) {
  if (dynamic_cast<EmulatedRuntime*>(runtime_.get()) != nullptr)
    GTEST_SKIP() << "it takes long in the emulation";
  for (const WarpgroupCase& c : {WarpgroupCase{2560, 2048, 512, 0}, WarpgroupCase{2048, 5632, 512, 0},
                                 WarpgroupCase{11264, 2048, 512, 0}, WarpgroupCase{768, 768, 512, 0},
                                 WarpgroupCase{4096, 4096, 1000, 0}, WarpgroupCase{2048, 2048, 4096, 0}})
    for (const Way& way : warpgroup_ways()) {
      SCOPED_TRACE(text_of(way) + ", " + std::to_string(c.outputs) + " x " + std::to_string(c.inputs) + ", " +
                   std::to_string(c.rows) + " rows");
      DeviceMemory memory(*runtime_);
      const TestMatrix m = make_matrix(way.format, c.outputs, c.inputs, random_, way.group);
      const std::int64_t bytes = c.rows * rounded_inputs_stride(c.inputs, way.arithmetic) +
                                 partial_sums_bytes(c.rows, c.outputs, 132);
      LinearArgs args{.x = memory.put(random_.floats(c.rows * c.inputs)),
                      .x_stride = c.inputs,
                      .rows = c.rows,
                      .weight = put_matrix(memory, m),
                      .arithmetic = way.arithmetic,
                      .to = {.out = memory.of<float>(at_of(c.rows * c.outputs)), .out_stride = c.outputs},
                      .scratch = {memory.of<std::byte>(at_of(bytes)), bytes}};
      const auto multiply = [&](ManyRows by) {
        args.many_rows = by;
        run(*runtime_, args);
        return memory.get(args.to.out, at_of(c.rows * c.outputs));
      };
      const Floats own = multiply(ManyRows::ranges), many = multiply(ManyRows::warpgroups);
      // Weights of 4 bits are rounded behind their scale here, in front of it there.
      const double unit = way.format != MatrixFormat::four_bit    ? 1e-5
                          : way.arithmetic == Arithmetic::float16 ? 1e-3
                                                                  : 8e-3,
                   bound = unit * 4 * std::sqrt(static_cast<double>(c.inputs));
      for (std::size_t i = 0; i < own.size(); ++i)
        ASSERT_NEAR(static_cast<double>(own[i]), static_cast<double>(many[i]), bound) << "element " << i;
    }
}

TEST_F(CudaWarpgroups, LeaveToOtherKernelsWhatIsNotForThem) {
  const TestMatrix m = make_matrix(MatrixFormat::bfloat16, 20, 40, random_),
                   narrow = make_matrix(MatrixFormat::four_bit, 20, 40, random_, 8),
                   float32 = make_matrix(MatrixFormat::float32, 20, 40, random_);
  const LinearArgs args{.x = memory_.put(random_.floats(70 * 40)),
                        .x_stride = 40,
                        .rows = 70,
                        .weight = put_matrix(memory_, m),
                        .arithmetic = Arithmetic::bfloat16,
                        .to = {.out = memory_.of<float>(70 * 20), .out_stride = 20},
                        .scratch = scratch_for(70, 40)};
  const auto is_taken = [&](const auto& change) {
    LinearArgs changed = args;
    change(changed);
    return multiply_by_warpgroups(*runtime_, changed);
  };
  EXPECT_TRUE(is_taken([](LinearArgs&) {}));
  EXPECT_FALSE(is_taken([](LinearArgs& a) { a.rows = kMinorRows; }));
  EXPECT_FALSE(is_taken([](LinearArgs& a) { a.scratch.bytes = 100; }));
  EXPECT_FALSE(is_taken([&](LinearArgs& a) { a.weight = put_matrix(memory_, narrow); }));
  EXPECT_FALSE(is_taken([&](LinearArgs& a) { a.weight = put_matrix(memory_, float32); }));
  EXPECT_FALSE(is_taken([&](LinearArgs& a) {
    a.weight.format = MatrixFormat::four_bit;
    a.weight.group = 64;
    a.weight.offsets = a.x;
  }));
  EmulatedDevice older;
  older.facts.major = 8;
  older.facts.minor = 9;
  EXPECT_FALSE(multiply_by_warpgroups(*make_emulated_runtime(older), args));
  EXPECT_FALSE(has_warpgroups(*make_emulated_runtime(older)));
}

TEST(CudaWarpgroupShape, KeepsProcessorsBusy) {
  const auto index = [](std::int64_t rows, std::int64_t outputs) {
    return warpgroup_shape(rows, outputs, 132).index;
  };
  EXPECT_EQ(index(4096, 11264), 0);
  EXPECT_EQ(index(512, 2560), 1);
  EXPECT_EQ(index(512, 2048), 2);
  EXPECT_EQ(index(512, 768), 3);
  EXPECT_EQ(index(100, 2048), 3);
}

}  // namespace
}  // namespace assay::cuda
