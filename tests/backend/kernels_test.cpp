// Every usable instruction set against the scalar reference: odd sizes, unaligned rows, extreme values.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "assay/backend/cpu/select.h"
#include "assay/base/aligned.h"
#include "assay/base/random.h"
#include "assay/tensor/half.h"
#include "support/fixtures.h"

namespace assay::cpu {
namespace {

std::vector<float> random_floats(std::size_t n, std::uint64_t seed, double scale = 1) {
  Random random(seed);
  std::vector<float> out(n);
  for (float& x : out) x = static_cast<float>((random.uniform() * 2 - 1) * scale);
  return out;
}

class KernelTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!is_usable(GetParam())) GTEST_SKIP() << "this machine has no " << name_of(GetParam());
    table_ = select_kernels(GetParam());
    reference_ = select_kernels(Isa::scalar);
  }
  KernelTable table_{}, reference_{};
};

INSTANTIATE_TEST_SUITE_P(Isas, KernelTest, testing::Values(Isa::avx2, Isa::avx512),
                         [](const auto& p) { return std::string(name_of(p.param)); });

struct LinearCase {
  std::int64_t rows, k, n;
  Activation activation;
  bool has_bias, adds, is_bfloat16;
};

std::vector<float> run_linear(const KernelTable& table, const LinearCase& c, std::int64_t rows) {
  const std::int64_t panels = (c.n + kPanel - 1) / kPanel, x_stride = c.k + 3, y_stride = c.n + 5;
  const auto x = random_floats(static_cast<std::size_t>(c.rows * x_stride + 1), 1);
  const auto w = random_floats(static_cast<std::size_t>(panels * kPanel * c.k), 2);
  std::vector<std::uint16_t> w16(w.size());
  for (std::size_t i = 0; i < w.size(); ++i) w16[i] = float_to_bf16(w[i]);
  const auto bias = random_floats(static_cast<std::size_t>(c.n), 3);
  auto y = random_floats(static_cast<std::size_t>(rows * y_stride), 4);
  table.linear({.x = x.data() + 1,
                .x_stride = x_stride,
                .rows = rows,
                .k = c.k,
                .w = c.is_bfloat16 ? static_cast<const void*>(w16.data()) : w.data(),
                .is_bfloat16 = c.is_bfloat16,
                .bias = c.has_bias ? bias.data() : nullptr,
                .activation = c.activation,
                .adds = c.adds,
                .y = y.data(),
                .y_stride = y_stride,
                .n = c.n,
                .first_panel = 0,
                .panels = panels});
  return y;
}

TEST_P(KernelTest, LinearEqualsReference) {
  for (const std::int64_t rows : {1, 2, 3, 5, 6, 7, 13})
    for (const std::int64_t k : {1, 15, 36, 129})
      for (const std::int64_t n : {1, 16, 17, 50, 64, 101, 145}) {
        const LinearCase c{rows, k, n, Activation::none, n % 2 == 1, rows % 2 == 1, k % 2 == 1};
        const auto got = run_linear(table_, c, rows), want = run_linear(reference_, c, rows);
        EXPECT_LE(test::largest_difference(got, want), 1e-6 * std::sqrt(static_cast<double>(k)) * 4)
            << rows << "x" << k << "x" << n;
      }
}

TEST_P(KernelTest, ActivationsEqualReference) {
  for (const Activation a : {Activation::relu, Activation::silu, Activation::tanh, Activation::gelu_tanh,
                             Activation::gelu_erf, Activation::gelu_quick})
    for (const float input : {-1e30F, -100.0F, -20.0F, -3.0F, -1.0F, -1e-3F, 0.0F, 1e-6F, 0.1F, 0.7F, 2.0F,
                              5.0F, 30.0F, 100.0F, 1e30F}) {
      const std::vector<float> w(kPanel, 1.0F);
      const auto apply = [&](const KernelTable& table) {
        float y[kPanel] = {};
        table.linear({.x = &input,
                      .x_stride = 1,
                      .rows = 1,
                      .k = 1,
                      .w = w.data(),
                      .is_bfloat16 = false,
                      .bias = nullptr,
                      .activation = a,
                      .adds = false,
                      .y = y,
                      .y_stride = kPanel,
                      .n = kPanel,
                      .first_panel = 0,
                      .panels = 1});
        return y[0];
      };
      const float want = apply(reference_), got = apply(table_);
      EXPECT_NEAR(got, want, 4e-7 * (1 + std::fabs(static_cast<double>(want))))
          << static_cast<int>(a) << " of " << input;
    }
}

