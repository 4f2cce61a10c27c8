// Kernels of quantized weights on every instruction set: against the scalar ones, to the bit where sums are
// exact, and against bitsandbytes (tools/make_quant_fixtures.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <tuple>

#include "assay/backend/cpu/kernels/select.h"
#include "assay/backend/cpu/lower/pack.h"
#include "assay/base/aligned.h"
#include "assay/quant/four_bit.h"
#include "assay/quant/int4.h"
#include "assay/quant/int8.h"
#include "assay/tensor/half.h"
#include "support/fixtures.h"
#include "support/guarded.h"
#include "support/kernel_inputs.h"
#include "support/kernel_tiers.h"
#include "support/random_floats.h"

namespace assay::cpu {
namespace {

using test::Guarded;
using test::Int8Rows;
using test::random_floats;
using test::TiledRows;

// Weights [n, k] as int8 panels.
struct Int8Weights {
  std::int64_t panels, padded;
  std::vector<std::int8_t> codes;
  std::vector<float> absmax;
  std::vector<std::int32_t> sums;

  Int8Weights(const std::vector<float>& w, std::int64_t n, std::int64_t k)
      : panels((n + kPanel - 1) / kPanel),
        padded(round_up(k, kInt8Columns)),
        codes(static_cast<std::size_t>(panels * kPanel * padded)),
        absmax(static_cast<std::size_t>(panels * kPanel)),
        sums(absmax.size()) {
    std::vector<std::int8_t> row(static_cast<std::size_t>(k));
    for (std::int64_t output = 0; output < n; ++output) {
      const auto at = static_cast<std::size_t>(output);
      absmax[at] = quantize_int8({w.data() + output * k, row.size()}, row.data());
      for (std::int64_t i = 0; i < k; ++i) {
        const std::int8_t code = row[static_cast<std::size_t>(i)];
        codes[static_cast<std::size_t>(output / kPanel * padded * kPanel + i / 4 * 4 * kPanel +
                                       output % kPanel * 4 + i % 4)] = code;
        sums[at] += code;
      }
    }
  }
};

// Codes of activations: with a negative threshold of each row's range, else of its magnitudes.
Int8Rows quantized(const KernelTable& table, const std::vector<float>& x, std::int64_t rows, std::int64_t k,
                   float threshold) {
  return {table, x, rows, k,
          Int8Rows::Options{.threshold = std::max(threshold, 0.0F),
                            .marks_outliers = threshold > 0,
                            .has_ranges = threshold < 0}};
}

std::vector<float> run_int8(const KernelTable& table, const std::vector<float>& x, std::int64_t rows,
                            std::int64_t k, std::int64_t n, const Int8Weights& w,
                            const std::vector<float>& bias, float threshold) {
  const Int8Rows in = quantized(table, x, rows, k, threshold);
  const Guarded codes(w.codes);
  std::vector<float> y(static_cast<std::size_t>(rows * n), 7.0F);
  table.linear_int8({.to = {.x = x.data(),
                            .x_stride = k,
                            .x_tiles = in.tiles,
                            .rows = rows,
                            .k = k,
                            .w = codes.data(),
                            .packing = Packing::int8,
                            .planes = 1,
                            .bias = bias.data(),
                            .activation = Activation::none,
                            .adds = false,
                            .y = y.data(),
                            .y_stride = n,
                            .y_tiles = kNoTiles,
                            .n = n,
                            .first_panel = 0,
                            .panels = w.panels},
                     .x_absmax = in.absmax.data(),
                     .w_absmax = w.absmax.data(),
                     .w_sums = w.sums.data(),
                     .x_zero = in.zero_points.empty() ? nullptr : in.zero_points.data(),
                     .outliers = in.outliers.data(),
                     .outlier_count = static_cast<std::int64_t>(in.outliers.size())});
  return y;
}

class QuantizedKernelTest : public test::TestOfKernelTiers {};

TEST_P(QuantizedKernelTest, CodesOfInputsEqualReference) {
  for (const std::int64_t k : {1, 7, 16, 63, 64, 65, 200})
    for (const float threshold : {-1.0F, 0.0F, 6.0F, std::numeric_limits<float>::infinity()}) {
      const std::int64_t rows = 5;
      auto x = random_floats(static_cast<std::size_t>(rows * k), 3, 9);
      for (std::int64_t i = 0; i < k; ++i) x[static_cast<std::size_t>(2 * k + i)] = 0;  // a row of zeros
      const Int8Rows got = quantized(table_, x, rows, k, threshold),
                     want = quantized(reference_, x, rows, k, threshold);
      EXPECT_EQ(got.absmax, want.absmax) << k;
      EXPECT_EQ(got.zero_points, want.zero_points) << k;
      EXPECT_EQ(got.data, want.data) << k << " " << threshold;
    }
}

// Codes that are fixed beforehand: beyond either end too, with every zero point, with factors or without.
TEST_P(QuantizedKernelTest, FixedCodesOfInputsEqualReference) {
  for (const std::int64_t k : {1, 7, 16, 63, 64, 65, 200})
    for (const std::int32_t zero_point : {-128, -121, 0, 17, 127})
      for (const bool has_factors : {false, true}) {
        const std::int64_t rows = 5;
        auto x = random_floats(static_cast<std::size_t>(rows * k), 3, 9);
        x[0] = 1e30F;  // beyond any whole number
        const auto factors = random_floats(static_cast<std::size_t>(k), 4, 3);
        const auto run = [&](const KernelTable& table) {
          const Int8Rows codes(table, x, rows, k,
                               {.fixed_scale = 0.05F,
                                .fixed_zero_point = zero_point,
                                .factors = has_factors ? &factors : nullptr});
          EXPECT_EQ(codes.absmax, std::vector<float>(codes.absmax.size(), 127.0F * 0.05F));
          return codes.data;
        };
        ASSERT_EQ(run(table_), run(reference_)) << k << " " << zero_point;
      }
}

// Inputs that come as bfloat16 in tiles, by rows that begin anywhere.
TEST_P(QuantizedKernelTest, CodesOfTilesAreThoseOfTheirFloats) {
  if (!table_.uses_tiles) GTEST_SKIP() << "the table has no tiles";
  for (const std::int64_t k : {1, 31, 32, 64, 65, 200})
    for (const bool has_ranges : {false, true}) {
      constexpr std::int64_t kRows = 5, kFirst = 3, kAll = kFirst + kRows;
      auto x = random_floats(static_cast<std::size_t>(kAll * k), 5, 9);
      for (float& value : x) value = bf16_to_float(float_to_bf16(value));
      const auto run = [&](bool has_tiles) {
        const Int8Rows codes(table_, x, kRows, k,
                             {.has_ranges = has_ranges, .has_tiles = has_tiles, .first = kFirst});
        return std::tuple(codes.data, codes.absmax, codes.zero_points);
      };
      ASSERT_EQ(run(true), run(false)) << k << " " << has_ranges;
    }
}

// With the scale and zero point of all rows together, codes are those of ONNX Runtime's DynamicQuantizeLinear
// (tools/make_dynamic_int8_fixtures.py).
TEST_P(QuantizedKernelTest, CodesOfATensorAreThoseOfOnnxRuntime) {
  const SafetensorsFile file(test::fixture("dynamic_int8.safetensors"));
  const std::int64_t rows = 21, k = 75;
  for (const std::string name :
       {"normal", "outliers", "positive", "negative", "one_sided", "whole", "tiny", "zeros"}) {
    const auto x = test::read_floats(file, name + ".x"), code = test::read_floats(file, name + ".code");
    std::vector<std::uint8_t> want(x.size());
    file.read(*file.find(name + ".codes"), 0, rows * k, std::as_writable_bytes(std::span(want)));
    const std::int32_t zero_point = static_cast<std::int32_t>(code[1]) - 128;
    const Int8Rows got(table_, x, rows, k,
                       {.has_ranges = true, .fixed_scale = code[0], .fixed_zero_point = zero_point});
    for (std::int64_t row = 0; row < rows; ++row) {
      EXPECT_EQ(got.zero_points[static_cast<std::size_t>(row)], zero_point);
      const std::vector<std::int8_t> codes = got.codes_of(row, k);
      for (std::int64_t i = 0; i < k; ++i)
        ASSERT_EQ(codes[static_cast<std::size_t>(i)] + 128, want[static_cast<std::size_t>(row * k + i)])
            << name << " " << row << " " << i;
    }
  }
}

TEST_P(QuantizedKernelTest, Int8ProductsAreExact) {
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 9, 17, 33, 64, 70})
    for (const std::int64_t k : {1, 31, 64, 100, 200})
      for (const std::int64_t n : {1, 15, 16, 17, 64, 83}) {
        const auto x = random_floats(static_cast<std::size_t>(rows * k), 1, 9);
        const Int8Weights w(random_floats(static_cast<std::size_t>(n * k), 2, 1), n, k);
        const auto bias = random_floats(static_cast<std::size_t>(n), 3, 1);
        for (const float threshold : {-1.0F, 0.0F, 8.9F})
          ASSERT_LE(test::largest_difference(run_int8(table_, x, rows, k, n, w, bias, threshold),
                                             run_int8(reference_, x, rows, k, n, w, bias, threshold)),
                    threshold > 0 ? 1e-4 : 2e-5)
              << rows << "x" << k << "x" << n << " threshold " << threshold;
      }
}

