// One row by an int8 matrix: each way of sharing the strips among blocks and warps has the bits of separate
// kernels.
#include <gtest/gtest.h>

#include "assay/backend/cuda/kernels/launch_choices.h"
#include "assay/backend/cuda/kernels/launch_shapes.h"
#include "support/cuda_int8_products.h"

namespace assay::cuda {
namespace {

using namespace testing_support;
using Kind = QuantizeArgs::Kind;

// Two processors: strips are more than the warps of all blocks.
class CudaCodedRow : public Int8Products {
 protected:
  CudaCodedRow()
      : Int8Products({.facts = {.name = "emulated GPU",
                                .major = 9,
                                .processors = 2,
                                .shared_bytes_per_block = 227 << 10,
                                .l2_bytes = 50 << 20,
                                .memory_bytes = std::int64_t{1} << 30}}) {}

  // Moments as the product in front leaves them, for a row that is normed.
  void add_moments() {
    if (!case_.has_norm) return;
    const std::int64_t n = case_.shape.inputs;
    Floats parts;
    const Floats x = get(x_, stride_);
    for (std::int64_t from = 0; from < n; from += 16) {
      const std::int64_t count = std::min<std::int64_t>(16, n - from);
      // In the order of kernels/common.cuh: pairs 8 apart, then 4, 2 and 1.
      const auto sum = [&](const auto& value) {
        float lanes[16] = {};
        for (std::int64_t i = 0; i < count; ++i) lanes[i] = value(x[at_of(from + i)]);
        for (int apart = 8; apart > 0; apart /= 2) {
          float next[16];
          for (int i = 0; i < 16; ++i) next[i] = lanes[i] + lanes[i ^ apart];
          std::copy_n(next, 16, lanes);
        }
        return lanes[0];
      };
      const float all = sum([](float one) { return one; }), mean = all / static_cast<float>(count);
      parts.push_back(all);
      parts.push_back(sum([&](float one) { return (one - mean) * (one - mean); }));
    }
    const auto stride = static_cast<std::int64_t>(parts.size());
    args_.quantize.made.moments = {.data = put(parts), .stride = stride};
  }
  static std::vector<LaunchChoice> ways() {
    std::vector<LaunchChoice> all{{}};
    for (const std::int8_t sums : {std::int8_t{0}, std::int8_t{1}})
      for (const std::int8_t loads : {std::int8_t{0}, std::int8_t{1}})
        all.push_back({.loads = loads, .sums = sums});
    return all;
  }
  void expect_alike(std::int64_t gated) {
    const Floats wanted = apart(gated);
    for (const LaunchChoice& way : ways()) {
      SCOPED_TRACE(cuda::text_of(way));
      ASSERT_TRUE(coded_row_shape(*runtime_, with_gate(gated), way).has_value());
      expect_equal(together(gated, {}, {}, way), wanted);
    }
  }
  QuantizedLinearArgs with_gate(std::int64_t gated) const {
    QuantizedLinearArgs args = args_;
    args.linear.to.gated = gated;
    return args;
  }
};

// One strip and many; inputs of fewer units than warps, of odd tiles, of as many as a warp holds and of more.
constexpr Shape kRows[] = {{17, 4, 1},    {33, 64, 1},   {40, 100, 1},   {90, 544, 1},  {560, 1056, 1},
                           {16, 2048, 1}, {31, 2080, 1}, {150, 3072, 1}, {16, 4096, 1}, {272, 96, 1}};

TEST_F(CudaCodedRow, HasTheBitsOfSeparateKernels) {
  std::size_t next = 0;
  for (const Shape& shape : kRows)
    for (const Kind kind : {Kind::row_ranges, Kind::symmetric, Kind::fixed}) {
      ++next;
      Int8Case c{.shape = shape,
                 .kind = kind,
                 .has_norm = next % 2 == 0 && shape.inputs % 16 == 0,
                 .has_factors = next % 3 == 0,
                 .adds = next % 5 < 2,
                 .has_others = next % 7 == 3,
                 .activation = next % 5 == 3 ? Activation::gelu_tanh : Activation::none,
                 .padding = next % 4 == 1 ? 4 : 0};
      SCOPED_TRACE(text_of(c));
      set(c);
      add_moments();
      expect_alike(0);
    }
}

TEST_F(CudaCodedRow, TakesLongRowsThroughSharedMemory) {
  std::size_t next = 0;
  for (const Shape& shape : {Shape{20, 4100, 1}, {16, 8196, 1}, {40, 14336, 1}})
    for (const Kind kind : {Kind::row_ranges, Kind::symmetric}) {
      ++next;
      const Int8Case c{.shape = shape,
                       .kind = kind,
                       .has_factors = next % 2 == 0,
                       .adds = next % 3 == 0,
                       .has_others = next == 5};
      SCOPED_TRACE(text_of(c));
      set(c);
      expect_alike(0);
    }
}

TEST_F(CudaCodedRow, GoesThroughTheGate) {
  constexpr Activation kGates[] = {Activation::silu, Activation::gelu_tanh, Activation::none};
  std::size_t next = 0;
  for (const Shape& shape : {Shape{32, 64, 1}, {96, 208, 1}, {672, 132, 1}, {64, 2112, 1}, {32, 5000, 1}})
    for (const Kind kind : {Kind::row_ranges, Kind::symmetric}) {
      const Int8Case c{.shape = shape,
                       .kind = kind,
                       .has_norm = shape.inputs <= 4096 && shape.inputs % 16 == 0,
                       .has_others = next % 5 == 4,
                       .activation = kGates[next % std::size(kGates)],
                       .padding = 4 * static_cast<std::int64_t>(next % 3)};
      ++next;
      SCOPED_TRACE(text_of(c));
      set(c);
      add_moments();
      expect_alike(shape.outputs / 2);
    }
}

// Also rows in order, and moments for the norm behind.
TEST_F(CudaCodedRow, LeavesWhatTheProductBehindReads) {
  for (const Shape& shape : {Shape{320, 96, 1}, {64, 260, 1}}) {
    const std::int64_t n = shape.outputs, parts = 2 * ((n + 15) / 16) + 2;
    set({.shape = shape, .adds = true});
    const Floats wanted = apart();
    Floats of_rule;
    for (const LaunchChoice& way : ways()) {
      SCOPED_TRACE(cuda::text_of(way));
      const OrderedRows ordered(memory_, 1, n, true);
      const MomentParts moments{.data = room<float>(parts), .stride = parts};
      expect_equal(together(0, moments, ordered.out(), way), wanted);
      ordered.expect(wanted, out_stride_);
      const Floats left = get(moments.data, parts - 2);
      if (of_rule.empty()) of_rule = left;
      expect_equal(left, of_rule);
    }
    set({.shape = {16, n, 1}, .kind = Kind::symmetric, .has_norm = true, .padding = 4});
    args_.quantize.x = x_ = put(wanted);
    args_.quantize.made.moments = {.data = put(of_rule), .stride = parts - 2};
    expect_equal(together(), apart());
  }
}

TEST_F(CudaCodedRow, LeavesOtherRowsToOtherKernels) {
  const auto takes = [&](const Int8Case& c) {
    set(c);
    add_moments();
    return coded_row_shape(*runtime_, args_, {}).has_value();
  };
  EXPECT_TRUE(takes({.shape = {16, 64, 1}}));
  EXPECT_TRUE(takes({.shape = {16, 4096, 1}, .has_norm = true}));
  EXPECT_FALSE(takes({.shape = {16, 4112, 1}, .has_norm = true}));
  EXPECT_FALSE(takes({.shape = {16, 72, 1}, .has_norm = true}));  // part of a part
  EXPECT_FALSE(takes({.shape = {16, 64, 2}}));
  EXPECT_FALSE(takes({.shape = {16, 63, 1}}));
  EXPECT_FALSE(takes({.shape = {16, 64, 1}, .kind = Kind::tensor_range}));
  set({.shape = {16, 64, 1}, .has_norm = true});  // without moments
  EXPECT_FALSE(coded_row_shape(*runtime_, args_, {}).has_value());
  set({.shape = {16, 64 << 10, 1}});  // more than shared memory
  EXPECT_FALSE(coded_row_shape(*runtime_, args_, {}).has_value());
}

TEST_F(CudaCodedRow, SharesStripsByHowManyThereAre) {
  const std::int64_t processors = runtime_->facts().processors;
  const auto all = [&](std::int64_t of_each) { return static_cast<std::uint32_t>(of_each * processors); };
  const auto shape = [&](std::int64_t strips, const LaunchChoice& choice = {}) {
    set({.shape = {16 * strips, 4, 1}});
    return *coded_row_shape(*runtime_, args_, choice);
  };
  EXPECT_FALSE(shape(2 * processors).is_wide);
  EXPECT_EQ(shape(2 * processors).blocks, all(2));
  EXPECT_TRUE(shape(2 * processors + 1).is_wide);
  EXPECT_EQ(shape(4 * processors).blocks, all(3));
  EXPECT_FALSE(shape(8 * processors - 1).has_own_strips);
  EXPECT_TRUE(shape(8 * processors).has_own_strips);
  EXPECT_EQ(shape(8 * processors).blocks, all(1));
  EXPECT_FALSE(shape(16 * processors).is_wide);
  EXPECT_TRUE(shape(16 * processors + 1).is_wide);
  EXPECT_FALSE(shape(8 * processors, {.sums = 0}).has_own_strips);
  EXPECT_FALSE(shape(16 * processors + 1, {.loads = 0}).is_wide);
}

}  // namespace
}  // namespace assay::cuda
