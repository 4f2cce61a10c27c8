// Kernels of grouped codes, on every tier: expanded weights are the reference's bit for bit, and products
// with codes as they are have the bits of products with expanded weights.
#include <gtest/gtest.h>

#include <cmath>

#include "support/held_codes.h"
#include "support/kernel_tiers.h"
#include "support/random_floats.h"

namespace assay::cpu {
namespace {

using test::Guarded;
using test::HeldCodes;
using test::kHeldFormats;

bool are_same_but_for_nan(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return false;
  }
  return a.size() == b.size();
}

class GroupedKernels : public test::TestOfKernelTiers {};

TEST_P(GroupedKernels, ExpandedCodesHaveTheReferencesBits) {
  for (const WeightFormat& format : kHeldFormats)
    for (const std::int64_t k : {1, 31, 32, 80, 256, 300, 512})
      for (const bool has_any_scale : {false, true}) {
        const HeldCodes held(format, k, 3, has_any_scale);
        const auto floats = [&](const KernelTable& table) {
          std::vector<float> out(static_cast<std::size_t>(3 * k * kPanel + 1), -5.0F);
          table.expand_grouped(
              {.weights = held.args(), .panels = 3, .packing = Packing::float32, .out = out.data()});
          return out;
        };
        const auto pairs = [&](const KernelTable& table) {
          std::vector<std::uint16_t> out(static_cast<std::size_t>(3 * round_up(k, kSpan) * kPanel + 1), 77);
          table.expand_grouped(
              {.weights = held.args(), .panels = 3, .packing = Packing::bfloat16, .out = out.data()});
          return out;
        };
        ASSERT_TRUE(are_same_but_for_nan(floats(table_), floats(reference_))) << name_of(format) << ", " << k;
        if (has_any_scale) continue;
        ASSERT_EQ(pairs(table_), pairs(reference_)) << name_of(format) << ", " << k;
      }
}

TEST_P(GroupedKernels, ProductsEqualThoseOfExpandedCodes) {
  for (const WeightFormat& format : kHeldFormats)
    for (const std::int64_t k : {31, 32, 80, 256, 300, 768})
      for (const std::int64_t n : {1, 16, 33, 70})
        for (const std::int64_t rows : {1, 2}) {
          const std::int64_t panels = (n + kPanel - 1) / kPanel;
          const HeldCodes held(format, k, panels, false);
          const Guarded x(test::random_floats(static_cast<std::size_t>(rows * k), 7, 1));
          const auto bias = test::random_floats(static_cast<std::size_t>(n), 8, 1);
          std::vector<float> expanded(static_cast<std::size_t>(panels * k * kPanel));
          table_.expand_grouped({.weights = held.args(),
                                 .panels = panels,
                                 .packing = Packing::float32,
                                 .out = expanded.data()});
          const auto run = [&](const auto& multiply) {
            std::vector<float> y(static_cast<std::size_t>(rows * n), 3.0F);
            for (const auto& [first, count] :
                 {std::pair{std::int64_t{0}, panels / 2}, std::pair{panels / 2, panels - panels / 2}})
              multiply(LinearArgs{.x = x.data(),
                                  .x_stride = k,
                                  .x_tiles = kNoTiles,
                                  .rows = rows,
                                  .k = k,
                                  .w = expanded.data(),
                                  .packing = Packing::float32,
                                  .planes = 1,
                                  .bias = bias.data(),
                                  .activation = Activation::none,
                                  .adds = true,
                                  .y = y.data(),
                                  .y_stride = n,
                                  .y_tiles = kNoTiles,
                                  .n = n,
                                  .first_panel = first,
                                  .panels = count});
            return y;
          };
          const auto got = run([&](const LinearArgs& to) {
            if (to.panels > 0) table_.linear_grouped({.to = to, .weights = held.args()});
          });
          ASSERT_EQ(got, run([&](const LinearArgs& to) {
                      if (to.panels > 0) table_.linear(to);
                    }))
              << name_of(format) << ": " << rows << "x" << k << "x" << n;
        }
}

INSTANTIATE_TEST_SUITE_P(Tiers, GroupedKernels, test::kKernelTiers,
                         [](const auto& of) { return of.param.name(); });

}  // namespace
}  // namespace assay::cpu