// Inputs that go through in chunks.
TEST_P(QuantizedKernelTest, Int8ProductsOfLongInputsAreExact) {
  for (const auto& [rows, k, n] : {std::tuple{64, 1000, 83}, {96, 3000, 580}, {544, 3100, 50}}) {
    const auto x = random_floats(static_cast<std::size_t>(rows * k), 1, 1);
    const Int8Weights w(random_floats(static_cast<std::size_t>(n * k), 2, 1), n, k);
    const auto bias = random_floats(static_cast<std::size_t>(n), 3, 1);
    ASSERT_LE(test::largest_difference(run_int8(table_, x, rows, k, n, w, bias, -1),
                                       run_int8(reference_, x, rows, k, n, w, bias, -1)),
              2e-5)
        << rows << "x" << k << "x" << n;
  }
}

// Codes of -127 and 127, and of -128 where rows have ranges, throughout: what saturates where sums of pairs
// are kept in 16 bits, and what has no opposite in 8.
TEST_P(QuantizedKernelTest, Int8ProductsDoNotSaturate) {
  const std::int64_t k = 128, n = 32;
  for (const std::int64_t rows : {1, 2, 33})
    for (const float weight : {1.0F, -1.0F})
      for (const float threshold : {0.0F, -1.0F}) {
        const std::vector<float> x(static_cast<std::size_t>(rows * k), -1.0F),
            w(static_cast<std::size_t>(n * k), weight), bias(static_cast<std::size_t>(n));
        for (const float y : run_int8(table_, x, rows, k, n, Int8Weights(w, n, k), bias, threshold))
          ASSERT_NEAR(y, -weight * static_cast<float>(k), 1e-4) << rows << " " << weight << " " << threshold;
      }
}

