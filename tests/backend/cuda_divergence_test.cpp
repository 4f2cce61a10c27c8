// Slices of logits, reduced by a GPU's kernel in the emulation: against double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "assay/backend/held_logits.h"
#include "support/cuda_kernels.h"

namespace assay::cuda {
namespace {

using namespace testing_support;

class CudaDivergence : public CudaKernels {
 protected:
  static constexpr std::int64_t kVocab = 2 * kHeadSlice + 777, kRows = 4, kStride = kVocab + 5;

  // Rows in front of `n` logits each; what lies behind them would be the highest.
  Floats logits(float spread) {
    Floats x = random_.floats(kRows * kStride, -spread, spread);
    for (std::int64_t row = 0; row < kRows; ++row)
      std::fill_n(x.begin() + row * kStride + kVocab, kStride - kVocab, 1e6F);
    return x;
  }
  std::vector<RowSlice> reduced(const Floats& x, const std::optional<Floats>& base,
                                const std::vector<std::int32_t>& targets, std::int64_t n = kVocab) {
    const std::int64_t count = kRows * slices_of(n);
    const auto out = room<RowSlice>(count);
    run(*runtime_, ReduceSlicesArgs{.x = put(x),
                                    .base = base ? put(*base) : DevicePointer<float>(),
                                    .x_stride = kStride,
                                    .base_stride = base ? kStride : 0,
                                    .rows = kRows,
                                    .n = n,
                                    .targets = put(targets),
                                    .out = out});
    return get(out, count);
  }
};

// The slice is x[0, n), beside base where there is one.
void expect_slice(const RowSlice& got, const float* x, const float* base, std::int64_t first, std::int64_t n,
                  std::int64_t target) {
  ASSERT_TRUE(got.sums.is_finite);
  std::vector<std::int64_t> order(at_of(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return x[a] > x[b]; });
  ASSERT_EQ(got.tops, std::min<std::int64_t>(n, kTopTokens));
  for (std::int64_t i = 0; i < got.tops; ++i) {
    EXPECT_EQ(got.top[i], first + order[at_of(i)]) << i;
    EXPECT_EQ(got.top_logits[i], x[order[at_of(i)]]) << i;
  }
  const double most = static_cast<double>(x[order[0]]);
  EXPECT_EQ(static_cast<double>(got.sums.max), most);
  double sum = 0, weighed = 0, size = 0, base_most = -INFINITY;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[i]) - most);
  EXPECT_NEAR(got.sums.sum, sum, 1e-6 * sum);
  if (base != nullptr) {
    for (std::int64_t i = 0; i < n; ++i) base_most = std::max(base_most, static_cast<double>(base[i]));
    for (std::int64_t i = 0; i < n; ++i) {
      const double term = std::exp(static_cast<double>(base[i]) - base_most) *
                          (static_cast<double>(base[i]) - static_cast<double>(x[i]));
      weighed += term;
      size += std::abs(term);
    }
  }
  EXPECT_NEAR(got.weighed, weighed, 1e-6 * size);
  EXPECT_EQ(got.has_target, target >= first && target < first + n);
  EXPECT_EQ(got.target_logit, got.has_target ? x[target - first] : 0);
}

TEST_F(CudaDivergence, ReducesSlicesAsDoublePrecisionDoes) {
  const std::vector<std::int32_t> targets{0, 2047, 2048, static_cast<std::int32_t>(kVocab) - 1};
  for (const float spread : {0.0F, 1.0F, 20.0F, 1e30F}) {
    const Floats x = logits(spread), base = logits(spread);
    for (const bool has_base : {false, true})
      // The shorter of two vocabularies; whole slices; fewer logits than are looked for.
      for (const std::int64_t n : {kVocab, std::int64_t{4096}, std::int64_t{2050}, std::int64_t{3}}) {
        const auto got = reduced(x, has_base ? std::optional(base) : std::nullopt, targets, n);
        for (std::int64_t row = 0; row < kRows; ++row)
          for (std::int64_t slice = 0; slice < slices_of(n); ++slice) {
            SCOPED_TRACE(testing::Message() << spread << ", " << n << ", " << row << ", " << slice);
            const std::int64_t first = slice * kHeadSlice, at = row * kStride + first;
            expect_slice(got[at_of(row * slices_of(n) + slice)], x.data() + at,
                         has_base ? base.data() + at : nullptr, first, std::min(kHeadSlice, n - first),
                         targets[at_of(row)]);
          }
      }
  }
}

