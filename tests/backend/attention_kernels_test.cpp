// Attention and the caches on every usable instruction set against the scalar reference.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "assay/backend/cpu/select.h"
#include "assay/base/aligned.h"
#include "assay/tensor/half.h"
#include "support/fixtures.h"
#include "support/kernel_tiers.h"
#include "support/random_floats.h"

namespace assay::cpu {
namespace {

using test::random_floats;

class AttentionKernelTest : public test::TestOfKernelTiers {};

INSTANTIATE_TEST_SUITE_P(Isas, AttentionKernelTest, test::kKernelTiers,
                         [](const auto& info) { return info.param.name(); });

// Rows of `columns` floats in tiles from row 3 and column 32 on.
struct InTiles {
  static constexpr std::int64_t kRow = 3, kColumn = 32;
  std::vector<std::uint16_t> data;
  Tiles tiles;

  InTiles(const std::vector<float>& x, std::int64_t columns) : tiles(kNoTiles) {
    const auto rows = static_cast<std::int64_t>(x.size()) / columns;
    tiles = {nullptr, round_up(rows + kRow, kTileRows) + kTileRows, kColumn + round_up(columns, kTileColumns),
             1};
    data.resize(static_cast<std::size_t>(tiles.rows * tiles.columns));
    tiles.data = data.data();
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < columns; ++i)
        tiles.data[tiles.offset(kRow + row, kColumn + i)] =
            float_to_bf16(x[static_cast<std::size_t>(row * columns + i)]);
  }
};

// Keys and values of `length` positions in blocks, as the cache lays them out. Positions beyond are zero, of
// int8 whatever was there: all bits set, which as a scale are NaN.
struct Keys {
  KvShape shape;
  KvFormat format;
  std::int64_t v_offset;
  std::vector<std::vector<float>> blocks;  // as bytes; floats for their alignment
  std::vector<void*> pointers;