TEST_P(QuantizedKernelTest, LlmInt8IsThatOfBitsandbytes) {
  const SafetensorsFile file(test::fixture("quant.safetensors"));
  const auto x = test::read_floats(file, "int8.x"), bias = test::read_floats(file, "int8.bias");
  const auto w = test::read_floats(file, "int8.w");
  const std::int64_t n = 24, k = 80, rows = 9;
  for (const auto& [name, threshold] :
       {std::pair{"int8.y0", std::numeric_limits<float>::infinity()}, std::pair{"int8.y6", 6.0F}}) {
    const auto want = test::read_floats(file, name);
    auto got = run_int8(table_, x, rows, k, n, Int8Weights(w, n, k), bias, threshold);
    // Its kernel for a CPU has 6.200124e-05 for 1 / 127^2.
    EXPECT_LE(test::largest_difference(got, want), 2e-5 * 20) << name;
  }
}

TEST_P(QuantizedKernelTest, ExpandedCodesEqualReference) {
  for (const auto* codebook : {&codebook_of(FourBit::nf4), &codebook_of(FourBit::fp4), &int4_codebook()})
    for (const std::int64_t k : {1, 31, 32, 60, 64, 130, 300})
      for (const std::int64_t group : {1, 2, 4, 32, 64, 128, 4096})
        for (const Packing packing : {Packing::float32, Packing::bfloat16}) {
          const std::int64_t padded = round_up(k, kTileColumns), panels = 3,
                             groups = (padded + group - 1) / group;
          Random random(5);
          std::vector<std::uint8_t> any(static_cast<std::size_t>(panels * padded / 2 * kPanel));
          for (auto& c : any) c = static_cast<std::uint8_t>(random.uniform() * 256);
          const Guarded codes(any);
          const Guarded scales(random_floats(static_cast<std::size_t>(panels * groups * kPanel), 6, 3));
          const auto run = [&](const KernelTable& table) {
            std::vector<float> out(static_cast<std::size_t>(panels * padded * kPanel + 1), -5.0F);
            table.expand({.codes = codes.data(),
                          .scales = {scales.data(), false},
                          .codebook = codebook->data(),
                          .k = k,
                          .k_padded = padded,
                          .group = group,
                          .panels = panels,
                          .packing = packing,
                          .out = out.data()});
            return out;
          };
          ASSERT_EQ(run(table_), run(reference_)) << k << " " << group;
        }
}

