// Products of few rows by int8 matrices, whose blocks quantize the rows themselves or take codes in order:
// the bits of a norm, a quantization, a product of many rows and a gate by themselves.
#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "support/cuda_int8_products.h"

namespace assay::cuda {
namespace {

using namespace testing_support;
using Kind = QuantizeArgs::Kind;
class CudaOrderedInt8 : public Int8Products {};

constexpr Shape kFewShapes[] = {{17, 1, 1},   {33, 65, 1},   {16, 256, 2},  {40, 300, 3},   {21, 1056, 5},
                                {16, 264, 8}, {16, 8200, 1}, {20, 2603, 2}, {33, 640, 9},   {16, 301, 16},
                                {5, 96, 17},  {48, 520, 33}, {19, 131, 64}, {16, 6200, 10}, {18, 40, 70}};

TEST_F(CudaOrderedInt8, HaveTheBitsOfSeparateKernels) {
  std::size_t next = 0;
  for (const Shape& shape : kFewShapes)
    for (const Kind kind : {Kind::row_ranges, Kind::symmetric, Kind::fixed, Kind::tensor_range}) {
      ++next;
      Int8Case c{.shape = shape,
                 .kind = kind,
                 .has_norm = kind != Kind::tensor_range && next % 4 != 0,
                 .has_factors = next % 3 == 0,
                 .adds = next % 2 == 0,
                 .has_others = next % 7 == 3,
                 .activation = next % 5 == 0 ? Activation::gelu_tanh : Activation::none,
                 .padding = next % 3 == 1 ? 0 : static_cast<std::int64_t>(next % 4)};
      SCOPED_TRACE(text_of(c));
      set(c);
      expect_equal(together(), apart());
    }
}

// Every number of rows for which threads share rows in another way, each kind with a norm and without.
TEST_F(CudaOrderedInt8, QuantizeTheRowsOfABlock) {
  for (std::int64_t rows = 1; rows <= 9; ++rows)
    for (const Kind kind : {Kind::row_ranges, Kind::symmetric, Kind::fixed})
      for (const bool has_norm : {false, true}) {
        const Int8Case c{.shape = {16, 544, rows}, .kind = kind, .has_norm = has_norm};
        SCOPED_TRACE(text_of(c));
        set(c);
        expect_equal(together(), apart());
      }
}

// 127 over the largest is infinite: all but zero have the largest code.
TEST_F(CudaOrderedInt8, QuantizeTheLeastMagnitudes) {
  constexpr float kUnit = 1.0F / (127 * 127);
  for (const std::int64_t inputs : {64, 4160}) {
    set({.shape = {16, inputs, 1}, .kind = Kind::symmetric, .has_zero = true, .magnitude = 1e-38F});
    args_.quantize.threshold = 0;
    const Floats x = get(x_, inputs), got = together();
    float largest = 0;
    for (const float value : x) largest = std::max(largest, std::fabs(value));
    Floats wanted = before_;
    for (std::int64_t output = 0; output < 16; ++output) {
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < inputs; ++k)
        sum += (x[at_of(k)] > 0 ? 127 : x[at_of(k)] < 0 ? -127 : 0) * matrix_.code(output, k);
      wanted[at_of(output)] = static_cast<float>(sum) * (largest * kUnit * matrix_.scales[at_of(output)]);
    }
    expect_equal(got, wanted);
    expect_equal(apart(), wanted);
  }
}

TEST_F(CudaOrderedInt8, GoThroughTheGate) {
  constexpr Activation kGates[] = {Activation::silu, Activation::gelu_tanh, Activation::relu2,
                                   Activation::none};
  std::size_t next = 0;
  for (const Shape& shape : {Shape{32, 64, 1},
                             {96, 203, 2},
                             {64, 40, 8},
                             {32, 1290, 9},
                             {128, 300, 16},
                             {32, 65, 17},
                             {64, 130, 32}})
    for (const Kind kind : {Kind::row_ranges, Kind::symmetric, Kind::fixed}) {
      const Int8Case c{.shape = shape,
                       .kind = kind,
                       .has_norm = next % 2 == 0,
                       .has_others = next % 5 == 4,
                       .activation = kGates[next % std::size(kGates)],
                       .padding = static_cast<std::int64_t>(next % 3)};
      ++next;
      SCOPED_TRACE(text_of(c));
      set(c);
      const std::int64_t gated = shape.outputs / 2;
      const OrderedRows ordered(memory_, shape.rows, gated, next % 2 == 0);
      const Floats wanted = apart(gated);
      expect_equal(together(gated, {}, ordered.out()), wanted);
      ordered.expect(wanted, out_stride_);
    }
}

// What they leave gives the norm behind its bits, in a product that quantizes and in one that does not.
TEST_F(CudaOrderedInt8, LeaveMomentsForTheNormBehind) {
  for (const Shape& shape : {Shape{33, 64, 1},
                             {272, 96, 2},
                             {300, 33, 3},
                             {528, 40, 8},
                             {64, 65, 16},
                             {1040, 32, 1},
                             {31, 64, 40}})
    for (const bool adds : {false, true}) {
      const std::int64_t rows = shape.rows, n = shape.outputs;
      const Int8Case first{.shape = shape, .adds = adds, .has_others = rows == 3};
      SCOPED_TRACE(text_of(first));
      set(first);
      const std::int64_t parts = 2 * ((n + 15) / 16) + 2;
      const MomentParts moments{.data = room<float>(rows * parts), .stride = parts};
      const Floats wanted = apart(), got = together(0, moments);
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t i = 0; i < n; ++i)
          ASSERT_TRUE(is_same(got[at_of(row * out_stride_ + i)], wanted[at_of(row * out_stride_ + i)]));
      const std::int64_t stride = out_stride_;
      for (const std::int64_t padding : {0, 1}) {  // without a mean, and with one
        set({.shape = {16, n, rows}, .kind = Kind::symmetric, .has_norm = true, .padding = padding});
        stride_ = args_.quantize.x_stride = stride;
        args_.quantize.x = x_ = put(wanted);
        const Floats alone = together();
        {
          SCOPED_TRACE("from the row");
          expect_equal(alone, apart());
        }
        args_.quantize.made.moments = moments;
        expect_equal(together(), alone);
      }
    }
}

