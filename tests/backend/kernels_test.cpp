// Every usable instruction set against the scalar reference: odd sizes, unaligned rows, extreme values.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "assay/backend/cpu/kernels/select.h"
#include "assay/base/aligned.h"
#include "assay/tensor/half.h"
#include "support/fixtures.h"
#include "support/guarded.h"
#include "support/kernel_inputs.h"
#include "support/kernel_tiers.h"
#include "support/random_floats.h"

namespace assay::cpu {
namespace {

using test::kActivations;
using test::random_floats;

class KernelTest : public test::TestOfKernelTiers {};

INSTANTIATE_TEST_SUITE_P(Isas, KernelTest, test::kKernelTiers,
                         [](const auto& info) { return info.param.name(); });

struct LinearCase {
  std::int64_t rows, k, n;
  Activation activation;
  bool has_bias, adds, is_bfloat16;
  int planes = 0;  // 0: float32 activations; 1 to 3: tiles
  float unit = 1;  // that the inputs have
  bool is_rounded = false;
};

// The parts of a float in bfloat16, and where they go.
template <typename At>
void put_planes(float value, int planes, const At& at) {
  for (int plane = 0; plane < planes; ++plane) {
    at(plane) = float_to_bf16(value);
    value -= bf16_to_float(at(plane));
  }
}

// y, and what y_tiles hold, of `rows` of the case's rows.
std::vector<float> run_linear(const KernelTable& table, const LinearCase& c, std::int64_t rows) {
  const std::int64_t panels = (c.n + kPanel - 1) / kPanel, x_stride = c.k + 3, y_stride = c.n + 5;
  const std::int64_t padded = round_up(c.k, kTileColumns), tile_rows = round_up(c.rows, kTileRows);
  const int planes = std::max(c.planes, 1);
  auto x = random_floats(static_cast<std::size_t>(c.rows * x_stride + 1), 1);
  for (float& value : x) value *= c.unit;
  const auto w = random_floats(static_cast<std::size_t>(panels * kPanel * c.k), 2);
  std::vector<std::uint16_t> w16(static_cast<std::size_t>(panels * planes * kPanel * padded));
  std::vector<std::uint16_t> x16(static_cast<std::size_t>(planes * tile_rows * padded));
  const Tiles tiles{x16.data(), tile_rows, padded, planes};
  for (std::int64_t output = 0; output < c.n; ++output)
    for (std::int64_t k = 0; k < c.k; ++k)
      put_planes(w[static_cast<std::size_t>((output / kPanel * c.k + k) * kPanel + output % kPanel)], planes,
                 [&](int plane) -> std::uint16_t& {
                   return w16[static_cast<std::size_t>(
                       ((output / kPanel * planes + plane) * padded + k / 2 * 2) * kPanel +
                       output % kPanel * 2 + k % 2)];
                 });
  for (std::int64_t row = 0; row < c.rows; ++row)
    for (std::int64_t k = 0; k < c.k; ++k)
      put_planes(x[static_cast<std::size_t>(1 + row * x_stride + k)], planes,
                 [&](int plane) -> std::uint16_t& { return tiles.plane(plane)[tiles.offset(row, k)]; });
  x.resize(x.size() - static_cast<std::size_t>(x_stride - c.k));  // nothing behind the last row
  const test::Guarded weights(w), inputs(x), bias(random_floats(static_cast<std::size_t>(c.n), 3));
  const test::Guarded weights16(w16);
  auto y = random_floats(static_cast<std::size_t>(rows * y_stride), 4);
  (c.planes > 0 ? table.linear_tiles : table.linear)(
      {.x = c.planes > 0 ? nullptr : inputs.data() + 1,
       .x_stride = x_stride,
       .x_tiles = c.planes > 0 ? tiles : kNoTiles,
       .rows = rows,
       .k = c.k,
       .w = c.is_bfloat16 ? static_cast<const void*>(weights16.data()) : weights.data(),
       .packing = c.is_bfloat16 ? Packing::bfloat16 : Packing::float32,
       .planes = planes,
       .bias = c.has_bias ? bias.data() : nullptr,
       .activation = c.activation,
       .adds = c.adds,
       .is_rounded = c.is_rounded,
       .y = y.data(),
       .y_stride = y_stride,
       .y_tiles = kNoTiles,
       .n = c.n,
       .first_panel = 0,
       .panels = panels});
  return y;
}

float run_activation(const KernelTable& table, Activation activation, float input, bool is_rounded = false) {
  return test::activations_of(table, activation, is_rounded, {input}).front();
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

// What the tier avx512bf16 computes, to the bit: of each pair of inputs the second product first, each by a
// multiply-add that takes numbers below the normal ones for zero; planes from the smallest product on.
float pair_products(const std::vector<std::uint16_t>& x, const std::vector<std::uint16_t>& w, int planes,
                    std::int64_t padded) {
  const auto flush = [](float value) {
    return std::fabs(value) < 0x1p-126F ? std::copysign(0.0F, value) : value;
  };
  float sum = 0;
  for (int order = planes - 1; order >= 0; --order)
    for (int i = 0; i <= order; ++i)
      for (std::int64_t k = 0; k < padded; k += 2)
        for (const std::int64_t at : {k + 1, k})
          sum = flush(std::fma(flush(bf16_to_float(x[static_cast<std::size_t>(i * padded + at)])),
                               flush(bf16_to_float(w[static_cast<std::size_t>((order - i) * padded + at)])),
                               sum));
  return sum;
}

TEST(PairProducts, AreOneChainOfMultiplyAdds) {
  if (!is_usable(Isa::avx512bf16)) GTEST_SKIP() << "this machine has no avx512bf16";
  const KernelTable table = select_kernels(Isa::avx512bf16);
  for (const int planes : {1, 3})
    for (const float unit : {1.0F, 0x1p-70F, 0x1p-110F})
      for (const std::int64_t rows : {1, 5, 6, 7, 14, 20, 64, 73})
        for (const std::int64_t k : {1, 37, 96})
          for (const std::int64_t n : {16, 33, 112}) {
            const std::int64_t padded = round_up(k, kTileColumns), panels = (n + kPanel - 1) / kPanel;
            // As run_linear() makes them, which gives each element of the inputs and weights.
            const LinearCase c{rows, k, n, Activation::none, false, false, true, planes, unit};
            const auto got = run_linear(table, c, rows);
            auto x = random_floats(static_cast<std::size_t>(rows * (k + 3) + 1), 1);
            const auto w = random_floats(static_cast<std::size_t>(panels * kPanel * k), 2);
            for (const std::int64_t row : {std::int64_t{0}, rows / 2, rows - 1})
              for (const std::int64_t output : {std::int64_t{0}, n / 2, n - 1}) {
                std::vector<std::uint16_t> of_x(static_cast<std::size_t>(planes * padded)), of_w(of_x);
                for (std::int64_t i = 0; i < k; ++i) {
                  put_planes(x[static_cast<std::size_t>(1 + row * (k + 3) + i)] * unit, planes,
                             [&](int plane) -> std::uint16_t& {
                               return of_x[static_cast<std::size_t>(plane * padded + i)];
                             });
                  put_planes(
                      w[static_cast<std::size_t>((output / kPanel * k + i) * kPanel + output % kPanel)],
                      planes, [&](int plane) -> std::uint16_t& {
                        return of_w[static_cast<std::size_t>(plane * padded + i)];
                      });
                }
                EXPECT_EQ(got[static_cast<std::size_t>(row * (n + 5) + output)],
                          pair_products(of_x, of_w, planes, padded))
                    << rows << "x" << k << "x" << n << " planes " << planes << " unit " << unit;
              }
          }
}

// Products of bfloat16 are exact in float32, so the same inputs give the sums of the reference to rounding;
// parts that are left out cost 2^-16 (three products) or less.
TEST_P(KernelTest, LinearOnTilesEqualsReference) {
  for (const int planes : {1, 2, 3})
    for (const std::int64_t rows : {1, 2, 15, 16, 17, 31, 32, 33, 65})
      for (const std::int64_t k : {1, 31, 32, 36, 129})
        for (const std::int64_t n : {1, 16, 17, 50, 64, 101}) {
          if ((planes + rows + k + n) % 2 == 0) continue;  // any two of the sizes still meet
          const LinearCase c{rows, k, n, Activation::none, n % 2 == 1, rows % 2 == 1, true, planes};
          const auto got = run_linear(table_, c, rows), want = run_linear(reference_, c, rows);
          EXPECT_LE(test::largest_difference(got, want), 1e-6 * std::sqrt(static_cast<double>(k)) * 4)
              << rows << "x" << k << "x" << n << " planes " << planes;
        }
}

// Inputs that go through in chunks, between which sums are kept: near ones with each pair of panels, others
// with many at a time.
TEST_P(KernelTest, LinearOfLongInputsOnTilesEqualsReference) {
  for (const auto& [rows, k, n] : {std::tuple{65, 500, 101}, {96, 777, 580}, {544, 3000, 20}, {512, 768, 48}})
    for (const Activation activation : {Activation::none, Activation::gelu_tanh}) {
      if (activation == Activation::none && k == 3000) continue;
      const LinearCase c{rows, k, n, activation, true, rows % 2 == 1, true, 1, 0.1F};
      const auto got = run_linear(table_, c, rows), want = run_linear(reference_, c, rows);
      EXPECT_LE(test::largest_difference(got, want), 1e-6 * std::sqrt(static_cast<double>(k)) * 4)
          << rows << "x" << k << "x" << n;
    }
}

// More parts come nearer to float32.
TEST_P(KernelTest, PartsOfBfloat16ApproachFloat32) {
  const auto error = [&](int planes) {
    const LinearCase exact{5, 129, 64, Activation::none, false, false, false, 0};
    const LinearCase split{5, 129, 64, Activation::none, false, false, true, planes};
    return test::largest_difference(run_linear(table_, split, 5), run_linear(reference_, exact, 5));
  };
  EXPECT_GT(error(1), 1e-3);
  EXPECT_LT(error(2), 2e-4);
  EXPECT_GT(error(2), 1e-6);
  EXPECT_LT(error(3), 4e-6);
}

TEST_P(KernelTest, ActivationsEqualReference) {
  for (const Activation a : kActivations)
    for (const float input : {-1e30F, -100.0F, -20.0F, -3.0F, -1.0F, -1e-3F, 0.0F, 1e-6F, 0.1F, 0.7F, 2.0F,
                              5.0F, 30.0F, 100.0F, 1e30F}) {
      const float want = run_activation(reference_, a, input), got = run_activation(table_, a, input);
      if (std::isinf(want))
        EXPECT_EQ(got, want) << static_cast<int>(a) << " of " << input;
      else
        EXPECT_NEAR(got, want, 4e-7 * (1 + std::fabs(static_cast<double>(want))))
            << static_cast<int>(a) << " of " << input;
    }
}

// Whole blocks of tiles have an epilogue of their own for each activation.
TEST_P(KernelTest, ActivationsOfTilesEqualReference) {
  for (const Activation a : kActivations) {
    const LinearCase c{64, 64, 64, a, true, false, true, 1, 0.1F};
    EXPECT_LE(test::largest_difference(run_linear(table_, c, c.rows), run_linear(reference_, c, c.rows)),
              1e-5)
        << static_cast<int>(a);
  }
}

// Where outputs are rounded next the activation may be coarser, far below what that rounding costs.
TEST_P(KernelTest, RoundedActivationsAreNearTheReference) {
  for (const float input : {-1e30F, -100.0F, -20.0F, -8.0F, -3.0F, -1.0F, -1e-3F, 0.0F, 1e-6F, 0.1F, 0.7F,
                            2.0F, 5.0F, 30.0F, 100.0F, 1e30F}) {
    const double want = run_activation(reference_, Activation::gelu_tanh, input);
    EXPECT_NEAR(run_activation(table_, Activation::gelu_tanh, input, true), want,
                1e-4 * std::fabs(want) + 1e-7)
        << input;
  }
}

TEST_P(KernelTest, LinearKeepsNaN) {
  for (const Activation a : kActivations)
    for (const bool is_rounded : {false, true})
      EXPECT_TRUE(std::isnan(run_activation(table_, a, std::numeric_limits<float>::quiet_NaN(), is_rounded)))
          << static_cast<int>(a);
}

// A row's result is the same bits whatever rows are computed with it.
TEST_P(KernelTest, LinearDoesNotDependOnTheNumberOfRows) {
  for (const auto& [is_bfloat16, planes] : {std::pair{false, 0}, {true, 0}, {true, 1}, {true, 2}}) {
    for (const auto& [k, is_rounded] : {std::pair{129, false}, {129, true}, {500, false}}) {
      const LinearCase c{97, k, 101, Activation::gelu_tanh, true, false, is_bfloat16, planes, 1, is_rounded};
      const auto all = run_linear(table_, c, c.rows);
      for (const std::int64_t rows : {1, 2, 4, 5, 7, 12, 16, 17, 32, 40, 64, 70}) {
        const auto some = run_linear(table_, c, rows);
        for (std::int64_t row = 0; row < rows; ++row)
          for (std::int64_t j = 0; j < c.n; ++j)
            ASSERT_EQ(some[static_cast<std::size_t>(row * (c.n + 5) + j)],
                      all[static_cast<std::size_t>(row * (c.n + 5) + j)])
                << rows;
      }
    }
  }
}

// Where products and sums are so small that tiles count them as zero, one row does so too.
TEST_P(KernelTest, TinySumsDoNotDependOnTheNumberOfRows) {
  for (const float unit : {1e-38F, 1e-37F, 1e-36F}) {
    const LinearCase c{16, 129, 101, Activation::none, false, false, true, 1, unit};
    const auto all = run_linear(table_, c, 16), one = run_linear(table_, c, 1);
    for (std::size_t j = 0; j < 101; ++j)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(one[j]), std::bit_cast<std::uint32_t>(all[j])) << unit;
  }
}

TEST_P(KernelTest, NormEqualsReference) {
  for (const std::int64_t n : {1, 7, 16, 36, 60, 129, 200})
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
                      .y_tiles = kNoTiles,
                      .first_tile_row = 0,
                      .rows = 3 - 1,
                      .n = n});
          return y;
        };
        EXPECT_LE(test::largest_difference(apply(table_), apply(reference_)), 2e-5)
            << n << " scale " << scale;
      }
}