// Codes as they are give the bits of expanded ones.
TEST_P(QuantizedKernelTest, FourBitProductsEqualThoseOfExpandedCodes) {
  for (const std::int64_t k : {1, 31, 60, 64, 130})
    for (const std::int64_t n : {1, 16, 33, 70})
      for (const auto& [rows, group] : std::initializer_list<std::pair<std::int64_t, std::int64_t>>{
               {1, 1}, {1, 64}, {2, 2}, {2, 4}, {2, 8}, {2, 32}, {2, 128}, {1, 4096}}) {
        const std::int64_t padded = round_up(k, kTileColumns), panels = (n + kPanel - 1) / kPanel,
                           groups = (padded + group - 1) / group;
        Random random(5);
        std::vector<std::uint8_t> any(static_cast<std::size_t>(panels * padded / 2 * kPanel));
        for (auto& c : any) c = static_cast<std::uint8_t>(random.uniform() * 256);
        const Guarded codes(any);
        const Guarded scales(random_floats(static_cast<std::size_t>(panels * groups * kPanel), 6, 3));
        const auto x = random_floats(static_cast<std::size_t>(rows * k), 7, 1);
        const auto bias = random_floats(static_cast<std::size_t>(n), 8, 1);
        std::vector<float> expanded(static_cast<std::size_t>(panels * padded * kPanel));
        const ExpandArgs weights{.codes = codes.data(),
                                 .scales = {scales.data(), false},
                                 .codebook = codebook_of(FourBit::nf4).data(),
                                 .k = k,
                                 .k_padded = padded,
                                 .group = group,
                                 .panels = panels,
                                 .packing = Packing::float32,
                                 .out = expanded.data()};
        table_.expand(weights);
        const auto run = [&, rows = rows](const auto& multiply) {
          std::vector<float> y(static_cast<std::size_t>(rows * n), 3.0F);
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
                              .first_panel = 0,
                              .panels = panels});
          return y;
        };
        const auto got = run([&](const LinearArgs& to) { table_.linear_four_bit({to, weights}); });
        ASSERT_EQ(got, run(table_.linear)) << rows << "x" << k << "x" << n;
        const auto want = run([&](const LinearArgs& to) { reference_.linear_four_bit({to, weights}); });
        ASSERT_LE(test::largest_difference(got, want), 1e-4);
      }
}

// Few rows in int8, a scale for each group.
struct CodedInputs {
  std::int64_t padded, groups;
  std::vector<std::int8_t> codes;
  std::vector<float> scales;
  std::vector<std::int32_t> starts;
  CodedRows rows;

