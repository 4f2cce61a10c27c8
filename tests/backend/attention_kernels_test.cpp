// Attention and the caches on every usable instruction set against the scalar reference.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <tuple>

#include "assay/backend/cpu/select.h"
#include "assay/base/aligned.h"
#include "assay/tensor/half.h"
#include "support/fixtures.h"
#include "support/kernel_inputs.h"
#include "support/kernel_tiers.h"
#include "support/random_floats.h"

namespace assay::cpu {
namespace {

using test::KvBlocks;
using test::random_floats;
using test::TiledRows;

class AttentionKernelTest : public test::TestOfKernelTiers {
 protected:
  // Products of bfloat16 round queries and weights, those of codes too where vector units have them:
  // processors with tiles run the same kernel over an int8 cache.
  bool rounds_queries(KvFormat format) const {
    return format == KvFormat::bfloat16 ? table_.uses_tiles
           : format == KvFormat::int8   ? std::string_view(table_.attend_int8_origin) == "avx512bf16"
                                        : false;
  }
};

INSTANTIATE_TEST_SUITE_P(Isas, AttentionKernelTest, test::kKernelTiers,
                         [](const auto& info) { return info.param.name(); });

// Keys and values of `length` positions.
KvBlocks random_blocks(const KernelTable& table, std::int64_t length, std::int64_t dim, KvFormat format,
                       bool from_tiles = false) {
  return {table,
          random_floats(static_cast<std::size_t>(length * dim), 10),
          random_floats(static_cast<std::size_t>(length * dim), 11),
          dim,
          format,
          from_tiles};
}

struct AttendCase {
  std::int64_t rows, past, dim, window, first_key;
  KvFormat format = KvFormat::float32;
  bool has_tiles = false;
  float soft_cap = 0, slope = 0;
};

// The rows from `skip` on, at most `at_once` in a call.
std::vector<float> run_attend(const KernelTable& table, const AttendCase& c, std::int64_t skip = 0,
                              std::int64_t at_once = kAttendRows) {
  const KvBlocks keys = random_blocks(table, c.past + c.rows, c.dim, c.format);
  const std::int64_t stride = c.has_tiles ? c.dim : c.dim + 1;
  const auto q = random_floats(static_cast<std::size_t>(c.rows * stride), 20, 4);
  const TiledRows held(c.has_tiles ? q : std::vector<float>(), stride, 3, 32);
  std::vector<float> out(static_cast<std::size_t>(c.rows * c.dim), 9.0F);
  const auto attend = keys.attend_of(table);
  for (std::int64_t row = skip; row < c.rows; row += at_once)
    attend({.q = c.has_tiles ? nullptr : q.data() + row * stride,
            .q_stride = stride,
            .q_tiles = c.has_tiles ? held.tiles : kNoTiles,
            .q_first_column = held.first_column,
            .rows = std::min(at_once, c.rows - row),
            .first_position = c.past + row,
            .first_key = c.first_key,
            .window = c.window,
            .shape = keys.shape,
            .scale = 0.3F,
            .soft_cap = c.soft_cap,
            .alibi_slopes = c.slope == 0 ? nullptr : &c.slope,
            .blocks = keys.pointers.data(),
            .k_offset = 0,
            .v_offset = keys.v_offset,
            .out = out.data() + row * c.dim,
            .out_stride = c.dim,
            .out_tiles = kNoTiles,
            .first_tile_row = held.first_row + row,
            .first_tile_column = 0});
  return out;
}

TEST_P(AttentionKernelTest, StoredKeysAndValuesEqualReference) {
  for (const KvFormat format : {KvFormat::bfloat16, KvFormat::int8})
    for (const std::int64_t dim : {1, 7, 8, 9, 16, 17, 24, 64, 80, 129})
      for (const std::int64_t length : {1, 2, 7, 8, 64, 65, 131})
        EXPECT_TRUE(random_blocks(table_, length, dim, format)
                        .is_same(random_blocks(reference_, length, dim, format)))
            << name_of(format) << " " << dim << " " << length;
}

// One position of an int8 cache: what the key's and the value's codes stand for.
struct Int8Position {
  std::vector<float> key, value;
  float key_scale, value_scale;
};
Int8Position store_int8(const KernelTable& table, const std::vector<float>& k, const std::vector<float>& v) {
  const auto dim = static_cast<std::int64_t>(k.size());
  const KvShape shape{dim};
  constexpr std::int64_t kAt = 5;
  const std::int64_t v_offset = dim * kKvBlockPositions + kInt8ScaleBytes;
  AlignedBuffer block(
      static_cast<std::size_t>(v_offset + shape.padded() * kKvBlockPositions + kInt8ScaleBytes), "a block");
  void* pointer = block.data();
  table.store_int8({.k = k.data(),
                    .v = v.data(),
                    .stride = dim,
                    .tiles = kNoTiles,
                    .first_tile_row = 0,
                    .k_column = 0,
                    .v_column = 0,
                    .rows = 1,
                    .first_position = kAt,
                    .shape = shape,
                    .blocks = &pointer,
                    .k_offset = 0,
                    .v_offset = v_offset});
  const auto* keys = reinterpret_cast<const std::int8_t*>(block.data());
  const std::int8_t* values = keys + v_offset;
  Int8Position at{{},
                  {},
                  reinterpret_cast<const float*>(keys + dim * kKvBlockPositions)[kAt],
                  reinterpret_cast<const float*>(values + shape.padded() * kKvBlockPositions)[kAt]};
  for (std::int64_t i = 0; i < dim; ++i) {
    at.key.push_back(static_cast<float>(keys[i * kKvBlockPositions + kAt]) * at.key_scale);
    at.value.push_back(static_cast<float>(values[kAt * shape.padded() + i]) * at.value_scale);
  }
  return at;
}

TEST_P(AttentionKernelTest, Int8KeysAndValuesLieWithinHalfAStep) {
  for (const std::size_t dim : {1U, 15U, 64U, 129U})
    for (const double size : {1e-20, 1.0, 1e30}) {
      const auto k = random_floats(dim, 1, size), v = random_floats(dim, 2, 3 * size);
      const Int8Position got = store_int8(table_, k, v);
      const auto largest = [](const std::vector<float>& x) {
        float most = 0;
        for (const float each : x) most = std::max(most, std::fabs(each));
        return most;
      };
      EXPECT_EQ(got.key_scale, largest(k) / 127.0F);
      EXPECT_EQ(got.value_scale, largest(v) / 127.0F);
      EXPECT_LE(test::largest_difference(got.key, k), 0.5001 * static_cast<double>(got.key_scale));
      EXPECT_LE(test::largest_difference(got.value, v), 0.5001 * static_cast<double>(got.value_scale));
    }
  const Int8Position zero = store_int8(table_, std::vector<float>(20), std::vector<float>(20, 1e-38F));
  EXPECT_EQ(zero.key_scale, 0);
  EXPECT_EQ(zero.value_scale, 0);
  EXPECT_EQ(zero.value, std::vector<float>(20));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (const std::size_t at : {0U, 19U}) {
      std::vector<float> x(20, 1.0F);
      x[at] = bad;
      EXPECT_TRUE(std::isnan(store_int8(table_, x, x).key_scale));
      EXPECT_TRUE(std::isnan(store_int8(reference_, x, x).value_scale));
    }
}

TEST_P(AttentionKernelTest, KeysAndValuesOfTilesAreThoseOfFloats) {
  if (!table_.uses_tiles) GTEST_SKIP() << "no tiles in this tier";
  for (const std::int64_t dim : {32, 64, 96})
    for (const std::int64_t length : {1, 2, 7, 8, 9, 23, 24, 64, 65, 131}) {
      constexpr KvFormat kFormat = KvFormat::bfloat16;
      const KvBlocks want = random_blocks(reference_, length, dim, kFormat);
      EXPECT_TRUE(want.is_same(random_blocks(table_, length, dim, kFormat, true))) << dim << " " << length;
      EXPECT_TRUE(want.is_same(random_blocks(reference_, length, dim, kFormat, true)))
          << dim << " " << length;
    }
}

TEST_P(AttentionKernelTest, AttentionOfTilesEqualsReference) {
  if (!table_.uses_tiles) GTEST_SKIP() << "no tiles in this tier";
  for (const std::int64_t dim : {32, 64, 96})
    for (const std::int64_t rows : {1, 5, 33})
      for (const std::int64_t past : {0, 60, 130, 500, 1023})
        for (const std::int64_t window : {0, 5, 70, 600}) {
          const AttendCase c{rows, past, dim, window, past == 130 ? 3 : 0, KvFormat::bfloat16, true};
          EXPECT_LE(test::largest_difference(run_attend(table_, c), run_attend(reference_, c)), 2e-2)
              << dim << " " << rows << " " << past << " " << window;
        }
}

TEST_P(AttentionKernelTest, AttentionEqualsReference) {
  for (const KvFormat format : {KvFormat::float32, KvFormat::bfloat16, KvFormat::int8})
    for (const std::int64_t dim : {1, 7, 12, 15, 16, 32, 64, 80, 129})
      for (const std::int64_t rows : {1, 5, 9, 33, 48})
        for (const std::int64_t past : {0, 60, 63, 64, 130})
          for (const std::int64_t window : {0, 5, 70})
            for (const std::int64_t first_key : {0, 3}) {
              if (first_key > past || (dim + rows + past + window + first_key) % 2 == 0) continue;
              const AttendCase c{rows, past, dim, window, first_key, format};
              // On tiles queries and weights are rounded to bfloat16 as well: 2^-9 of values up to 1, scores
              // up to 0.3 * 4 * sqrt(dim).
              const double tolerance = rounds_queries(format) ? 3e-2 : 5e-6;
              EXPECT_LE(test::largest_difference(run_attend(table_, c), run_attend(reference_, c)), tolerance)
                  << dim << " " << rows << " " << past << " " << window << " " << first_key << " "
                  << name_of(format);
            }
}

// Tiles leave such scores to the vector units; those with products of bfloat16 round queries and weights.
TEST_P(AttentionKernelTest, BentScoresEqualReference) {
  for (const KvFormat format : {KvFormat::float32, KvFormat::bfloat16, KvFormat::int8})
    for (const auto& [cap, slope] : {std::pair{2.0F, 0.0F}, {0.0F, 0.3F}, {5.0F, 0.01F}})
      for (const std::int64_t dim : {7, 32, 64, 80})
        for (const std::int64_t rows : {1, 5, 33})
          for (const std::int64_t past : {0, 63, 130})
            for (const std::int64_t window : {0, 70}) {
              const AttendCase c{rows, past, dim, window, past == 130 ? 3 : 0, format, false, cap, slope};
              const auto got = run_attend(table_, c), want = run_attend(reference_, c);
              EXPECT_LE(test::largest_difference(got, want), rounds_queries(format) ? 3e-2 : 1e-5)
                  << dim << " " << rows << " " << past << " " << window << " " << name_of(format) << " "
                  << cap;
              if (dim != 64 || rows != 33) continue;
              AttendCase plain = c;
              plain.soft_cap = plain.slope = 0;
              EXPECT_GE(test::largest_difference(run_attend(reference_, plain), want), 5e-5);
            }
}

// By hand: two keys, whose scores are 0.3 * 1 and 0.3 * 2; the query is at position 1.
TEST(AttentionReference, CapsThenAddsTheSlope) {
  const KernelTable table = select_kernels(Isa::scalar);
  std::vector<float> block(kKvBlockPositions * (1 + kPanel));
  block[0] = 1, block[1] = 2;
  block[kKvBlockPositions] = 10, block[kKvBlockPositions + kPanel] = 20;
  const void* pointer = block.data();
  const float q = 1, slope = 0.25F;
  float out = 0;
  table.attend({.q = &q,
                .q_stride = 1,
                .q_tiles = kNoTiles,
                .q_first_column = 0,
                .rows = 1,
                .first_position = 1,
                .first_key = 0,
                .window = 0,
                .shape = {1},
                .scale = 0.3F,
                .soft_cap = 0.5F,
                .alibi_slopes = &slope,
                .blocks = &pointer,
                .k_offset = 0,
                .v_offset = kKvBlockPositions,
                .out = &out,
                .out_stride = 1,
                .out_tiles = kNoTiles,
                .first_tile_row = 0,
                .first_tile_column = 0});
  const double first = std::exp(0.5 * std::tanh(0.3 / 0.5) - 0.25),
               second = std::exp(0.5 * std::tanh(0.6 / 0.5));
  EXPECT_NEAR(out, (10 * first + 20 * second) / (first + second), 1e-5);
}

// Heads of one position in a call, or each by itself, give the same bits.
TEST_P(AttentionKernelTest, HeadsOfAPositionAreAttendedAsEachAlone) {
  for (const KvFormat format : {KvFormat::float32, KvFormat::bfloat16, KvFormat::int8})
    for (const std::int64_t dim : {15, 64})
      for (const std::int64_t past : {0, 63, 700}) {
        const KvBlocks keys = random_blocks(table_, past + 1, dim, format);
        for (const std::int64_t window : {0, 70})
          for (const bool bends : {false, true})
            for (const std::int64_t heads : {2, 4, 7, 16, 33}) {
              const auto q = random_floats(static_cast<std::size_t>(heads * dim), 20, 4);
              const auto slopes = random_floats(static_cast<std::size_t>(heads), 21, 0.1);
              const auto attend = [&](std::int64_t first, std::int64_t count, std::vector<float>& out) {
                keys.attend_of(table_)({.q = q.data() + first * dim,
                                        .q_stride = dim,
                                        .q_tiles = kNoTiles,
                                        .q_first_column = 0,
                                        .rows = count,
                                        .rows_are_heads = count > 1,
                                        .first_position = past,
                                        .first_key = 0,
                                        .window = window,
                                        .shape = keys.shape,
                                        .scale = 0.3F,
                                        .soft_cap = bends ? 3.0F : 0.0F,
                                        .alibi_slopes = bends ? slopes.data() + first : nullptr,
                                        .blocks = keys.pointers.data(),
                                        .k_offset = 0,
                                        .v_offset = keys.v_offset,
                                        .out = out.data() + first * dim,
                                        .out_stride = dim,
                                        .out_tiles = kNoTiles,
                                        .first_tile_row = 0,
                                        .first_tile_column = 0});
                table_.end_attending();
              };
              std::vector<float> together(q.size()), alone(q.size());
              attend(0, heads, together);
              for (std::int64_t head = 0; head < heads; ++head) attend(head, 1, alone);
              EXPECT_EQ(together, alone) << name_of(format) << " " << dim << " " << past << " " << heads;
            }
      }
}

// Rows attended together or one by one give the same bits.
TEST_P(AttentionKernelTest, AttentionDoesNotDependOnItsNeighbours) {
  for (const auto& [format, past, cap] : {std::tuple{KvFormat::float32, 60, 0.0F},
                                          {KvFormat::float32, 60, 3.0F},
                                          {KvFormat::bfloat16, 60, 0.0F},
                                          {KvFormat::bfloat16, 500, 0.0F},
                                          {KvFormat::bfloat16, 60, 3.0F},
                                          {KvFormat::int8, 60, 0.0F},
                                          {KvFormat::int8, 500, 3.0F}}) {
    for (const std::int64_t dim : {15, 32, 96}) {
      const AttendCase c{37, past, dim, 0, 0, format, false, cap, cap / 50};
      const auto together = run_attend(table_, c);
      EXPECT_EQ(run_attend(table_, c, 0, 1), together) << dim;
      for (std::int64_t skip = 1; skip < 6; ++skip) {
        const auto shifted = run_attend(table_, c, skip, 17);
        for (std::size_t i = static_cast<std::size_t>(skip * dim); i < shifted.size(); ++i)
          ASSERT_EQ(shifted[i], together[i]) << skip << " " << dim;
      }
    }
  }
}

TEST_P(AttentionKernelTest, RowsThatSeeNoKeyAreZero) {
  for (const KvFormat format : {KvFormat::float32, KvFormat::bfloat16, KvFormat::int8}) {
    const auto out = run_attend(table_, {4, 0, 12, 0, 2, format});
    for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(out[i], 0.0F);
    EXPECT_NE(out[24], 0.0F);
  }
}

}  // namespace
}  // namespace assay::cpu