  Keys(const KernelTable& table, std::int64_t length, std::int64_t dim, KvFormat kv_format,
       bool has_tiles = false)
      : shape{dim},
        format(kv_format),
        v_offset((kv_format == KvFormat::bfloat16 ? shape.dim_padded() : dim) * kKvBlockPositions) {
    const bool is_int8 = format == KvFormat::int8, is_bfloat16 = format == KvFormat::bfloat16;
    if (is_int8) v_offset += kInt8ScaleBytes;
    const std::int64_t elements =
        v_offset + shape.padded() * kKvBlockPositions + (is_int8 ? kInt8ScaleBytes : 0);
    // What earlier use may have left in the values of a block must not matter: all bits set are NaN.
    for (std::int64_t b = 0; b <= (length - 1) / kKvBlockPositions; ++b) {
      blocks.emplace_back(static_cast<std::size_t>(is_int8 ? elements / 4 : elements));
      if (is_int8) std::memset(blocks.back().data(), 0xff, static_cast<std::size_t>(elements));
      if (is_bfloat16)
        std::memset(reinterpret_cast<std::uint16_t*>(blocks.back().data()) + v_offset, 0xff,
                    static_cast<std::size_t>(shape.padded() * kKvBlockPositions) * 2);
    }
    for (auto& block : blocks) pointers.push_back(block.data());
    const auto k = random_floats(static_cast<std::size_t>(length * dim), 10),
               v = random_floats(static_cast<std::size_t>(length * dim), 11);
    if (format != KvFormat::float32) {  // in two calls, so that a pair of positions comes in parts
      const std::int64_t first = std::min<std::int64_t>(length, 7);
      std::vector<float> both;
      for (std::int64_t p = 0; has_tiles && p < length; ++p)
        for (const auto* from : {&k, &v})
          both.insert(both.end(), from->begin() + p * dim, from->begin() + (p + 1) * dim);
      const InTiles held(both, 2 * dim);
      for (const auto& [begin, count] : {std::pair{std::int64_t{0}, first}, {first, length - first}})
        (is_int8 ? table.store_int8
                 : table.store_bfloat16)({.k = has_tiles ? nullptr : k.data() + begin * dim,
                                          .v = has_tiles ? nullptr : v.data() + begin * dim,
                                          .stride = dim,
                                          .tiles = has_tiles ? held.tiles : kNoTiles,
                                          .first_tile_row = InTiles::kRow + begin,
                                          .k_column = InTiles::kColumn,
                                          .v_column = InTiles::kColumn + dim,
                                          .rows = count,
                                          .first_position = begin,
                                          .shape = shape,
                                          .blocks = pointers.data(),
                                          .k_offset = 0,
                                          .v_offset = v_offset});
      return;
    }
    for (std::int64_t p = 0; p < length; ++p)
      for (std::int64_t i = 0; i < dim; ++i) {
        auto& block = blocks[static_cast<std::size_t>(p / kKvBlockPositions)];
        const std::int64_t at = p % kKvBlockPositions;
        block[static_cast<std::size_t>(i * kKvBlockPositions + at)] =
            k[static_cast<std::size_t>(p * dim + i)];
        block[static_cast<std::size_t>(v_offset + at * shape.padded() + i)] =
            v[static_cast<std::size_t>(p * dim + i)];
      }
  }
};

struct AttendCase {
  std::int64_t rows, past, dim, window, first_key;
  KvFormat format = KvFormat::float32;
  bool has_tiles = false;
  auto operator<=>(const AttendCase&) const = default;
};

// The rows from `skip` on, at most `at_once` in a call.
std::vector<float> run_attend(const KernelTable& table, const AttendCase& c, std::int64_t skip = 0,
                              std::int64_t at_once = kAttendRows) {
  const Keys keys(table, c.past + c.rows, c.dim, c.format);
  const std::int64_t stride = c.has_tiles ? c.dim : c.dim + 1;
  const auto q = random_floats(static_cast<std::size_t>(c.rows * stride), 20, 4);
  const InTiles held(c.has_tiles ? q : std::vector<float>{}, stride);
  std::vector<float> out(static_cast<std::size_t>(c.rows * c.dim), 9.0F);
  const auto attend = c.format == KvFormat::int8       ? table.attend_int8
                      : c.format == KvFormat::bfloat16 ? table.attend_bfloat16
                                                       : table.attend;
  for (std::int64_t row = skip; row < c.rows; row += at_once)
    attend({.q = c.has_tiles ? nullptr : q.data() + row * stride,
            .q_stride = stride,
            .q_tiles = c.has_tiles ? held.tiles : kNoTiles,
            .q_first_column = InTiles::kColumn,
            .rows = std::min(at_once, c.rows - row),
            .first_position = c.past + row,
            .first_key = c.first_key,
            .window = c.window,
            .shape = keys.shape,
            .scale = 0.3F,
            .blocks = keys.pointers.data(),
            .k_offset = 0,
            .v_offset = keys.v_offset,
            .out = out.data() + row * c.dim,
            .out_stride = c.dim,
            .out_tiles = kNoTiles,
            .first_tile_row = InTiles::kRow + row,
            .first_tile_column = 0});
  return out;
}

// Of the scalar tier, computed once for all others.
const std::vector<float>& reference_attend(const AttendCase& c) {
  static std::map<AttendCase, std::vector<float>> known;
  const auto [at, is_new] = known.try_emplace(c);
  if (is_new) at->second = run_attend(select_kernels(Isa::scalar), c);
  return at->second;
}

// To the bit: what was never written is NaN.
bool are_same(const Keys& a, const Keys& b) {
  if (a.blocks.size() != b.blocks.size()) return false;
  for (std::size_t i = 0; i < a.blocks.size(); ++i)
    if (std::memcmp(a.blocks[i].data(), b.blocks[i].data(), a.blocks[i].size() * sizeof(float)) != 0)
      return false;
  return true;
}

TEST_P(AttentionKernelTest, StoredKeysAndValuesEqualReference) {
  for (const KvFormat format : {KvFormat::bfloat16, KvFormat::int8})
    for (const std::int64_t dim : {1, 7, 8, 9, 16, 17, 24, 64, 80, 129})
      for (const std::int64_t length : {1, 2, 7, 8, 64, 65, 131})
        EXPECT_TRUE(are_same(Keys(table_, length, dim, format), Keys(reference_, length, dim, format)))
            << name_of(format) << " " << dim << " " << length;
}

// One position of an int8 cache: what the key's and the value's codes are worth.
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
      const auto want = Keys(reference_, length, dim, kFormat).blocks;
      EXPECT_EQ(Keys(table_, length, dim, kFormat, true).blocks, want) << dim << " " << length;
      EXPECT_EQ(Keys(reference_, length, dim, kFormat, true).blocks, want) << dim << " " << length;
    }
}

TEST_P(AttentionKernelTest, AttentionOfTilesEqualsReference) {
  if (!table_.uses_tiles) GTEST_SKIP() << "no tiles in this tier";
  for (const std::int64_t dim : {32, 64, 96})
    for (const std::int64_t rows : {1, 5, 33})
      for (const std::int64_t past : {0, 60, 130, 500, 1023})
        for (const std::int64_t window : {0, 5, 70, 600}) {
          const AttendCase c{rows, past, dim, window, past == 130 ? 3 : 0, KvFormat::bfloat16, true};
          EXPECT_LE(test::largest_difference(run_attend(table_, c), reference_attend(c)), 2e-2)
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
              if (first_key > past) continue;
              const AttendCase c{rows, past, dim, window, first_key, format};
              // On tiles queries and weights are rounded to bfloat16 as well: 2^-9 of values up to 1, scores
              // up to 0.3 * 4 * sqrt(dim).
              const double tolerance = format == KvFormat::bfloat16 && table_.uses_tiles ? 3e-2 : 5e-6;
              EXPECT_LE(test::largest_difference(run_attend(table_, c), reference_attend(c)), tolerance)
                  << dim << " " << rows << " " << past << " " << window << " " << first_key << " "
                  << name_of(format);
            }
}

// Rows attended together or one by one give the same bits.
TEST_P(AttentionKernelTest, AttentionDoesNotDependOnItsNeighbours) {
  for (const auto& [format, past] : {std::pair{KvFormat::float32, 60},
                                     {KvFormat::bfloat16, 60},
                                     {KvFormat::bfloat16, 500},
                                     {KvFormat::int8, 60},
                                     {KvFormat::int8, 500}}) {
    for (const std::int64_t dim : {15, 32, 96}) {
      const AttendCase c{37, past, dim, 0, 0, format};
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
