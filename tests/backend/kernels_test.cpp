// Every usable instruction set against the scalar reference: odd sizes, unaligned rows, extreme values.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "assay/backend/cpu/select.h"
#include "assay/base/aligned.h"
#include "assay/base/random.h"
#include "assay/tensor/half.h"
#include "support/fixtures.h"
#include "support/kernel_tiers.h"

namespace assay::cpu {
namespace {

std::vector<float> random_floats(std::size_t n, std::uint64_t seed, double scale = 1) {
  Random random(seed);
  std::vector<float> out(n);
  for (float& x : out) x = static_cast<float>((random.uniform() * 2 - 1) * scale);
  return out;
}

class KernelTest : public test::TestOfKernelTiers {};

INSTANTIATE_TEST_SUITE_P(Isas, KernelTest, test::kKernelTiers,
                         [](const auto& info) { return info.param.name(); });

struct LinearCase {
  std::int64_t rows, k, n;
  Activation activation;
  bool has_bias, adds, is_bfloat16;
  int planes = 0;  // 0: float32 activations; 1 to 3: tiles
  float unit = 1;  // of the inputs
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
  const auto bias = random_floats(static_cast<std::size_t>(c.n), 3);
  auto y = random_floats(static_cast<std::size_t>(rows * y_stride), 4);
  (c.planes > 0 ? table.linear_tiles
                : table.linear)({.x = c.planes > 0 ? nullptr : x.data() + 1,
                                 .x_stride = x_stride,
                                 .x_tiles = c.planes > 0 ? tiles : kNoTiles,
                                 .rows = rows,
                                 .k = c.k,
                                 .w = c.is_bfloat16 ? static_cast<const void*>(w16.data()) : w.data(),
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

// One input times one output of weight 1.
float run_activation(const KernelTable& table, Activation activation, float input, bool is_rounded = false) {
  const std::vector<float> w(kPanel, 1.0F);
  float y[kPanel] = {};
  table.linear({.x = &input,
                .x_stride = 1,
                .x_tiles = kNoTiles,
                .rows = 1,
                .k = 1,
                .w = w.data(),
                .packing = Packing::float32,
                .planes = 1,
                .bias = nullptr,
                .activation = activation,
                .adds = false,
                .is_rounded = is_rounded,
                .y = y,
                .y_stride = kPanel,
                .y_tiles = kNoTiles,
                .n = kPanel,
                .first_panel = 0,
                .panels = 1});
  return y[0];
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

// Products of bfloat16 are exact in float32, so the same inputs give the sums of the reference to rounding;
// parts that are left out cost 2^-16 (three products) or less.
TEST_P(KernelTest, LinearOnTilesEqualsReference) {
  for (const int planes : {1, 2, 3})
    for (const std::int64_t rows : {1, 2, 15, 16, 17, 31, 32, 33, 65})
      for (const std::int64_t k : {1, 31, 32, 36, 129})
        for (const std::int64_t n : {1, 16, 17, 50, 64, 101}) {
          const LinearCase c{rows, k, n, Activation::none, n % 2 == 1, rows % 2 == 1, true, planes};
          const auto got = run_linear(table_, c, rows), want = run_linear(reference_, c, rows);
          EXPECT_LE(test::largest_difference(got, want), 1e-6 * std::sqrt(static_cast<double>(k)) * 4)
              << rows << "x" << k << "x" << n << " planes " << planes;
        }
}

// Inputs that go through in chunks, between which sums are kept: near ones with each pair of panels, others
// with many at a time.
TEST_P(KernelTest, LinearOfLongInputsOnTilesEqualsReference) {
  for (const auto& [rows, k, n] : {std::tuple{65, 500, 101}, {96, 777, 580}, {544, 3000, 50}, {512, 768, 48}})
    for (const Activation activation : {Activation::none, Activation::gelu_tanh}) {
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
  for (const Activation a : {Activation::relu, Activation::silu, Activation::tanh, Activation::gelu_tanh,
                             Activation::gelu_erf, Activation::gelu_quick})
    for (const float input : {-1e30F, -100.0F, -20.0F, -3.0F, -1.0F, -1e-3F, 0.0F, 1e-6F, 0.1F, 0.7F, 2.0F,
                              5.0F, 30.0F, 100.0F, 1e30F}) {
      const float want = run_activation(reference_, a, input), got = run_activation(table_, a, input);
      EXPECT_NEAR(got, want, 4e-7 * (1 + std::fabs(static_cast<double>(want))))
          << static_cast<int>(a) << " of " << input;
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
  for (const Activation a : {Activation::none, Activation::gelu_tanh, Activation::gelu_erf, Activation::silu})
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
      for (std::int64_t p = 0; p < length; ++p)
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
};

// The rows from `skip` on, at most `at_once` in a call.
std::vector<float> run_attend(const KernelTable& table, const AttendCase& c, std::int64_t skip = 0,
                              std::int64_t at_once = kAttendRows) {
  const Keys keys(table, c.past + c.rows, c.dim, c.format);
  const std::int64_t stride = c.has_tiles ? c.dim : c.dim + 1;
  const auto q = random_floats(static_cast<std::size_t>(c.rows * stride), 20, 4);
  const InTiles held(q, stride);
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

// To the bit: what was never written is NaN.
bool are_same(const Keys& a, const Keys& b) {
  if (a.blocks.size() != b.blocks.size()) return false;
  for (std::size_t i = 0; i < a.blocks.size(); ++i)
    if (std::memcmp(a.blocks[i].data(), b.blocks[i].data(), a.blocks[i].size() * sizeof(float)) != 0)
      return false;
  return true;
}

TEST_P(KernelTest, StoredKeysAndValuesEqualReference) {
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

TEST_P(KernelTest, Int8KeysAndValuesLieWithinHalfAStep) {
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

TEST_P(KernelTest, KeysAndValuesOfTilesAreThoseOfFloats) {
  if (!table_.uses_tiles) GTEST_SKIP() << "no tiles in this tier";
  for (const std::int64_t dim : {32, 64, 96})
    for (const std::int64_t length : {1, 2, 7, 8, 9, 23, 24, 64, 65, 131}) {
      constexpr KvFormat kFormat = KvFormat::bfloat16;
      const auto want = Keys(reference_, length, dim, kFormat).blocks;
      EXPECT_EQ(Keys(table_, length, dim, kFormat, true).blocks, want) << dim << " " << length;
      EXPECT_EQ(Keys(reference_, length, dim, kFormat, true).blocks, want) << dim << " " << length;
    }
}

TEST_P(KernelTest, AttentionOfTilesEqualsReference) {
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

TEST_P(KernelTest, AttentionEqualsReference) {
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
              EXPECT_LE(test::largest_difference(run_attend(table_, c), run_attend(reference_, c)), tolerance)
                  << dim << " " << rows << " " << past << " " << window << " " << first_key << " "
                  << name_of(format);
            }
}

// Rows attended together or one by one give the same bits.
TEST_P(KernelTest, AttentionDoesNotDependOnItsNeighbours) {
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

TEST_P(KernelTest, RowsThatSeeNoKeyAreZero) {
  for (const KvFormat format : {KvFormat::float32, KvFormat::bfloat16, KvFormat::int8}) {
    const auto out = run_attend(table_, {4, 0, 12, 0, 2, format});
    for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(out[i], 0.0F);
    EXPECT_NE(out[24], 0.0F);
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