// A product as wide as a vocabulary: one kernel quantizes for all its blocks.
TEST_F(CudaOrderedInt8, QuantizeOnceForManyBlocks) {
  constexpr std::int64_t kInputs = 2048, kOutputs = 16 * 2052;
  EXPECT_TRUE(makes_codes(1, kInputs, 2048));
  EXPECT_FALSE(makes_codes(1, kInputs, kOutputs / 16));
  EXPECT_FALSE(makes_codes(2, kInputs, 2048));
  EXPECT_FALSE(makes_codes(9, 32, 1));
}

TEST_F(CudaOrderedInt8, RefuseWhatTheyCannotDo) {
  set({.shape = {64, 64, 2}});
  EXPECT_THROW(together(16), Error);
  args_.linear.to.adds = true;
  EXPECT_THROW(together(32), Error);
  args_.linear.to.adds = false;
  (void)together(32);
  LinearInt8Args codes = args_.linear;
  codes.to.out = room<float>(128);
  codes.to.out_stride = 64;
  codes.to.gated = 32;
  EXPECT_THROW(run(*runtime_, codes), Error);  // which are not in order
  set({.shape = {64, 64, 33}});
  EXPECT_THROW(together(32), Error);
  set({.shape = {16, 64, 65}});
  args_.linear.is_ordered = true;
  EXPECT_THROW(run(*runtime_, args_.linear), Error);
  set({.shape = {16, 64, 2}, .kind = Kind::symmetric, .has_norm = true});
  args_.quantize.threshold = 6;
  EXPECT_THROW(run(*runtime_, args_.quantize), Error);
}

}  // namespace
}  // namespace assay::cuda