TEST_P(KernelTest, LinearKeepsNaNAndInfinity) {
  const std::vector<float> w(kPanel, 1.0F);
  for (const Activation a :
       {Activation::none, Activation::gelu_tanh, Activation::gelu_erf, Activation::silu}) {
    const float input = std::numeric_limits<float>::quiet_NaN();
    float y[kPanel] = {};
    table_.linear({.x = &input,
                   .x_stride = 1,
                   .rows = 1,
                   .k = 1,
                   .w = w.data(),
                   .is_bfloat16 = false,
                   .bias = nullptr,
                   .activation = a,
                   .adds = false,
                   .y = y,
                   .y_stride = kPanel,
                   .n = kPanel,
                   .first_panel = 0,
                   .panels = 1});
    EXPECT_TRUE(std::isnan(y[0])) << static_cast<int>(a);
  }
}

// A row's result is the same bits whatever rows are computed with it.
TEST_P(KernelTest, LinearDoesNotDependOnTheNumberOfRows) {
  for (const bool is_bfloat16 : {false, true}) {
    const LinearCase c{13, 129, 101, Activation::gelu_tanh, true, false, is_bfloat16};
    const auto all = run_linear(table_, c, 13);
    for (const std::int64_t rows : {1, 2, 4, 5, 7, 12}) {
      const auto some = run_linear(table_, c, rows);
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t j = 0; j < c.n; ++j)
          ASSERT_EQ(some[static_cast<std::size_t>(row * (c.n + 5) + j)],
                    all[static_cast<std::size_t>(row * (c.n + 5) + j)])
              << rows;
    }
  }
}

TEST_P(KernelTest, NormEqualsReference) {
  for (const std::int64_t n : {1, 7, 16, 36, 60, 129})
    for (const bool subtracts : {true, false})
      for (const double scale : {1e-3, 1.0, 1e4}) {
        const auto x = random_floats(static_cast<std::size_t>(3 * (n + 1)), 5, scale);
        const auto gain = random_floats(static_cast<std::size_t>(n), 6),
                   bias = random_floats(static_cast<std::size_t>(n), 7);
        const auto apply = [&](const KernelTable& table) {
          std::vector<float> y(static_cast<std::size_t>(3 * n));
          table.norm({.x = x.data() + 1,
                      .x_stride = n + 1,
                      .gain = gain.data(),
                      .bias = subtracts ? bias.data() : nullptr,
                      .epsilon = 1e-5F,
                      .subtracts_mean = subtracts,
                      .y = y.data(),
                      .y_stride = n,
                      .rows = 3 - 1,
                      .n = n});
          return y;
        };
        EXPECT_LE(test::largest_difference(apply(table_), apply(reference_)), 2e-5)
            << n << " scale " << scale;
      }
}

// Keys and values of `length` positions in blocks, as the cache lays them out.
struct Keys {
  std::vector<std::vector<float>> blocks;
  std::vector<const float*> pointers;
  std::int64_t v_offset;
  Keys(std::int64_t length, std::int64_t dim, std::int64_t padded) : v_offset(dim * kKvBlockPositions) {
    for (std::int64_t b = 0; b <= (length - 1) / kKvBlockPositions; ++b)
      blocks.push_back(random_floats(static_cast<std::size_t>((dim + padded) * kKvBlockPositions),
                                     10 + static_cast<std::uint64_t>(b)));
    for (const auto& block : blocks) pointers.push_back(block.data());
  }
};

