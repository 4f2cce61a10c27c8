// Multiplications by grouped codes in 16 bits: numbers as the CPU's scalar readers have them, and bits that
// do not depend on how many rows there are.
#include <gtest/gtest.h>

#include "assay/backend/cpu/kernels/grouped_codes.h"
#include "assay/backend/cuda/kernels/launch_shapes.h"
#include "assay/backend/cuda/lower/pack.h"
#include "assay/base/error.h"
#include "assay/quant/format.h"
#include "support/cuda_kernels.h"
#include "support/held_codes.h"

namespace assay::cuda {
namespace {

using namespace testing_support;

constexpr Arithmetic kHalves[] = {Arithmetic::float16, Arithmetic::bfloat16};

float rounded_to(Arithmetic arithmetic, float x) {
  return arithmetic == Arithmetic::float16 ? f16_to_float(float_to_f16(x)) : bf16_to_float(float_to_bf16(x));
}

class CudaGrouped : public CudaKernels {
 protected:
  struct Weights {
    Matrix matrix;
    Floats scaled, offsets;  // [outputs][inputs]: a weight is their sum
  };

  Weights make(const WeightFormat& format, std::int64_t outputs, std::int64_t inputs) {
    const std::int64_t panels = strips_of(outputs);
    const test::HeldCodes held(format, inputs, panels, false);
    const cpu::GroupedCodes& codes = held.args();
    std::vector<std::byte> packed(at_of(panels * grouped_code_bytes(format.bits, inputs)));
    Weights made;
    for (std::int64_t row = 0; row < panels * kStrip; ++row) {
      std::vector<std::uint8_t> own;
      const std::byte* panel = codes.codes + row / kStrip * codes.code_bytes();
      for (std::int64_t k = 0; k < inputs; ++k) {
        own.push_back(static_cast<std::uint8_t>(cpu::code_at(panel, format.bits, k, row % kStrip)));
        const std::byte* const run =
            codes.scales + row / kStrip * codes.scale_bytes() + k / codes.run.inputs * codes.run.bytes();
        const int group = static_cast<int>(k % codes.run.inputs / codes.run.group());
        if (row >= outputs) continue;
        made.scaled.push_back(codes.values[own.back()] *
                              cpu::scale_in_run(codes.run, run, row % kStrip, group));
        made.offsets.push_back(cpu::offset_in_run(codes.run, run, row % kStrip, group));
      }
      put_grouped_codes(packed.data(), format.bits, inputs, row, own.data());
    }
    std::vector<std::byte> scales(codes.scales, codes.scales + panels * codes.scale_bytes());
    scales.resize(at_of(round_up(std::ssize(scales), 4)));
    made.matrix = {.data = put(packed),
                   .scales = put(scales).as<const float>(),
                   .outputs = outputs,
                   .inputs = inputs,
                   .group = codes.run.group(),
                   .format = MatrixFormat::grouped,
                   .run = codes.run};
    std::copy_n(codes.values, std::min(std::size_t{16}, std::size_t{1} << format.bits), made.matrix.codebook);
    return made;
  }
  LinearArgs product(const Weights& weights, const Floats& x, std::int64_t rows, Arithmetic arithmetic) {
    const std::int64_t outputs = weights.matrix.outputs, inputs = weights.matrix.inputs;
    return {.x = put(x),
            .x_stride = inputs,
            .rows = rows,
            .weight = weights.matrix,
            .arithmetic = arithmetic,
            .to = {.out = room<float>(rows * outputs), .out_stride = outputs},
            .scratch = scratch_for(rows, inputs, arithmetic)};
  }
  Floats multiply(const LinearArgs& args) {
    run(*runtime_, args);
    return get(args.to.out, args.rows * args.to.out_stride);
  }
  // The sum of an output and row, and what it may be off by: sums are made in float32, codes are exact.
  void expect_sum(float got, const Weights& weights, const Floats& x, std::int64_t row, std::int64_t output,
                  Arithmetic arithmetic, const std::string& what) {
    const std::int64_t inputs = weights.matrix.inputs;
    double sum = 0, size = 0;
    for (std::int64_t k = 0; k < inputs; ++k) {
      const auto one = static_cast<double>(rounded_to(arithmetic, x[at_of(row * inputs + k)]));
      const auto scaled = static_cast<double>(weights.scaled[at_of(output * inputs + k)]),
                 offset = static_cast<double>(weights.offsets[at_of(output * inputs + k)]);
      sum += one * (scaled + offset);
      size += std::fabs(one * scaled) + std::fabs(one * offset);
    }
    ASSERT_NEAR(static_cast<double>(got), sum, 2e-6 * size)
        << what << ", row " << row << ", output " << output;
  }
};

TEST_F(CudaGrouped, SumsAreThoseOfTheScalarReaders) {
  for (const WeightFormat& format : test::kHeldFormats)
    for (const Arithmetic arithmetic : kHalves)
      for (const Shape& shape : {Shape{16, 32, 1},
                                 {33, 80, 2},
                                 {16, 512, 8},
                                 {5, 800, 9},
                                 {17, 300, 16},
                                 {18, 1056, 17},
                                 {40, 288, 33},
                                 {16, 2336, 3},
                                 {20, 96, 64},
                                 {33, 256, 65},
                                 {16, 64, 200},
                                 {16, 6400, 2}}) {
        const Weights weights = make(format, shape.outputs, shape.inputs);
        const Floats x = random_.floats(shape.rows * shape.inputs);
        const Floats got = multiply(product(weights, x, shape.rows, arithmetic));
        for (std::int64_t row = 0; row < shape.rows; ++row)
          for (std::int64_t output = 0; output < shape.outputs; ++output)
            expect_sum(got[at_of(row * shape.outputs + output)], weights, x, row, output, arithmetic,
                       name_of(format) + (arithmetic == Arithmetic::float16 ? ", float16" : ", bfloat16"));
        if (HasFatalFailure()) return;
      }
}

TEST_F(CudaGrouped, ARowHasTheSameBitsInEveryBatch) {
  constexpr std::int64_t kOutputs = 20, kInputs = 672, kRows = 130;
  for (const WeightFormat& format : test::kHeldFormats)
    for (const Arithmetic arithmetic : kHalves) {
      const Weights weights = make(format, kOutputs, kInputs);
      const Floats x = random_.floats(kRows * kInputs);
      const Floats all = multiply(product(weights, x, kRows, arithmetic));
      for (const std::int64_t rows : {1, 2, 8, 9, 33, 64, 65})
        for (const std::int64_t first : {std::int64_t{0}, kRows - rows}) {
          const Floats own(x.begin() + first * kInputs, x.begin() + (first + rows) * kInputs);
          const Floats got = multiply(product(weights, own, rows, arithmetic));
          for (std::size_t i = 0; i < got.size(); ++i)
            ASSERT_TRUE(is_same(got[i], all[at_of(first * kOutputs) + i]))
                << name_of(format) << ", " << rows << " rows, element " << i;
        }
    }
}

// A gate's epilogue has the bits of the product and the gate one after the other; bias, sums that are added
// to, and rows that are left in order are those of other products.
TEST_F(CudaGrouped, EpiloguesAreThoseOfOtherProducts) {
  constexpr std::int64_t kGated = 32, kInputs = 320;
  for (const WeightFormat& format : test::kHeldFormats)
    for (const std::int64_t rows : {1, 8, 11, 40}) {
      const Weights weights = make(format, 2 * kGated, kInputs);
      const Floats x = random_.floats(rows * kInputs), biases = random_.floats(2 * kGated);
      LinearArgs args = product(weights, x, rows, Arithmetic::bfloat16);
      const Floats plain = multiply(args);
      args.to.bias = put(biases);
      const Floats biased = multiply(args);
      args.to.adds = true;
      const Floats added = multiply(args);
      for (std::size_t i = 0; i < plain.size(); ++i) {
        ASSERT_TRUE(is_same(biased[i], plain[i] + biases[i % (2 * kGated)]));
        ASSERT_TRUE(is_same(added[i], biased[i] + biased[i]));
      }
      args.to.adds = false;
      args.to.gated = kGated;
      args.to.activation = Activation::silu;
      args.to.out = room<float>(rows * kGated);
      args.to.out_stride = kGated;
      const Floats got = multiply(args);
      const auto gate = room<float>(rows * kGated);
      run(*runtime_, GatedArgs{.x = put(biased),
                               .x_stride = 2 * kGated,
                               .activation = Activation::silu,
                               .out = gate,
                               .out_stride = kGated,
                               .rows = rows,
                               .n = kGated});
      const Floats want = get(gate, rows * kGated);
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_TRUE(is_same(got[i], want[i])) << name_of(format) << ", " << rows << " rows, element " << i;
    }
}

// As a norm in front of it makes the rows, whether their moments are there or not.
TEST_F(CudaGrouped, TakesRowsAsANormMakesThem) {
  constexpr std::int64_t kRows = 2, kInputs = 256, kOutputs = 16;
  const Weights weights = make(formats::kQ4K, kOutputs, kInputs);
  const Floats x = random_.floats(kRows * kInputs);
  const auto gain = put(random_.floats(kInputs)), normed = room<float>(kRows * kInputs);
  run(*runtime_, NormArgs{.x = put(x),
                          .x_stride = kInputs,
                          .row_of = {},
                          .gain = gain,
                          .bias = {},
                          .epsilon = 1e-5F,
                          .subtracts_mean = false,
                          .out = normed,
                          .out_stride = kInputs,
                          .rows = kRows,
                          .groups = 1,
                          .n = kInputs});
  LinearArgs args = product(weights, x, kRows, Arithmetic::bfloat16);
  args.made = {.kind = FusedPrologue::Kind::norm, .gain = gain, .epsilon = 1e-5F};
  const Floats got = multiply(args),
               want = multiply(product(weights, get(normed, kRows * kInputs), kRows, Arithmetic::bfloat16));
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_TRUE(is_same(got[i], want[i])) << i;
}

// What is not finite stays in its row.
TEST_F(CudaGrouped, KeepsNumbersThatAreNotFinite) {
  const Weights weights = make(formats::kQ8_0, 16, 64);
  Floats x = random_.floats(2 * 64);
  x[64 + 40] = kInfinity;
  const Floats got = multiply(product(weights, x, 2, Arithmetic::bfloat16));
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_TRUE(std::isfinite(got[i])) << i;
    EXPECT_FALSE(std::isfinite(got[16 + i])) << i;
  }
}

// float32 takes a kernel that knows any run.
TEST_F(CudaGrouped, HasNoKernelForOtherRuns) {
  Weights weights = make(formats::kQ4K, 16, 256);
  weights.matrix.run.groups = 4;
  const Floats x = random_.floats(256);
  EXPECT_THROW(multiply(product(weights, x, 1, Arithmetic::float16)), Error);
  EXPECT_NO_THROW(multiply(product(weights, x, 1, Arithmetic::float32)));
}

}  // namespace
}  // namespace assay::cuda
