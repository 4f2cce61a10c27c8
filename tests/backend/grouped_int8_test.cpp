// Products of grouped codes by int8 activations, on every tier: the bits of the scalar reference, which is
// near the product of the numbers that codes stand for.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "assay/base/aligned.h"
#include "support/held_codes.h"
#include "support/kernel_inputs.h"
#include "support/kernel_tiers.h"
#include "support/random_floats.h"

namespace assay::cpu {
namespace {

using test::HeldCodes;
using test::kHeldFormats;
using test::random_floats;

// Rows as a table codes them for some weights.
struct RowsBesideGroups {
  ByteValues values;
  std::int64_t group, capacity;
  std::vector<std::int8_t> codes;
  std::vector<float> scales, sums;
  std::vector<std::int32_t> starts, own_starts;

  RowsBesideGroups(const KernelTable& table, const GroupedCodes& weights, QuantizeGroupedArgs args,
                   std::int64_t spare_rows)
      : values(byte_values_of(weights)),
        group(int8_group_of(weights.run)),
        capacity(args.rows + spare_rows),
        codes(static_cast<std::size_t>(capacity * weights.k_padded), 99),
        scales(static_cast<std::size_t>(capacity * weights.k_padded / group)),
        sums(scales.size()),
        starts(scales.size()),
        own_starts(scales.size()) {
    args.k = weights.k;
    args.k_padded = weights.k_padded;
    args.group = group;
    args.values = values;
    args.out = rows();
    table.quantize_grouped(args);
  }
  GroupedRows rows() {
    return {codes.data(), scales.data(), sums.data(), starts.data(), own_starts.data(), capacity};
  }
};

std::vector<float> product(const KernelTable& table, const GroupedCodes& weights, RowsBesideGroups& x,
                           std::int64_t rows, std::int64_t n) {
  AlignedBuffer scratch(static_cast<std::size_t>(coded_scratch_bytes(rows)), "scratch");
  std::memset(scratch.data(), 0xff, static_cast<std::size_t>(coded_scratch_bytes(rows)));
  std::vector<float> y(static_cast<std::size_t>(rows * n), 3.0F);
  const std::int64_t panels = (n + kPanel - 1) / kPanel;
  for (const auto& [first, count] :
       {std::pair{std::int64_t{0}, panels / 2}, std::pair{panels / 2, panels - panels / 2}})
    if (count > 0)
      table.linear_grouped_int8({.to = {.x = nullptr,
                                        .x_stride = 0,
                                        .x_tiles = kNoTiles,
                                        .rows = rows,
                                        .k = weights.k,
                                        .w = nullptr,
                                        .packing = Packing::grouped,
                                        .planes = 1,
                                        .bias = nullptr,
                                        .activation = Activation::none,
                                        .adds = false,
                                        .y = y.data(),
                                        .y_stride = n,
                                        .y_tiles = kNoTiles,
                                        .n = n,
                                        .first_panel = first,
                                        .panels = count},
                                 .weights = weights,
                                 .values = x.values,
                                 .x = x.rows(),
                                 .scratch = scratch.data()});
  return y;
}

class GroupedInt8 : public test::TestOfKernelTiers {};

TEST_P(GroupedInt8, CodesOfRowsEqualReference) {
  for (const WeightFormat& format : kHeldFormats)
    for (const auto& [k, rows] :
         {std::pair<std::int64_t, std::int64_t>{1, 3}, {31, 3}, {64, 3}, {80, 11}, {300, 3}, {300, 11}}) {
      const HeldCodes held(format, k, 1, false);
      auto x = random_floats(static_cast<std::size_t>(rows * k), 3, 9);
      for (std::int64_t i = 0; i < std::min<std::int64_t>(k, 32); ++i)
        x[static_cast<std::size_t>(i)] = i % 2 == 0 ? 0 : 1e-38F;
      const test::TiledRows tiled(x, k);
      for (const bool has_tiles : {false, true}) {
        const QuantizeGroupedArgs args{.x = has_tiles ? nullptr : x.data(),
                                       .x_stride = k,
                                       .x_tiles = has_tiles ? tiled.tiles : kNoTiles,
                                       .first_row = 0,
                                       .rows = rows};
        const RowsBesideGroups got(table_, held.args(), args, 2), want(reference_, held.args(), args, 2);
        ASSERT_EQ(got.codes, want.codes) << name_of(format) << " " << k << " " << has_tiles;
        ASSERT_EQ(got.scales, want.scales) << name_of(format) << " " << k;
        ASSERT_EQ(got.sums, want.sums) << name_of(format) << " " << k;
        ASSERT_EQ(got.scales[0], 0.0F);
      }
    }
}

TEST_P(GroupedInt8, ProductsHaveTheReferencesBits) {
  for (const WeightFormat& format : kHeldFormats)
    for (const std::int64_t k : {1, 31, 80, 300, 544})
      for (const std::int64_t n : {1, 33, 70, 150})
        for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 17, 60, 257}) {
          if (rows > 5 && (k < 300 || n == 1)) continue;
          if (n == 150 && (rows > 8 || k == 544)) continue;
          if (rows == 257 && (n != 33 || k != 300)) continue;
          const HeldCodes held(format, k, (n + kPanel - 1) / kPanel, false);
          // Inputs of one magnitude have the codes -127 and 127: what saturates where pairs are kept in 16
          // bits.
          auto x = random_floats(static_cast<std::size_t>(rows * k), 7, 1);
          if (n == 33)
            for (float& value : x) value = value < 0 ? -1.0F : 1.0F;
          const QuantizeGroupedArgs args{
              .x = x.data(), .x_stride = k, .x_tiles = kNoTiles, .first_row = 0, .rows = rows};
          RowsBesideGroups own(table_, held.args(), args, 3), in(reference_, held.args(), args, 3);
          ASSERT_EQ(product(table_, held.args(), own, rows, n), product(reference_, held.args(), in, rows, n))
              << name_of(format) << ": " << rows << "x" << k << "x" << n;
        }
}