std::vector<float> run_attend(const KernelTable& table, std::int64_t rows, std::int64_t past,
                              std::int64_t dim, std::int64_t window, std::int64_t first_key,
                              std::int64_t skip = 0) {
  const std::int64_t padded = (dim + kPanel - 1) / kPanel * kPanel;
  const Keys keys(past + rows, dim, padded);
  const auto q = random_floats(static_cast<std::size_t>(rows * (dim + 1)), 20, 4);
  std::vector<float> out(static_cast<std::size_t>(rows * dim), 9.0F);
  for (std::int64_t row = skip; row < rows; row += kAttendRows)
    table.attend({.q = q.data() + row * (dim + 1),
                  .q_stride = dim + 1,
                  .rows = std::min(kAttendRows, rows - row),
                  .first_position = past + row,
                  .first_key = first_key,
                  .window = window,
                  .head_dim = dim,
                  .padded = padded,
                  .scale = 0.3F,
                  .blocks = keys.pointers.data(),
                  .k_offset = 0,
                  .v_offset = keys.v_offset,
                  .out = out.data() + row * dim,
                  .out_stride = dim});
  return out;
}

TEST_P(KernelTest, AttentionEqualsReference) {
  for (const std::int64_t dim : {1, 7, 12, 15, 16, 64, 80, 129})
    for (const std::int64_t rows : {1, 5, 9})
      for (const std::int64_t past : {0, 60, 63, 64, 130})
        for (const std::int64_t window : {0, 5, 70})
          for (const std::int64_t first_key : {0, 3}) {
            if (first_key > past) continue;
            EXPECT_LE(test::largest_difference(run_attend(table_, rows, past, dim, window, first_key),
                                               run_attend(reference_, rows, past, dim, window, first_key)),
                      3e-6)
                << dim << " " << rows << " " << past << " " << window << " " << first_key;
          }
}

// Rows attended together or one by one give the same bits.
TEST_P(KernelTest, AttentionDoesNotDependOnItsNeighbours) {
  const auto together = run_attend(table_, 9, 60, 15, 0, 0);
  for (std::int64_t skip = 1; skip < 6; ++skip) {
    const auto shifted = run_attend(table_, 9, 60, 15, 0, 0, skip);
    for (std::size_t i = static_cast<std::size_t>(skip * 15); i < shifted.size(); ++i)
      ASSERT_EQ(shifted[i], together[i]) << skip;
  }
}

TEST_P(KernelTest, RowsThatSeeNoKeyAreZero) {
  const auto out = run_attend(table_, 4, 0, 12, 0, 2);
  for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(out[i], 0.0F);
  EXPECT_NE(out[24], 0.0F);
}

TEST_P(KernelTest, ArgmaxTakesTheLowestOfEquals) {
  for (const std::int64_t n : {1, 15, 16, 17, 101, 257}) {
    auto x = random_floats(static_cast<std::size_t>(n), 30);
    EXPECT_EQ(table_.argmax(x.data(), n), reference_.argmax(x.data(), n));
    x[static_cast<std::size_t>(n / 2)] = x[static_cast<std::size_t>(n - 1)] = 7;
    EXPECT_EQ(table_.argmax(x.data(), n), n / 2);
    x[static_cast<std::size_t>(n - 1)] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(table_.argmax(x.data(), n), n - 1);
    x[0] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(table_.argmax(x.data(), n), -1);
    EXPECT_EQ(reference_.argmax(x.data(), n), -1);
  }
}

TEST_P(KernelTest, LogSumExpEqualsReference) {
  for (const std::int64_t n : {1, 15, 16, 17, 101, 5003})
    for (const double scale : {0.1, 10.0, 1000.0}) {
      const auto x = random_floats(static_cast<std::size_t>(n), 31, scale);
      EXPECT_NEAR(table_.log_sum_exp(x.data(), n), reference_.log_sum_exp(x.data(), n), 2e-7 * (1 + scale))
          << n;
    }
}

}  // namespace
}  // namespace assay::cpu
