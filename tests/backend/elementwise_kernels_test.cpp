// Rotary embeddings and gated products of every usable instruction set against the scalar reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "assay/tensor/half.h"
#include "support/kernel_tiers.h"
#include "support/random_floats.h"

namespace assay::cpu {
namespace {

class ElementwiseKernels : public test::TestOfKernelTiers {};

INSTANTIATE_TEST_SUITE_P(Isas, ElementwiseKernels, test::kKernelTiers,
                         [](const auto& info) { return info.param.name(); });

struct RotaryCase {
  std::int64_t head_dim, pairs;
  RotaryPairing pairing;
};

std::vector<float> rotated(const KernelTable& table, const RotaryCase& c) {
  constexpr std::int64_t kRows = 5, kHeads = 3;
  const std::int64_t stride = kHeads * c.head_dim + 7;
  std::vector<float> x = test::random_floats(static_cast<std::size_t>(kRows * stride), 1, 3);
  const std::vector<float> angles = test::random_floats(static_cast<std::size_t>(kRows * c.pairs), 2, 3);
  std::vector<float> cosines, sines;
  for (const float angle : angles) {
    cosines.push_back(std::cos(angle));
    sines.push_back(std::sin(angle));
  }
  table.rotate({.x = x.data(),
                .x_stride = stride,
                .rows = kRows,
                .heads = kHeads,
                .head_dim = c.head_dim,
                .pairing = c.pairing,
                .pairs = c.pairs,
                .cosines = cosines.data(),
                .sines = sines.data()});
  return x;
}

TEST_P(ElementwiseKernels, RotateAsTheReferenceDoes) {
  for (const std::int64_t head_dim : {2, 14, 64, 80, 128})
    for (const RotaryPairing pairing : {RotaryPairing::halves, RotaryPairing::neighbours})
      for (const std::int64_t pairs : {head_dim / 2, std::max<std::int64_t>(1, head_dim / 4)}) {
        const RotaryCase c{head_dim, pairs, pairing};
        const std::vector<float> want = rotated(reference_, c), got = rotated(table_, c);
        for (std::size_t i = 0; i < want.size(); ++i)
          ASSERT_NEAR(got[i], want[i], 1e-6)
              << "head_dim " << head_dim << ", pairs " << pairs << ", element " << i;
      }
}

// By hand: pairs are (x0, x2), (x1, x3), or (x0, x1), (x2, x3); what is beyond them stays.
TEST(RotaryReference, TurnsPairsAsTheyAreDefined) {
  const KernelTable table = select_kernels(Isa::scalar);
  for (const RotaryPairing pairing : {RotaryPairing::halves, RotaryPairing::neighbours}) {
    std::vector<float> x{1, 2, 3, 4, 5};
    const std::vector<float> cosines{0, 1}, sines{1, 0};  // a quarter turn, and none
    table.rotate({.x = x.data(),
                  .x_stride = 5,
                  .rows = 1,
                  .heads = 1,
                  .head_dim = 5,
                  .pairing = pairing,
                  .pairs = 2,
                  .cosines = cosines.data(),
                  .sines = sines.data()});
    const std::vector<float> want = pairing == RotaryPairing::halves ? std::vector<float>{-3, 2, 1, 4, 5}
                                                                     : std::vector<float>{-2, 1, 3, 4, 5};
    EXPECT_EQ(x, want);
  }
}

TEST_P(ElementwiseKernels, GateAsTheReferenceDoes) {
  constexpr std::int64_t kRows = 3;
  for (const Activation activation : test::kActivations)
    for (const std::int64_t n : {1, 15, 16, 33, 64}) {
      const std::int64_t stride = 2 * n + 3;
      std::vector<float> x = test::random_floats(static_cast<std::size_t>(kRows * stride), 4, 6);
      x[0] = std::numeric_limits<float>::quiet_NaN();
      const auto run = [&](const KernelTable& table) {
        std::vector<float> y(static_cast<std::size_t>(kRows * n), -7.0F);
        table.gate({.gate = x.data(),
                    .up = x.data() + n,
                    .x_stride = stride,
                    .activation = activation,
                    .is_rounded = false,
                    .y = y.data(),
                    .y_stride = n,
                    .y_tiles = kNoTiles,
                    .first_tile_row = 0,
                    .first_tile_column = 0,
                    .rows = kRows,
                    .n = n});
        return y;
      };
      const std::vector<float> want = run(reference_), got = run(table_);
      EXPECT_TRUE(std::isnan(want[0]) && std::isnan(got[0])) << "activation " << static_cast<int>(activation);
      for (std::size_t i = 1; i < want.size(); ++i)
        ASSERT_NEAR(got[i], want[i], 2e-5 + 2e-7 * std::fabs(static_cast<double>(want[i])))
            << "activation " << static_cast<int>(activation) << ", n " << n;
    }
}

TEST_P(ElementwiseKernels, BendLogitsAsTheReferenceDoes) {
  for (const std::int64_t n : {1, 8, 15, 16, 37, 100})
    for (const auto& [scale, cap] : {std::pair{0.0625F, 0.0F}, {1.0F, 30.0F}, {2.0F, 5.0F}}) {
      std::vector<float> want = test::random_floats(static_cast<std::size_t>(n), 6, 60), got = want;
      const float first = want[0];
      reference_.bend_logits(want.data(), n, scale, cap);
      table_.bend_logits(got.data(), n, scale, cap);
      const double scaled = static_cast<double>(scale) * first;
      EXPECT_NEAR(want[0], cap == 0 ? scaled : cap * std::tanh(scaled / cap), 1e-5);
      for (std::size_t i = 0; i < want.size(); ++i)
        EXPECT_NEAR(got[i], want[i], 4e-7 * std::max(static_cast<double>(cap), 10.0)) << n << " " << cap;
    }
}

// Tables that use tiles write the same numbers, rounded to bfloat16, where a tile product will read them.
TEST_P(ElementwiseKernels, GateWritesTiles) {
  if (!table_.uses_tiles) GTEST_SKIP() << "this table writes no tiles";
  constexpr std::int64_t kRows = 5, kColumns = 96, kUsed = 48, kFirstColumn = 32, kFirstRow = 2;
  const std::vector<float> x = test::random_floats(kRows * 2 * kUsed, 5, 3);
  const auto run = [&](const KernelTable& table) {
    std::vector<std::uint16_t> tiles(16 * kColumns);
    table.gate({.gate = x.data(),
                .up = x.data() + kUsed,
                .x_stride = 2 * kUsed,
                .activation = Activation::relu,
                .is_rounded = true,
                .y = nullptr,
                .y_stride = 0,
                .y_tiles = {tiles.data(), 16, kColumns, 1},
                .first_tile_row = kFirstRow,
                .first_tile_column = kFirstColumn,
                .rows = kRows,
                .n = kUsed});
    return tiles;
  };
  EXPECT_EQ(run(table_), run(reference_));
}

}  // namespace
}  // namespace assay::cpu