  CodedInputs(const KernelTable& table, QuantizeGroupsArgs args, std::int64_t spare_rows = 0)
      : padded(round_up(args.k, kTileColumns)),
        groups((padded + args.group - 1) / args.group),
        codes(static_cast<std::size_t>((args.rows + spare_rows) * round_up(args.k, kInt8Columns)), 99),
        scales(static_cast<std::size_t>((args.rows + spare_rows) * groups)),
        starts(scales.size()),
        rows{codes.data(), scales.data(), starts.data(), args.rows + spare_rows} {
    args.k_padded = padded;
    args.out = rows;
    table.quantize_groups(args);
  }
};

TEST_P(QuantizedKernelTest, CodesOfGroupsEqualReference) {
  for (const std::int64_t k : {1, 31, 64, 130, 200, 5000})
    for (const std::int64_t group : {16, 32, 64, 128, 256, 4096}) {
      const std::int64_t rows = 2;
      auto x = random_floats(static_cast<std::size_t>(rows * k), 3, 9);
      for (std::int64_t i = 0; i < std::min<std::int64_t>(k, group); ++i) x[static_cast<std::size_t>(i)] = 0;
      const TiledRows held(x, k);
      QuantizeGroupsArgs args{};
      args.rows = rows;
      args.k = k;
      args.group = group;
      args.unit = 0.75F;
      for (const bool has_tiles : {false, true}) {
        args.x = has_tiles ? nullptr : x.data();
        args.x_stride = k;
        args.x_tiles = has_tiles ? held.tiles : kNoTiles;
        const CodedInputs got(table_, args), want(reference_, args);
        ASSERT_EQ(got.codes, want.codes) << k << " " << group << " " << has_tiles;
        ASSERT_EQ(got.scales, want.scales) << k << " " << group;
        ASSERT_EQ(got.scales[0], 0.0F);
      }
    }
}

constexpr std::pair<std::int64_t, std::int64_t> kRowsAndGroups[] = {
    {1, 16},  {1, 64},   {2, 32},   {2, 128}, {3, 64},   {5, 32},   {14, 64},  {15, 128},
    {37, 64}, {101, 32}, {271, 64}, {1, 256}, {14, 256}, {37, 256}, {101, 256}};

