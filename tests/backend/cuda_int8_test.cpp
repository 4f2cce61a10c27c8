// Kernels of a GPU that make codes of inputs and multiply them, run by the emulation, against the CPU's
// scalar kernels and plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "assay/backend/cpu/kernels/kernels.h"
#include "assay/base/error.h"
#include "assay/quant/four_bit.h"
#include "assay/tensor/half.h"
#include "support/cuda_kernels.h"

namespace assay::cuda {
namespace {

using namespace testing_support;

struct Codes {
  std::vector<std::int8_t> codes;
  Floats absmax;
  std::vector<std::int32_t> zero_points;
};

struct QuantizeCase {
  QuantizeArgs::Kind kind;
  float threshold = 0;
  bool has_factors = false;
  bool has_others = false;  // NaN and infinity
};

class CudaInt8Kernels : public CudaKernels {
 protected:
  static constexpr std::int64_t kRows = 11, kInputs = 301, kStride = 303, kCodesStride = 320;

  void quantize(const QuantizeCase& c) {
    x_ = random_.floats(kRows * kStride, -3, 4);
    for (std::int64_t i = 0; i < kInputs; ++i) x_[at_of(2 * kStride + i)] = 0;
    for (std::int64_t i = 0; i < kInputs; ++i)
      x_[at_of(3 * kStride + i)] = 1e-37F * static_cast<float>(i % 3);
    if (c.threshold > 0) {
      x_[at_of(4 * kStride + 17)] = 7;
      x_[at_of(5 * kStride + 300)] = -6;
      x_[at_of(5 * kStride + 299)] = 5.9999F;  // 6 in float16
      x_[at_of(6 * kStride)] = 1e30F;          // infinite in float16
    }
    if (c.has_others) {
      x_[at_of(7 * kStride + 5)] = kNaN;
      x_[at_of(8 * kStride + 6)] = kInfinity;
      x_[at_of(9 * kStride + 7)] = -kInfinity;
    }
    factors_ = random_.floats(kInputs, 0.5F, 2);
    args_ = {.kind = c.kind,
             .x = put(x_),
             .x_stride = kStride,
             .rows = kRows,
             .inputs = kInputs,
             .factors = c.has_factors ? put(factors_) : DevicePointer<float>(),
             .threshold = c.threshold,
             .fixed_scale = 0.02F,
             .fixed_zero_point = -20,
             .codes = room<std::int8_t>(kRows * kCodesStride),
             .codes_stride = kCodesStride,
             .absmax = room<float>(kRows),
             .zero_points = room<std::int32_t>(kRows),
             .ranges = room<float>(2 * kRows),
             .marks = room<std::uint8_t>(kInputs),
             .outliers = room<std::int32_t>(kInputs),
             .outlier_count = put(std::vector<std::int32_t>{0}),
             .seen = put(std::vector<std::int64_t>{0, 0})};
    run(*runtime_, args_);
    got_ = {get(args_.codes, kRows * kCodesStride), get(args_.absmax, kRows), get(args_.zero_points, kRows)};
  }

  // By the CPU's scalar kernel; a fixed code, or the rows' own.
  Codes by_cpu(const QuantizeCase& c, float fixed_scale, std::int32_t fixed_zero_point,
               const std::vector<std::uint8_t>& marks) {
    constexpr std::int64_t kStrips = (kInputs + cpu::kInt8Columns - 1) / cpu::kInt8Columns;
    std::vector<std::uint16_t> tiles(at_of(kStrips * kRows * cpu::kInt8Columns / 2));
    Codes wanted{std::vector<std::int8_t>(at_of(kRows * kCodesStride)), Floats(at_of(kRows)),
                 std::vector<std::int32_t>(at_of(kRows))};
    cpu::KernelTable table;
    cpu::scalar::fill(table);
    table.quantize(
        {.x = x_.data(),
         .x_stride = kStride,
         .codes = {.data = tiles.data(), .rows = kRows, .columns = kStrips * 32, .planes = 1},
         .first_row = 0,
         .rows = kRows,
         .k = kInputs,
         .absmax = wanted.absmax.data(),
         .threshold = c.threshold,
         .is_outlier = marks.empty() ? nullptr : marks.data(),
         .factors = c.has_factors ? factors_.data() : nullptr,
         .zero_points = c.kind == QuantizeArgs::Kind::symmetric ? nullptr : wanted.zero_points.data(),
         .fixed_scale = fixed_scale,
         .fixed_zero_point = fixed_zero_point});
    const auto* codes = reinterpret_cast<const std::int8_t*>(tiles.data());
    for (std::int64_t row = 0; row < kRows; ++row)
      for (std::int64_t i = 0; i < kCodesStride; ++i)
        wanted.codes[at_of(row * kCodesStride + i)] =
            codes[(i / cpu::kInt8Columns * kRows + row) * cpu::kInt8Columns + i % cpu::kInt8Columns];
    return wanted;
  }