// The largest sums of a group that there are: codes that are all 0 or all the highest, inputs of one sign.
TEST_P(GroupedInt8, ProductsOfExtremeCodesHaveTheReferencesBits) {
  constexpr std::int64_t kInputs = 288, kOutputs = 33, kHeldPanels = 3;
  for (const WeightFormat& format : kHeldFormats)
    for (const unsigned fill : {0x00U, 0xffU})
      for (const float sign : {-1.0F, 1.0F})
        for (const std::int64_t rows : {1, 2, 4, 8}) {
          const HeldCodes held(format, kInputs, kHeldPanels, false);
          const std::vector<std::byte> codes(static_cast<std::size_t>(kHeldPanels * held.args().code_bytes()),
                                             static_cast<std::byte>(fill));
          GroupedCodes weights = held.args();
          weights.codes = codes.data();
          const std::vector<float> x(static_cast<std::size_t>(rows * kInputs), sign);
          const QuantizeGroupedArgs args{
              .x = x.data(), .x_stride = kInputs, .x_tiles = kNoTiles, .first_row = 0, .rows = rows};
          RowsBesideGroups own(table_, weights, args, 3), in(reference_, weights, args, 3);
          ASSERT_EQ(product(table_, weights, own, rows, kOutputs),
                    product(reference_, weights, in, rows, kOutputs))
              << name_of(format) << ": " << rows << " rows, " << fill << ", " << sign;
        }
}

// One that is not finite makes its own row NaN, and no other.
TEST_P(GroupedInt8, NonFiniteInputsConcernTheirRowAlone) {
  constexpr std::int64_t kInputs = 288, kOutputs = 40;
  for (const WeightFormat& format : kHeldFormats)
    for (const std::int64_t rows : {2, 12, 40})
      for (const float bad :
           {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
        const HeldCodes held(format, kInputs, 3, false);
        auto x = random_floats(static_cast<std::size_t>(rows * kInputs), 7, 1);
        const QuantizeGroupedArgs args{
            .x = x.data(), .x_stride = kInputs, .x_tiles = kNoTiles, .first_row = 0, .rows = rows};
        RowsBesideGroups clean(table_, held.args(), args, 0);
        const auto want = product(table_, held.args(), clean, rows, kOutputs);
        x[kInputs + 77] = bad;
        RowsBesideGroups marked(table_, held.args(), args, 0);
        const auto got = product(table_, held.args(), marked, rows, kOutputs);
        for (std::int64_t i = 0; i < rows * kOutputs; ++i) {
          const auto at = static_cast<std::size_t>(i);
          ASSERT_TRUE(i / kOutputs == 1 ? std::isnan(got[at]) : got[at] == want[at]) << name_of(format) << i;
        }
      }
}

INSTANTIATE_TEST_SUITE_P(Tiers, GroupedInt8, test::kKernelTiers,
                         [](const auto& of) { return of.param.name(); });

// The reference itself: the error that codes of activations make, and no more.
TEST(GroupedInt8Reference, IsNearTheProductOfTheNumbers) {
  const KernelTable table = select_kernels(Isa::scalar);
  for (const WeightFormat& format : kHeldFormats)
    for (const std::int64_t k : {31, 256, 544}) {
      constexpr std::int64_t kRows = 3, kOutputs = 20;
      const HeldCodes held(format, k, 2, false);
      const auto x = random_floats(static_cast<std::size_t>(kRows * k), 7, 1);
      RowsBesideGroups rows(
          table, held.args(),
          {.x = x.data(), .x_stride = k, .x_tiles = kNoTiles, .first_row = 0, .rows = kRows}, 0);
      const auto got = product(table, held.args(), rows, kRows, kOutputs);
      for (std::int64_t row = 0; row < kRows; ++row)
        for (std::int64_t output = 0; output < kOutputs; ++output) {
          double exact = 0, coded = 0, bound = 0, magnitude = 0;
          held.args().for_row(output / kPanel, output % kPanel, [&](std::int64_t i, float value) {
            const auto w = static_cast<double>(value);
            const auto input = static_cast<double>(x[static_cast<std::size_t>(row * k + i)]);
            double largest = 0;
            for (std::int64_t j = i / 32 * 32; j < std::min(k, i / 32 * 32 + 32); ++j)
              largest =
                  std::max(largest, std::fabs(static_cast<double>(x[static_cast<std::size_t>(row * k + j)])));
            const double code = std::nearbyint(input * 127 / largest);
            exact += input * w;
            coded += code * (largest / 127) * w;
            bound += std::fabs(w) * largest / 254;
            magnitude += std::fabs(input * w);
          });
          const auto y = static_cast<double>(got[static_cast<std::size_t>(row * kOutputs + output)]);
          ASSERT_NEAR(y, coded, 2e-5 * magnitude + 1e-6) << name_of(format) << " " << k;
          ASSERT_NEAR(y, exact, bound + 2e-5 * magnitude + 1e-6) << name_of(format) << " " << k;
        }
    }
}

}  // namespace
}  // namespace assay::cpu