TEST_F(CudaDivergence, OfEqualLogitsTheLowestIdsAreTheHighest) {
  Floats x = logits(2);
  for (const std::int64_t id : {40, 41, 300, 296, 2047, 9, 1033}) x[at_of(id)] = 7;
  for (const std::int64_t id : {2500, 2501, 2600, 4095, 4000}) x[at_of(id)] = id == 4095 ? 9 : 8;
  for (std::int64_t id = 0; id < kVocab; ++id) x[at_of(kStride + id)] = id % 2 == 0 ? -0.0F : 0.0F;
  const auto got = reduced(x, std::nullopt, {1, 1, 1, 1});
  const auto expect_top = [](const RowSlice& slice, const std::vector<TokenId>& ids) {
    EXPECT_EQ(std::vector<TokenId>(std::begin(slice.top), std::end(slice.top)), ids);
  };
  expect_top(got[0], {9, 40, 41, 296, 300});
  expect_top(got[1], {4095, 2500, 2501, 2600, 4000});
  expect_top(got[3], {0, 1, 2, 3, 4});
  expect_top(got[5], {4096, 4097, 4098, 4099, 4100});
}

TEST_F(CudaDivergence, EqualLogitsWeighExactlyNothing) {
  Floats base = logits(9);
  const Floats x = base;
  base[at_of(2 * kStride + 2100)] += 1;
  const auto got = reduced(x, base, {0, 0, 0, 0});
  for (std::size_t i = 0; i < got.size(); ++i)
    if (i == 7)
      EXPECT_GT(got[i].weighed, 0);
    else
      EXPECT_EQ(got[i].weighed, 0) << i;
}

TEST_F(CudaDivergence, WhatIsNotFiniteIsToldOfItsSliceAlone) {
  for (const float bad : {kNaN, kInfinity, -kInfinity})
    for (const std::int64_t id : {std::int64_t{0}, std::int64_t{2047}, std::int64_t{4100}, kVocab - 1}) {
      Floats x = logits(3);
      x[at_of(kStride + id)] = bad;
      const auto got = reduced(x, x, {0, 0, 0, 0});
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_EQ(got[i].sums.is_finite, i != at_of(3 + id / kHeadSlice)) << bad << ", " << id << ", " << i;
      x[at_of(kStride + id)] = 0;  // beside a baseline that is broken, a slice is still whole
      Floats base = x;
      base[at_of(kStride + id)] = bad;
      for (const RowSlice& slice : reduced(x, base, {0, 0, 0, 0})) EXPECT_TRUE(slice.sums.is_finite);
    }
  // A logit behind the last is nobody's.
  Floats x = logits(3);
  x[at_of(kVocab)] = kNaN;
  for (const RowSlice& slice : reduced(x, std::nullopt, {0, 0, 0, 0})) EXPECT_TRUE(slice.sums.is_finite);
}

// The order of a sum does not depend on what is beside a row, or on how long the vocabulary is.
TEST_F(CudaDivergence, ASliceHasTheSameBitsInAnyRow) {
  Floats x = logits(5), base = logits(5);
  for (const std::int64_t row : {1, 2, 3}) {
    std::copy_n(x.begin(), kVocab, x.begin() + row * kStride);
    std::copy_n(base.begin(), kVocab, base.begin() + row * kStride);
  }
  const auto all = reduced(x, base, {0, 0, 0, 0}), fewer = reduced(x, base, {0, 0, 0, 0}, kHeadSlice + 1);
  for (std::int64_t row = 1; row < kRows; ++row)
    for (std::int64_t slice = 0; slice < 3; ++slice) {
      EXPECT_EQ(all[at_of(row * 3 + slice)].sums.sum, all[at_of(slice)].sums.sum);
      EXPECT_EQ(all[at_of(row * 3 + slice)].weighed, all[at_of(slice)].weighed);
    }
  EXPECT_EQ(fewer[0].sums.sum, all[0].sums.sum);
  EXPECT_EQ(fewer[0].weighed, all[0].weighed);
}

}  // namespace
}  // namespace assay::cuda
