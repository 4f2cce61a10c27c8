// NaN and infinity on every instruction set: visible where the scalar reference shows them, and nowhere else.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "assay/backend/cpu/kernels/select.h"
#include "assay/tensor/half.h"
#include "support/kernel_inputs.h"
#include "support/kernel_tiers.h"
#include "support/random_floats.h"

namespace assay::cpu {
namespace {

using test::activations_of;
using test::are_same_bits;
using test::at;
using test::Int8Rows;
using test::KvBlocks;
using test::random_floats;
using test::TiledRows;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// NaN by several bits: what rounds or shifts them must leave a NaN.
const float kBad[] = {std::numeric_limits<float>::quiet_NaN(), std::bit_cast<float>(0x7fc00001U),
                      std::bit_cast<float>(0xffffffffU), kInfinity, -kInfinity};

class NonFiniteKernelTest : public test::TestOfKernelTiers {};

INSTANTIATE_TEST_SUITE_P(Isas, NonFiniteKernelTest, test::kKernelTiers,
                         [](const auto& info) { return info.param.name(); });

std::vector<std::int64_t> first_middle_last(std::int64_t n) {
  return {0, n / 2, n - 1};
}
std::vector<float> row_of(const std::vector<float>& x, std::int64_t row, std::int64_t n) {
  return {x.begin() + row * n, x.begin() + (row + 1) * n};
}

TEST_P(NonFiniteKernelTest, ActivationsAreFiniteWhereTheReferenceIs) {
  for (const Activation a : test::kActivations)
    for (const bool is_rounded : {false, true})
      for (const std::int64_t n : {16, 37})
        for (const std::int64_t place : first_middle_last(n))
          for (const float bad : kBad) {
            auto inputs = random_floats(static_cast<std::size_t>(n), 1, 3);
            const auto clean = activations_of(table_, a, is_rounded, inputs);
            at(inputs, place) = bad;
            auto got = activations_of(table_, a, is_rounded, inputs);
            const float want = at(activations_of(reference_, a, is_rounded, inputs), place);
            EXPECT_EQ(std::isfinite(at(got, place)), std::isfinite(want))
                << static_cast<int>(a) << " of " << bad << ": " << at(got, place) << " for " << want;
            if (std::isnan(bad)) {
              EXPECT_TRUE(std::isnan(at(got, place))) << static_cast<int>(a);
            }
            if (std::isfinite(want)) {
              EXPECT_EQ(at(got, place), want) << static_cast<int>(a);
            }
            at(got, place) = at(clean, place);
            EXPECT_TRUE(are_same_bits(got, clean)) << static_cast<int>(a) << " of " << bad;
          }
}

std::vector<float> norm_of(const KernelTable& table, const std::vector<float>& x, std::int64_t rows,
                           std::int64_t n, bool subtracts_mean, const std::vector<float>& gain) {
  std::vector<float> y(x.size());
  const std::vector<float> bias(gain.size(), 0.5F);
  table.norm({.x = x.data(),
              .x_stride = n,
              .gain = gain.data(),
              .bias = bias.data(),
              .epsilon = 1e-5F,
              .subtracts_mean = subtracts_mean,
              .y = y.data(),
              .y_stride = n,
              .y_tiles = kNoTiles,
              .first_tile_row = 0,
              .rows = rows,
              .n = n});
  return y;
}
bool are_all_finite(const std::vector<float>& x) {
  return std::all_of(x.begin(), x.end(), [](float value) { return std::isfinite(value); });
}

TEST_P(NonFiniteKernelTest, NormShowsWhatIsNotFinite) {
  constexpr std::int64_t kRows = 3;
  for (const bool subtracts_mean : {false, true})
    for (const std::int64_t n : {2, 7, 16, 17, 64, 101})
      for (const std::int64_t place : first_middle_last(n))
        for (const float bad : kBad) {
          auto x = random_floats(static_cast<std::size_t>(kRows * n), 1);
          const auto gain = random_floats(static_cast<std::size_t>(n), 2);
          const auto clean = norm_of(table_, x, kRows, n, subtracts_mean, gain);
          at(x, n + place) = bad;
          const auto got = norm_of(table_, x, kRows, n, subtracts_mean, gain),
                     want = norm_of(reference_, x, kRows, n, subtracts_mean, gain);
          for (std::int64_t i = 0; i < n; ++i)
            EXPECT_EQ(std::isfinite(at(got, n + i)), std::isfinite(at(want, n + i))) << n << " " << bad;
          EXPECT_FALSE(are_all_finite(row_of(got, 1, n))) << n << " " << bad;
          for (const std::int64_t row : {0, 2})
            EXPECT_TRUE(are_same_bits(row_of(got, row, n), row_of(clean, row, n)));
        }
}

// Squares beyond float32 must not make zeros of a row.
TEST_P(NonFiniteKernelTest, NormOfSquaresThatOverflow) {
  for (const bool subtracts_mean : {false, true})
    for (const std::int64_t n : {7, 64, 101}) {
      const auto x = random_floats(static_cast<std::size_t>(n), 1, 1e30);
      const std::vector<float> gain(x.size(), 1.0F);
      const auto got = norm_of(table_, x, 1, n, subtracts_mean, gain),
                 want = norm_of(reference_, x, 1, n, subtracts_mean, gain);
      for (std::int64_t i = 0; i < n; ++i)
        EXPECT_TRUE(!std::isfinite(at(got, i)) || std::fabs(at(got, i) - at(want, i)) < 1e-4F) << at(got, i);
    }
}

TEST_P(NonFiniteKernelTest, RowsOfCodesGetAScaleOfNaN) {
  constexpr std::int64_t kRows = 3;
  for (const std::int64_t k : {1, 7, 16, 63, 64, 65, 200}) {
    const auto factors = random_floats(static_cast<std::size_t>(k), 4, 3);
    for (const Int8Rows::Options& options : std::initializer_list<Int8Rows::Options>{
             {},
             {.threshold = 6},
             {.threshold = kInfinity},
             {.has_ranges = true},
             {.has_ranges = true, .factors = &factors},
             {.fixed_scale = 0.05F, .fixed_zero_point = 5},
             {.has_ranges = true, .fixed_scale = 0.05F, .fixed_zero_point = 5},
             {.fixed_scale = 0.05F, .fixed_zero_point = 5, .factors = &factors},
             {.has_ranges = true, .has_tiles = true}}) {
      if (options.has_tiles && !table_.uses_tiles) continue;
      for (const std::int64_t place : first_middle_last(k))
        for (const float bad : kBad) {
          auto x = random_floats(static_cast<std::size_t>(kRows * k), 3, 5);
          const Int8Rows clean(table_, x, kRows, k, options);
          at(x, k + place) = bad;
          const Int8Rows got(table_, x, kRows, k, options);
          EXPECT_TRUE(std::isnan(got.absmax[1])) << k << " " << place << " " << bad;
          for (const std::int64_t row : {0, 2}) {
            EXPECT_EQ(at(got.absmax, row), at(clean.absmax, row));
            EXPECT_EQ(got.codes_of(row, k), clean.codes_of(row, k));
          }
          if (options.has_tiles) continue;
          const Int8Rows want(reference_, x, kRows, k, options);
          EXPECT_TRUE(std::isnan(want.absmax[1])) << k << " " << place << " " << bad;
        }
    }
  }
}

// A number that float16 cannot hold is infinite there: with a threshold an outlier, whose column is
// decomposed and multiplied in float; without a threshold the row is not finite.
TEST_P(NonFiniteKernelTest, NumbersBeyondFloat16) {
  for (const KernelTable* table : {&reference_, &std::as_const(table_)})
    for (const std::int64_t k : {1, 16, 65}) {
      auto x = random_floats(static_cast<std::size_t>(2 * k), 3, 5);
      at(x, k - 1) = 70000;
      EXPECT_TRUE(std::isnan(Int8Rows(*table, x, 2, k, {.threshold = kInfinity}).absmax[0]));
      EXPECT_FALSE(std::isnan(Int8Rows(*table, x, 2, k, {.threshold = kInfinity}).absmax[1]));
      EXPECT_FALSE(std::isnan(Int8Rows(*table, x, 2, k, {.threshold = 6}).absmax[0]));
      EXPECT_FALSE(std::isnan(Int8Rows(*table, x, 2, k, {.has_ranges = true}).absmax[0]));
    }
}

// A range of finite numbers may be beyond float32.
TEST_P(NonFiniteKernelTest, RangesThatOverflow) {
  for (const KernelTable* table : {&reference_, &std::as_const(table_)}) {
    std::vector<float> x(70, 1.0F);
    x[3] = -3e38F;
    x[68] = 3e38F;
    EXPECT_TRUE(std::isnan(Int8Rows(*table, x, 1, 70, {.has_ranges = true}).absmax[0]));
  }
}

TEST_P(NonFiniteKernelTest, GroupsOfCodesGetAScaleOfNaN) {
  constexpr std::int64_t kRows = 2;
  for (const std::int64_t k : {1, 31, 64, 130, 200})
    for (const std::int64_t group : {16, 64, 128})
      for (const std::int64_t place : first_middle_last(k))
        for (const float bad : kBad)
          for (const bool has_tiles : {false, true}) {
            auto x = random_floats(static_cast<std::size_t>(kRows * k), 3, 9);
            const std::int64_t padded = round_up(k, kTileColumns), groups = (padded + group - 1) / group;
            const auto run = [&](const KernelTable& table) {
              const TiledRows held(x, k);
              std::vector<std::int8_t> codes(static_cast<std::size_t>(kRows * round_up(k, kInt8Columns)));
              std::vector<float> scales(static_cast<std::size_t>(kRows * groups)), of_row[kRows];
              std::vector<std::int32_t> starts(scales.size());
              table.quantize_groups({.x = has_tiles ? nullptr : x.data(),
                                     .x_stride = k,
                                     .x_tiles = has_tiles ? held.tiles : kNoTiles,
                                     .first_row = 0,
                                     .rows = kRows,
                                     .k = k,
                                     .k_padded = padded,
                                     .group = group,
                                     .unit = 1,
                                     .out = {codes.data(), scales.data(), starts.data(), kRows}});
              for (std::size_t i = 0; i < scales.size(); ++i) of_row[i % kRows].push_back(scales[i]);
              of_row[0].insert(of_row[0].end(), of_row[1].begin(), of_row[1].end());
              return of_row[0];
            };
            const auto clean = run(table_);
            at(x, place) = bad;
            const auto got = run(table_), want = run(reference_);
            for (std::int64_t i = 0; i < groups; ++i) {
              EXPECT_TRUE(std::isnan(at(got, i))) << k << " " << group << " " << bad;
              EXPECT_TRUE(std::isnan(at(want, i))) << k << " " << group << " " << bad;
            }
            EXPECT_EQ(row_of(got, 1, groups), row_of(clean, 1, groups));
          }
}

TEST_P(NonFiniteKernelTest, BentLogitsKeepNaN) {
  for (const KernelTable* table : {&reference_, &std::as_const(table_)})
    for (const float cap : {0.0F, 30.0F})
      for (const std::int64_t n : {1, 7, 16, 37})
        for (const std::int64_t place : first_middle_last(n)) {
          auto x = random_floats(static_cast<std::size_t>(n), 30, 100);
          at(x, place) = kBad[2];
          table->bend_logits(x.data(), n, 0.5F, cap);
          for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(std::isnan(at(x, i)), i == place);
          at(x, place) = kInfinity;
          table->bend_logits(x.data(), n, 0.5F, cap);
          EXPECT_EQ(at(x, place), cap == 0 ? kInfinity : cap);
        }
}

TEST_P(NonFiniteKernelTest, ReductionsOfLogits) {
  for (const std::int64_t n : {1, 2, 15, 16, 17, 101, 257})
    for (const std::int64_t place : first_middle_last(n))
      for (const KernelTable* table : {&reference_, &std::as_const(table_)}) {
        const auto clean = random_floats(static_cast<std::size_t>(n), 30);
        for (const float bad : kBad) {
          if (bad == -kInfinity) continue;
          auto x = clean;
          at(x, place) = bad;
          EXPECT_EQ(table->argmax(x.data(), n), -1) << n << " " << place << " " << bad;
          EXPECT_TRUE(std::isnan(table->log_sum_exp(x.data(), n))) << n << " " << place << " " << bad;
        }
        std::vector<float> x(clean.size(), -kInfinity);
        EXPECT_EQ(table->argmax(x.data(), n), -1);
        EXPECT_TRUE(std::isnan(table->log_sum_exp(x.data(), n)));
        at(x, place) = 3;  // impossible tokens beside one
        EXPECT_EQ(table->argmax(x.data(), n), place);
        EXPECT_NEAR(table->log_sum_exp(x.data(), n), 3, 1e-6);
      }
}

// Wherever in a block that is looked at at once.
TEST_P(NonFiniteKernelTest, NoLogitIsOverlooked) {
  const std::int64_t n = 2 * 256 + 17;
  const auto clean = random_floats(static_cast<std::size_t>(n), 30);
  for (std::int64_t place = 0; place < n; ++place) {
    for (const float bad : kBad) {
      if (bad == -kInfinity) continue;
      auto x = clean;
      at(x, place) = bad;
      ASSERT_EQ(table_.argmax(x.data(), n), -1) << place << " " << bad;
    }
    auto x = clean;
    at(x, place) = 9;
    ASSERT_EQ(table_.argmax(x.data(), n), place);
    std::fill(x.begin(), x.end(), -kInfinity);
    at(x, place) = -3;
    ASSERT_EQ(table_.argmax(x.data(), n), place);
  }
}

// Queries, and keys and values of one head in blocks whose other bits are all set: NaN in every format.
struct AttentionInputs {
  std::int64_t rows, past, dim, more;  // positions that were written behind those of the rows
  std::int64_t window, first_key;
  KvFormat format;
  bool has_tiles;
  std::vector<float> q, k, v;
  float soft_cap = 0, slope = 0;