  void expect_codes(const Codes& wanted, bool has_zero_points) {
    for (std::int64_t row = 0; row < kRows; ++row) {
      EXPECT_TRUE(is_same(got_.absmax[at_of(row)], wanted.absmax[at_of(row)]))
          << "row " << row << ": " << got_.absmax[at_of(row)] << " for " << wanted.absmax[at_of(row)];
      if (has_zero_points) {
        EXPECT_EQ(got_.zero_points[at_of(row)], wanted.zero_points[at_of(row)]) << "row " << row;
      }
      if (std::isnan(wanted.absmax[at_of(row)]) || (row == 3 && !has_zero_points)) continue;
      for (std::int64_t i = 0; i < kInputs; ++i)
        EXPECT_EQ(int{got_.codes[at_of(row * kCodesStride + i)]},
                  int{wanted.codes[at_of(row * kCodesStride + i)]})
            << row << ", " << i;
    }
    for (std::int64_t row = 0; row < kRows; ++row)
      for (std::int64_t i = kInputs; i < kCodesStride; ++i)
        EXPECT_EQ(got_.codes[at_of(row * kCodesStride + i)], 0);
  }

  Floats x_, factors_;
  QuantizeArgs args_;
  Codes got_;
};

TEST_F(CudaInt8Kernels, QuantizesRowsAsTheCpuDoes) {
  using Kind = QuantizeArgs::Kind;
  for (const bool has_factors : {false, true})
    for (const bool has_others : {false, true})
      for (const Kind kind : {Kind::symmetric, Kind::row_ranges, Kind::fixed}) {
        SCOPED_TRACE(static_cast<int>(kind));
        const QuantizeCase c{.kind = kind, .has_factors = has_factors, .has_others = has_others};
        quantize(c);
        expect_codes(by_cpu(c, kind == Kind::fixed ? 0.02F : 0, -20, {}), kind != Kind::symmetric);
      }
}

TEST_F(CudaInt8Kernels, QuantizesAllRowsByOneRange) {
  for (const bool has_others : {false, true}) {
    const QuantizeCase c{.kind = QuantizeArgs::Kind::tensor_range, .has_others = has_others};
    quantize(c);
    float low = 0, high = 0;
    for (std::int64_t row = 0; row < kRows; ++row)
      for (std::int64_t i = 0; i < kInputs; ++i) {
        const float x = x_[at_of(row * kStride + i)];
        if (!std::isfinite(x)) continue;
        low = std::min(low, x);
        high = std::max(high, x);
      }
    const float scale = (high - low) / 255.0F;
    expect_codes(by_cpu(c, scale, static_cast<std::int32_t>(std::nearbyint(-low / scale)) - 128, {}), true);
  }
}

TEST_F(CudaInt8Kernels, DecomposesOutliers) {
  QuantizeCase c{.kind = QuantizeArgs::Kind::symmetric, .threshold = 6, .has_others = false};
  quantize(c);
  std::vector<std::uint8_t> marks(at_of(kInputs));
  for (const int k : {0, 17, 299, 300}) marks[at_of(k)] = 1;
  EXPECT_EQ(get(args_.marks, kInputs), marks);
  EXPECT_EQ(get(args_.outlier_count, 1)[0], 4);
  EXPECT_EQ(get(args_.outliers, 4), (std::vector<std::int32_t>{0, 17, 299, 300}));
  expect_codes(by_cpu(c, 0, 0, marks), false);
  run(*runtime_, args_);
  EXPECT_EQ(get(args_.seen, 2), (std::vector<std::int64_t>{8, 2 * kInputs}));
  c.threshold = kInfinity;
  quantize(c);
  expect_codes(by_cpu(c, 0, 0, {}), false);
  EXPECT_EQ(get(args_.outlier_count, 1)[0], 0);
  EXPECT_TRUE(std::isnan(got_.absmax[6]));  // 1e30 is infinite in float16
}

TEST_F(CudaInt8Kernels, ListsEveryOutlierThereIs) {
  const std::int64_t inputs = 700;
  Floats x(at_of(inputs), 8.0F);
  for (std::int64_t i = 0; i < inputs; i += 3) x[at_of(i)] = 1;
  QuantizeArgs args{.x = put(x),
                    .x_stride = inputs,
                    .rows = 1,
                    .inputs = inputs,
                    .threshold = 6,
                    .codes = room<std::int8_t>(704),
                    .codes_stride = 704,
                    .absmax = room<float>(1),
                    .marks = room<std::uint8_t>(inputs),
                    .outliers = room<std::int32_t>(inputs),
                    .outlier_count = room<std::int32_t>(1)};
  run(*runtime_, args);
  std::vector<std::int32_t> wanted;
  for (std::int32_t i = 0; i < inputs; ++i)
    if (i % 3 != 0) wanted.push_back(i);
  EXPECT_EQ(get(args.outlier_count, 1)[0], static_cast<std::int32_t>(wanted.size()));
  EXPECT_EQ(get(args.outliers, static_cast<std::int64_t>(wanted.size())), wanted);
}

// Word 4 t + 2 s + h of 16 holds the four codes from 32 s + 16 h + 4 t on.
std::vector<std::int8_t> in_order(const std::vector<std::int8_t>& codes, std::int64_t rows,
                                  std::int64_t stride) {
  const std::int64_t to_stride = round_up(stride, 64);
  std::vector<std::int8_t> ordered(at_of(rows * to_stride));
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t k = 0; k < stride; ++k) {
      const std::int64_t s = k / 32 % 2, h = k / 16 % 2, t = k / 4 % 4;
      ordered[at_of(row * to_stride + k / 64 * 64 + (4 * t + 2 * s + h) * 4 + k % 4)] =
          codes[at_of(row * stride + k)];
    }
  return ordered;
}

TEST_F(CudaInt8Kernels, MultipliesCodesExactly) {
  for (const Shape& shape : kShapes)
    for (const bool has_zero_points : {false, true})
      for (const bool has_outliers : {false, true}) {
        const TestMatrix m = make_matrix(MatrixFormat::int8, shape.outputs, shape.inputs, random_);
        const std::int64_t stride = round_up(shape.inputs, 32);
        std::vector<std::int8_t> codes(at_of(shape.rows * stride));
        for (std::int64_t row = 0; row < shape.rows; ++row)
          for (std::int64_t k = 0; k < shape.inputs; ++k)
            codes[at_of(row * stride + k)] = static_cast<std::int8_t>(random_.below(256) - 128);
        const Floats absmax = random_.floats(shape.rows, 0.1F, 3),
                     x = random_.floats(shape.rows * shape.inputs);
        std::vector<std::int32_t> zero_points, sums, outliers;
        for (std::int64_t row = 0; row < shape.rows; ++row) zero_points.push_back(random_.below(256) - 128);
        for (std::int64_t output = 0; output < shape.outputs; ++output) {
          int sum = 0;
          for (std::int64_t k = 0; k < shape.inputs; ++k) sum += m.code(output, k);
          sums.push_back(sum);
        }
        for (std::int32_t k = 0; k < shape.inputs; k += 50) outliers.push_back(k);
        const auto out = room<float>(shape.rows * shape.outputs);
        LinearInt8Args args{.codes = put(codes),
                            .codes_stride = stride,
                            .rows = shape.rows,
                            .absmax = put(absmax),
                            .sums = put(sums),
                            .weight = put(m),
                            .x = put(x),
                            .x_stride = shape.inputs,
                            .to = {.out = out, .out_stride = shape.outputs}};
        if (has_zero_points) args.zero_points = put(zero_points);
        if (has_outliers) {
          args.outliers = put(outliers);
          args.outlier_count = put(std::vector<std::int32_t>{static_cast<std::int32_t>(outliers.size())});
        }
        run(*runtime_, args);
        Floats got = get(out, shape.rows * shape.outputs);
        if (shape.rows <= kFewInt8Rows) {
          args.is_ordered = true;
          args.codes = put(in_order(codes, shape.rows, stride));
          args.codes_stride = round_up(stride, 64);
          run(*runtime_, args);
          EXPECT_EQ(get(out, shape.rows * shape.outputs), got);
        }
        for (std::int64_t row = 0; row < shape.rows; ++row)
          for (std::int64_t output = 0; output < shape.outputs; ++output) {
            std::int32_t sum = has_zero_points ? -zero_points[at_of(row)] * sums[at_of(output)] : 0;
            for (std::int64_t k = 0; k < shape.inputs; ++k)
              sum += codes[at_of(row * stride + k)] * m.code(output, k);
            const float scale = m.scales[at_of(output)];
            float wanted = static_cast<float>(sum) * (absmax[at_of(row)] * cpu::kInt8Unit * scale);
            if (has_outliers)
              for (const std::int32_t k : outliers)
                wanted += x[at_of(row * shape.inputs + k)] *
                          (static_cast<float>(m.code(output, k)) * (scale * (1.0F / 127.0F)));
            EXPECT_EQ(got[at_of(row * shape.outputs + output)], wanted) << row << ", " << output;
          }
      }
}

TEST_F(CudaInt8Kernels, MultipliesFourBitWeightsByCodedInputs) {
  std::array<float, 16> codebook{};
  for (std::size_t i = 0; i < codebook.size(); ++i) codebook[i] = static_cast<float>(i) * 17 - 127;
  for (const std::int64_t group : {16, 32, 64, 128})
    for (const Shape& shape : kShapes) {
      const TestMatrix m =
          make_matrix(MatrixFormat::four_bit, shape.outputs, shape.inputs, random_, group, codebook);
      const std::int64_t stride = round_up(shape.inputs, 64), groups = groups_of_strip(shape.inputs, group);
      Floats x = random_.floats(shape.rows * shape.inputs, -2, 2);
      if (shape.rows > 4) x[at_of(4 * shape.inputs + 3)] = kNaN;
      const auto codes = room<std::int8_t>(shape.rows * stride);
      const auto scales = room<float>(shape.rows * groups), out = room<float>(shape.rows * shape.outputs);
      run(*runtime_, QuantizeGroupsArgs{.x = put(x),
                                        .x_stride = shape.inputs,
                                        .rows = shape.rows,
                                        .inputs = shape.inputs,
                                        .group = group,
                                        .unit = 0.01F,
                                        .codes = codes,
                                        .codes_stride = stride,
                                        .scales = scales});
      run(*runtime_, LinearInt8ActivationsArgs{.codes = codes,
                                               .codes_stride = stride,
                                               .rows = shape.rows,
                                               .x_scales = scales,
                                               .weight = put(m),
                                               .to = {.out = out, .out_stride = shape.outputs}});
      const auto got_codes = get(codes, shape.rows * stride);
      const Floats got_scales = get(scales, shape.rows * groups), got = get(out, shape.rows * shape.outputs);
      for (std::int64_t row = 0; row < shape.rows; ++row) {
        const bool has_nan = row == 4 && shape.rows > 4;
        for (std::int64_t i = 0; i < groups; ++i) {
          float largest = 0;
          const std::int64_t end = std::min(shape.inputs, (i + 1) * group);
          for (std::int64_t k = i * group; k < end; ++k)
            largest = std::max(largest, std::fabs(x[at_of(row * shape.inputs + k)]));
          const float scale = got_scales[at_of(row * groups + i)];
          EXPECT_TRUE(is_same(scale, has_nan ? kNaN : largest * (1.0F / 127.0F) * 0.01F)) << scale;
          for (std::int64_t k = i * group; k < end && !has_nan; ++k)
            EXPECT_EQ(static_cast<float>(got_codes[at_of(row * stride + k)]),
                      std::nearbyint(x[at_of(row * shape.inputs + k)] * (127.0F / largest)));
        }
        for (std::int64_t k = shape.inputs; k < stride; ++k) EXPECT_EQ(got_codes[at_of(row * stride + k)], 0);
        for (std::int64_t output = 0; output < shape.outputs; ++output) {
          double sum = 0, size = 0;
          for (std::int64_t k = 0; k < shape.inputs; ++k) {
            const double product = static_cast<double>(got_codes[at_of(row * stride + k)]) *
                                   static_cast<double>(got_scales[at_of(row * groups + k / group)]) *
                                   static_cast<double>(m.value(output, k));
            sum += product;
            size += std::fabs(product);
          }
          expect_near(got[at_of(row * shape.outputs + output)], sum, 4e-7 * size, "coded");
        }
      }
    }
}

}  // namespace
}  // namespace assay::cuda