// Sums of bytes are exact, and groups are added in one order: every instruction set gives the same bits.
TEST_P(QuantizedKernelTest, ProductsOfCodedInputsEqualReference) {
  for (const std::array<float, 16>* codebook :
       {&codebook_of(FourBit::nf4), &codebook_of(FourBit::fp4), &int4_codebook()})
    for (const std::int64_t k : {1, 31, 64, 130, 300, 700})
      for (const std::int64_t n : {1, 16, 33, 70, 150})
        for (const auto& [rows, group] : kRowsAndGroups) {
          if (rows > 5 && k < 130 && n < 70) continue;
          if (k == 700 ? (rows < 15 && group < 256) || n != 70 : rows > 100) continue;
          // Inputs of one magnitude have the codes -127 and 127: what saturates where pairs are kept in 16
          // bits.
          auto x = random_floats(static_cast<std::size_t>(rows * k), 7, 1);
          if (n == 33)
            for (float& value : x) value = value < 0 ? -1.0F : 1.0F;
          QuantizeGroupsArgs quantize{};
          quantize.x = x.data();
          quantize.x_stride = k;
          quantize.rows = rows;
          quantize.k = k;
          quantize.group = group;
          quantize.unit = byte_codebook_of(*codebook).unit;
          const CodedInputs in(reference_, quantize, 3), own(table_, quantize, 3);
          AlignedBuffer scratch(static_cast<std::size_t>(coded_scratch_bytes(rows)), "scratch");
          std::memset(scratch.data(), 0xff, static_cast<std::size_t>(coded_scratch_bytes(rows)));
          const std::int64_t panels = (n + kPanel - 1) / kPanel;
          Random random(5);
          std::vector<std::uint8_t> any(static_cast<std::size_t>(panels * in.padded / 2 * kPanel));
          for (auto& c : any) c = static_cast<std::uint8_t>(random.uniform() * 256);
          const Guarded codes(any);
          const auto of_groups = random_floats(static_cast<std::size_t>(panels * in.groups * kPanel), 6, 3);
          const Guarded scales(of_groups);
          const ByteCodebook bytes = byte_codebook_of(*codebook);
          const auto run = [&, rows = rows, group = group](const KernelTable& table,
                                                           const CodedRows& x_rows) {
            std::vector<float> y(static_cast<std::size_t>(rows * n), 3.0F);
            table.linear_coded_inputs({.to = {.x = nullptr,
                                              .x_stride = 0,
                                              .x_tiles = kNoTiles,
                                              .rows = rows,
                                              .k = k,
                                              .w = nullptr,
                                              .packing = Packing::four_bit,
                                              .planes = 1,
                                              .bias = nullptr,
                                              .activation = Activation::none,
                                              .adds = false,
                                              .y = y.data(),
                                              .y_stride = n,
                                              .y_tiles = kNoTiles,
                                              .n = n,
                                              .first_panel = 0,
                                              .panels = panels},
                                       .weights = {.codes = codes.data(),
                                                   .scales = {scales.data(), false},
                                                   .codebook = nullptr,
                                                   .k = k,
                                                   .k_padded = in.padded,
                                                   .group = group,
                                                   .panels = panels,
                                                   .packing = Packing::float32,
                                                   .out = nullptr},
                                       .codebook = bytes.values.data(),
                                       .x = x_rows,
                                       .scratch = scratch.data()});
            return y;
          };
          const auto got = run(table_, own.rows);
          ASSERT_EQ(got, run(reference_, in.rows)) << rows << "x" << k << "x" << n << " group " << group;
          // And they are near the products of what the codes stand for, which takes the time of many cases.
          if (rows * n * k > 50'000) continue;
          std::vector<float> weights(static_cast<std::size_t>(panels * in.padded * kPanel));
          reference_.expand({.codes = codes.data(),
                             .scales = {scales.data(), false},
                             .codebook = codebook->data(),
                             .k = k,
                             .k_padded = in.padded,
                             .group = group,
                             .panels = panels,
                             .packing = Packing::float32,
                             .out = weights.data()});
          for (std::int64_t row = 0; row < rows; ++row)
            for (std::int64_t output = 0; output < n; ++output) {
              double sum = 0, magnitude = 0;
              for (std::int64_t i = 0; i < k; ++i) {
                const double weight = static_cast<double>(
                    weights[static_cast<std::size_t>((output / kPanel * k + i) * kPanel + output % kPanel)]);
                sum += weight * static_cast<double>(x[static_cast<std::size_t>(row * k + i)]);
                magnitude += std::fabs(static_cast<double>(of_groups[static_cast<std::size_t>(
                    (output / kPanel * in.groups + i / group) * kPanel + output % kPanel)]));
              }
              const double highest =
                  static_cast<double>(*std::max_element(codebook->begin(), codebook->end()));
              ASSERT_NEAR(static_cast<double>(got[static_cast<std::size_t>(row * n + output)]), sum,
                          0.009 * highest * magnitude);
            }
        }
}

TEST(ByteCodebook, IsWithinHalfAUnit) {
  for (const std::array<float, 16>* codebook :
       {&codebook_of(FourBit::nf4), &codebook_of(FourBit::fp4), &int4_codebook()}) {
    const ByteCodebook bytes = byte_codebook_of(*codebook);
    for (std::size_t i = 0; i < codebook->size(); ++i)
      EXPECT_LE(std::fabs(static_cast<float>(bytes.values[i]) * bytes.unit - (*codebook)[i]),
                0.5001F * bytes.unit);
    EXPECT_GE(std::abs(*std::max_element(bytes.values.begin(), bytes.values.end())), 84);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, QuantizedKernelTest, test::kKernelTiers,
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace assay::cpu