  std::int64_t length() const { return past + rows + more; }
  bool sees(std::int64_t row, std::int64_t position) const {
    return position >= first_key && position <= past + row && (window == 0 || position > past + row - window);
  }
};

AttentionInputs attention_inputs(std::int64_t rows, std::int64_t past, std::int64_t dim, std::int64_t more,
                                 std::int64_t window, std::int64_t first_key, KvFormat format,
                                 bool has_tiles = false) {
  AttentionInputs in{rows, past, dim, more, window, first_key, format, has_tiles, {}, {}, {}};
  in.q = random_floats(static_cast<std::size_t>(rows * dim), 20, 4);
  in.k = random_floats(static_cast<std::size_t>(in.length() * dim), 10);
  in.v = random_floats(static_cast<std::size_t>(in.length() * dim), 11);
  return in;
}

std::vector<float> attend(const KernelTable& table, const AttentionInputs& in) {
  const KvBlocks keys(table, in.k, in.v, in.dim, in.format);
  const TiledRows held(in.has_tiles ? in.q : std::vector<float>(), in.dim);
  std::vector<float> out(in.q.size(), 9.0F);
  keys.attend_of(table)({.q = in.has_tiles ? nullptr : in.q.data(),
                         .q_stride = in.dim,
                         .q_tiles = in.has_tiles ? held.tiles : kNoTiles,
                         .q_first_column = 0,
                         .rows = in.rows,
                         .first_position = in.past,
                         .first_key = in.first_key,
                         .window = in.window,
                         .shape = keys.shape,
                         .scale = 0.3F,
                         .blocks = keys.pointers.data(),
                         .k_offset = 0,
                         .v_offset = keys.v_offset,
                         .out = out.data(),
                         .out_stride = in.dim,
                         .out_tiles = kNoTiles,
                         .first_tile_row = 0,
                         .first_tile_column = 0});
  table.end_attending();
  return out;
}

// Rows that see what is spoiled are finite where the reference's are; the others keep every bit.
void expect_as_reference(const KernelTable& table, const KernelTable& reference, const AttentionInputs& clean,
                         const AttentionInputs& spoiled, const std::vector<bool>& is_touched) {
  const auto before = attend(table, clean), got = attend(table, spoiled), want = attend(reference, spoiled);
  ASSERT_TRUE(are_all_finite(before));
  for (std::int64_t row = 0; row < clean.rows; ++row) {
    if (!is_touched[static_cast<std::size_t>(row)]) {
      ASSERT_TRUE(are_same_bits(row_of(got, row, clean.dim), row_of(before, row, clean.dim)))
          << "row " << row;
      continue;
    }
    for (std::int64_t i = 0; i < clean.dim; ++i)
      ASSERT_EQ(std::isfinite(at(got, row * clean.dim + i)), std::isfinite(at(want, row * clean.dim + i)))
          << "row " << row << " dimension " << i << ": " << at(got, row * clean.dim + i) << " for "
          << at(want, row * clean.dim + i);
  }
}

TEST_P(NonFiniteKernelTest, AttentionIsFiniteWhereTheReferenceIs) {
  std::vector<AttentionInputs> cases;
  for (const KvFormat format : {KvFormat::float32, KvFormat::bfloat16, KvFormat::int8})
    for (const std::int64_t dim : {5, 64}) {
      cases.push_back(attention_inputs(1, 0, dim, 3, 0, 0, format));
      cases.push_back(attention_inputs(1, 70, dim, 0, 0, 0, format));
      cases.push_back(attention_inputs(5, 0, dim, 2, 0, 0, format));
      cases.push_back(attention_inputs(20, 0, dim, 0, 0, 0, format));
      cases.push_back(attention_inputs(48, 57, dim, 1, 0, 0, format));
      cases.push_back(attention_inputs(20, 60, dim, 0, 9, 0, format));
      cases.push_back(attention_inputs(1, 100, dim, 0, 30, 0, format));
    }
  cases.push_back(attention_inputs(3, 600, 32, 0, 0, 0, KvFormat::bfloat16));  // two spans of tiles
  for (const auto& [format, cap, slope] : {std::tuple{KvFormat::float32, 2.0F, 0.0F},
                                           {KvFormat::bfloat16, 0.0F, 0.1F},
                                           {KvFormat::int8, 2.0F, 0.1F}})
    for (const std::int64_t rows : {1, 9}) {
      cases.push_back(attention_inputs(rows, 57, 64, 1, 0, 0, format));
      cases.back().soft_cap = cap;
      cases.back().slope = slope;
    }
  if (table_.uses_tiles) {
    cases.push_back(attention_inputs(20, 40, 64, 0, 0, 0, KvFormat::bfloat16, true));
    cases.push_back(attention_inputs(1, 40, 64, 2, 0, 0, KvFormat::bfloat16, true));
  }
  // Each number in one place of a case, and in the others of the cases after it.
  std::size_t turn = 0;
  for (const AttentionInputs& clean : cases) {
    ++turn;
    for (const float bad : {kBad[1], kBad[2], kInfinity, -kInfinity}) {
      const std::int64_t i = first_middle_last(clean.dim)[turn++ % 3];
      {
        SCOPED_TRACE(testing::Message() << name_of(clean.format) << " rows " << clean.rows << " past "
                                        << clean.past << " dim " << clean.dim << " window " << clean.window
                                        << " tiles " << clean.has_tiles << " bad " << bad << " at " << i);
        for (const std::int64_t row : first_middle_last(clean.rows)) {
          SCOPED_TRACE(testing::Message() << "query " << row);
          AttentionInputs spoiled = clean;
          at(spoiled.q, row * clean.dim + i) = bad;
          std::vector<bool> is_touched(static_cast<std::size_t>(clean.rows));
          is_touched[static_cast<std::size_t>(row)] = true;
          expect_as_reference(table_, reference_, clean, spoiled, is_touched);
          if (HasFatalFailure()) return;
        }
        const std::int64_t end = clean.past + clean.rows;
        for (const std::int64_t position :
             {std::int64_t{0}, end / 2, clean.past, end - 1, clean.length() - 1})
          for (const bool is_key : {true, false}) {
            SCOPED_TRACE(testing::Message() << (is_key ? "key " : "value ") << position);
            AttentionInputs spoiled = clean;
            at(is_key ? spoiled.k : spoiled.v, position * clean.dim + i) = bad;
            std::vector<bool> is_touched;
            for (std::int64_t row = 0; row < clean.rows; ++row)
              is_touched.push_back(clean.sees(row, position));
            expect_as_reference(table_, reference_, clean, spoiled, is_touched);
            if (HasFatalFailure()) return;
          }
      }
    }
  }
}

// Scores of -infinity have no weight beside others; where a row sees nothing else, it has no weights at all.
TEST_P(NonFiniteKernelTest, ScoresOfMinusInfinity) {
  for (const KvFormat format : {KvFormat::float32, KvFormat::bfloat16})
    for (const std::int64_t spoiled_keys : {1, 3, 64, 70}) {
      AttentionInputs in = attention_inputs(20, 60, 32, 0, 0, 0, format);
      for (std::int64_t row = 0; row < in.rows; ++row) at(in.q, row * in.dim) = 1;
      for (std::int64_t position = 0; position < spoiled_keys; ++position)
        at(in.k, position * in.dim) = -kInfinity;
      const auto got = attend(table_, in), want = attend(reference_, in);
      for (std::int64_t row = 0; row < in.rows; ++row)
        for (std::int64_t i = 0; i < in.dim; ++i) {
          const float value = at(got, row * in.dim + i), expected = at(want, row * in.dim + i);
          EXPECT_EQ(std::isnan(expected), in.past + row < spoiled_keys);
          EXPECT_EQ(std::isnan(value), std::isnan(expected)) << row << " of " << spoiled_keys;
          if (!std::isnan(expected)) {
            EXPECT_NEAR(value, expected, 0.02) << row << " of " << spoiled_keys;
          }
        }
    }
}

// A row of padding sees no key, whatever the cache holds.
TEST_P(NonFiniteKernelTest, RowsWithoutKeysAreZero) {
  for (const KvFormat format : {KvFormat::float32, KvFormat::bfloat16, KvFormat::int8}) {
    AttentionInputs in = attention_inputs(9, 0, 32, 0, 0, std::int64_t{1} << 40, format);
    for (float& x : in.q) x = kBad[0];
    EXPECT_EQ(attend(table_, in), std::vector<float>(in.q.size())) << name_of(format);
  }
}

}  // namespace
}  // namespace assay::cpu