// What one kernel leaves in tiles is its float32 result in parts, wherever the row and the columns lie.
TEST_P(KernelTest, TilesHoldTheResultInParts) {
  if (!table_.uses_tiles) GTEST_SKIP() << "no tiles in this tier";
  const std::int64_t rows = 21, n = 45, padded = 64;
  const auto x = random_floats(static_cast<std::size_t>(rows * n), 5);
  const std::vector<float> gain(static_cast<std::size_t>(n), 1.5F);
  for (const int planes : {1, 2, 3}) {
    std::vector<float> y(static_cast<std::size_t>(rows * n));
    std::vector<std::uint16_t> tiles(static_cast<std::size_t>(3 * 32 * padded));
    const Tiles held{tiles.data(), 32, padded, planes};
    table_.norm({.x = x.data(),
                 .x_stride = n,
                 .gain = gain.data(),
                 .bias = nullptr,
                 .epsilon = 1e-5F,
                 .subtracts_mean = true,
                 .y = y.data(),
                 .y_stride = n,
                 .y_tiles = held,
                 .first_tile_row = 3,
                 .rows = rows,
                 .n = n});
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t j = 0; j < n; ++j) {
        float value = y[static_cast<std::size_t>(row * n + j)];
        for (int p = 0; p < planes; ++p) {
          const std::uint16_t bits = held.plane(p)[held.offset(row + 3, j)];
          ASSERT_EQ(bits, float_to_bf16(value)) << row << " " << j << " plane " << p;
          value -= bf16_to_float(bits);
        }
      }
  }
}

TEST_P(KernelTest, ArgmaxTakesTheLowestOfEquals) {
  for (const std::int64_t n : {1, 15, 16, 17, 101, 257, 1024, 5003}) {
    auto x = random_floats(static_cast<std::size_t>(n), 30);
    EXPECT_EQ(table_.argmax(x.data(), n), reference_.argmax(x.data(), n));
    for (const std::int64_t from_end : {n / 7, n / 40}) {
      auto equals = x;
      equals[static_cast<std::size_t>(n - 1 - from_end)] = equals[static_cast<std::size_t>(n - 1)] = 8;
      EXPECT_EQ(table_.argmax(equals.data(), n), n - 1 - from_end);
    }
    x[static_cast<std::size_t>(n / 2)] = x[static_cast<std::size_t>(n - 1)] = 7;
    EXPECT_EQ(table_.argmax(x.data(), n), n / 2);
    x[static_cast<std::size_t>(n - 1)] = std::numeric_limits<float>::max();
    EXPECT_EQ(table_.argmax(x.data(), n), n - 1);
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
