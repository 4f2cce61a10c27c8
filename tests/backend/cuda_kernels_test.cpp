// The kernels of a GPU, run by the emulation, against plain loops in double and the CPU's scalar kernels.
#include "assay/backend/cuda/kernels/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <random>

#include "assay/backend/cpu/kernels/kernels.h"
#include "assay/base/error.h"
#include "assay/quant/four_bit.h"
#include "assay/tensor/half.h"
#include "support/cuda_attention.h"

namespace assay::cuda {
namespace {

using namespace testing_support;

double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x > 0 || std::isnan(x) ? x : 0;
    case Activation::relu2:
      return x > 0 || std::isnan(x) ? x * x : 0;
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf:
      return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
    case Activation::gelu_quick:
      return x / (1 + std::exp(-1.702 * x));
  }
  return x;
}
constexpr Activation kActivations[] = {Activation::none,     Activation::relu,      Activation::relu2,
                                       Activation::silu,     Activation::tanh,      Activation::gelu_tanh,
                                       Activation::gelu_erf, Activation::gelu_quick};

TEST_F(CudaKernels, EmbedsFromEveryFormat) {
  for (const MatrixFormat format : kMatrixFormats) {
    const TestMatrix tokens = make_matrix(format, 37, 45, random_, 16),
                     places = make_matrix(MatrixFormat::float32, 12, 45, random_);
    const std::vector<std::int32_t> ids{36, 0, 17}, positions{0, 9, 3};
    const auto out = room<float>(3 * 50);
    EmbedArgs args{.ids = put(ids),
                   .positions = put(positions),
                   .tokens = put(tokens),
                   .places = put(places),
                   .position_offset = 2,
                   .scale = 3,
                   .out = out,
                   .out_stride = 50,
                   .rows = 3,
                   .columns = 45};
    run(*runtime_, args);
    const Floats got = get(out, 150);
    for (std::int64_t row = 0; row < 3; ++row)
      for (std::int64_t i = 0; i < 45; ++i)
        EXPECT_EQ(got[at_of(row * 50 + i)],
                  tokens.value(ids[at_of(row)], i) * 3 + places.value(positions[at_of(row)] + 2, i));
    args.places = {};
    args.scale = 1;
    run(*runtime_, args);
    EXPECT_EQ(get(out, 150)[44], tokens.value(36, 44));
    args.places = args.tokens;
    args.tokens = {};
    run(*runtime_, args);
    EXPECT_EQ(get(out, 150)[100 + 44], tokens.value(5, 44));
  }
}

TEST_F(CudaKernels, NormsRowsAndTheirParts) {
  for (const std::int64_t n : {1, 7, 64, 256, 257, 770})
    for (const std::int64_t groups : {1, 3})
      for (const bool subtracts_mean : {false, true}) {
        const std::int64_t rows = 3, stride = n * groups + 5;
        Floats x = random_.floats(4 * stride, -2, 3);
        const Floats gain = random_.floats(n), bias = random_.floats(n);
        const bool has_bias = subtracts_mean && groups == 1;
        x[at_of(2 * stride)] = n % 2 == 0 ? kInfinity : kNaN;
        const std::vector<std::int32_t> row_of{3, 0, 2};
        const auto out = room<float>(rows * stride);
        const NormArgs args{.x = put(x),
                            .x_stride = stride,
                            .row_of = put(row_of),
                            .gain = put(gain),
                            .bias = has_bias ? put(bias) : DevicePointer<float>(),
                            .epsilon = 1e-5F,
                            .subtracts_mean = subtracts_mean,
                            .out = out,
                            .out_stride = stride,
                            .rows = rows,
                            .groups = groups,
                            .n = n};
        run(*runtime_, args);
        const Floats got = get(out, rows * stride);
        for (std::int64_t row = 0; row < rows; ++row)
          for (std::int64_t group = 0; group < groups; ++group) {
            const float* from = x.data() + row_of[at_of(row)] * stride + group * n;
            Floats wanted(at_of(n));
            cpu::KernelTable table;
            cpu::scalar::fill(table);
            table.norm({.x = from,
                        .x_stride = n,
                        .gain = gain.data(),
                        .bias = has_bias ? bias.data() : nullptr,
                        .epsilon = args.epsilon,
                        .subtracts_mean = subtracts_mean,
                        .y = wanted.data(),
                        .y_stride = n,
                        .y_tiles = cpu::kNoTiles,
                        .first_tile_row = 0,
                        .rows = 1,
                        .n = n});
            for (std::int64_t i = 0; i < n; ++i)
              expect_near(got[at_of(row * stride + group * n + i)], static_cast<double>(wanted[at_of(i)]),
                          4e-6, "norm");
          }
      }
}

TEST_F(CudaKernels, NormsInPlace) {
  const Floats x = random_.floats(2 * 300), gain(300, 1.0F);
  const auto held = put(x), out = room<float>(600);
  NormArgs args{
      .x = held, .x_stride = 300, .gain = put(gain), .out = out, .out_stride = 300, .rows = 2, .n = 300};
  run(*runtime_, args);
  args.out = held;
  run(*runtime_, args);
  EXPECT_EQ(get(held, 600), get(out, 600));
}

TEST_F(CudaKernels, ElementwiseOperations) {
  const std::int64_t rows = 3, n = 301, stride = 2 * n + 3;
  Floats x = random_.floats(rows * stride, -6, 6);
  x[0] = kNaN;
  x[1] = kInfinity;
  x[2] = -kInfinity;
  const auto held = put(x);
  for (const Activation activation : kActivations) {
    const auto out = room<float>(rows * n);
    run(*runtime_, GatedArgs{.x = held,
                             .x_stride = stride,
                             .activation = activation,
                             .out = out,
                             .out_stride = n,
                             .rows = rows,
                             .n = n});
    const Floats got = get(out, rows * n);
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < n; ++i) {
        const auto gate = static_cast<double>(x[at_of(row * stride + i)]),
                   up = static_cast<double>(x[at_of(row * stride + n + i)]);
        expect_near(got[at_of(row * n + i)], activated(activation, gate) * up, 2e-5, "gated");
      }
  }
  const Floats y = random_.floats(rows * n);
  const auto sum = put(y), gathered = room<float>(2 * n), bent = put(x);
  run(*runtime_,
      AddArgs{
          .x = held, .x_stride = stride, .scale = 0.5F, .out = sum, .out_stride = n, .rows = rows, .n = n});
  const std::vector<std::int32_t> row_of{2, 1};
  run(*runtime_, GatherArgs{.x = held,
                            .x_stride = stride,
                            .row_of = put(row_of),
                            .out = gathered,
                            .out_stride = n,
                            .rows = 2,
                            .n = n});
  run(*runtime_, BendArgs{.x = bent, .x_stride = stride, .rows = rows, .n = n, .scale = 2, .soft_cap = 5});
  const Floats sums = get(sum, rows * n), picked = get(gathered, 2 * n), capped = get(bent, rows * stride);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < n; ++i) {
      const float from = x[at_of(row * stride + i)];
      EXPECT_TRUE(is_same(sums[at_of(row * n + i)], y[at_of(row * n + i)] + 0.5F * from));
      expect_near(capped[at_of(row * stride + i)], 5 * std::tanh(2 * static_cast<double>(from) / 5), 1e-6,
                  "bent");
      EXPECT_EQ(capped[at_of(row * stride + n + 1)], x[at_of(row * stride + n + 1)]);
    }
  for (std::int64_t i = 0; i < n; ++i) {
    EXPECT_EQ(picked[at_of(i)], x[at_of(2 * stride + i)]);
    EXPECT_EQ(picked[at_of(n + i)], x[at_of(stride + i)]);
  }
}

TEST_F(CudaKernels, RotatesAsTheCpuDoes) {
  cpu::KernelTable table;
  cpu::scalar::fill(table);
  for (const RotaryPairing pairing : {RotaryPairing::halves, RotaryPairing::neighbours})
    for (const std::int64_t pairs : {1, 5, 12}) {
      const std::int64_t rows = 3, heads = 3, dim = 24, stride = heads * dim + 7;
      Floats x = random_.floats(rows * stride);
      const Floats cosines = random_.floats(rows * pairs), sines = random_.floats(rows * pairs);
      const auto held = put(x);
      run(*runtime_, RotateArgs{.x = held,
                                .x_stride = stride,
                                .rows = rows,
                                .heads = heads,
                                .head_dim = dim,
                                .pairs = pairs,
                                .pairing = pairing,
                                .cosines = put(cosines),
                                .sines = put(sines)});
      table.rotate({.x = x.data(),
                    .x_stride = stride,
                    .rows = rows,
                    .heads = heads,
                    .head_dim = dim,
                    .pairing = pairing,
                    .pairs = pairs,
                    .cosines = cosines.data(),
                    .sines = sines.data()});
      const Floats got = get(held, rows * stride);
      for (std::size_t i = 0; i < x.size(); ++i)
        expect_near(got[i], static_cast<double>(x[i]), 3e-7, "rotated");
    }
}

// ---- matrix multiplications

TEST_F(CudaKernels, MultipliesEveryFormat) {
  for (const Way& way : ways())
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(text_of(way) + ", " + std::to_string(shape.inputs) + " inputs, " +
                   std::to_string(shape.rows));
      const TestMatrix m = make_matrix(way.format, shape.outputs, shape.inputs, random_, way.group);
      const std::int64_t stride = shape.inputs + shape.rows % 4, out_stride = shape.outputs + 2;
      const Floats x = random_.floats(shape.rows * stride), bias = random_.floats(shape.outputs),
                   before = random_.floats(shape.rows * out_stride);
      const bool has_bias = shape.rows != 3, adds = shape.rows == 9;
      const Activation activation = shape.rows == 17 ? Activation::gelu_tanh : Activation::none;
      const auto out = put(before);
      const OrderedRows ordered(memory_, shape.rows, shape.outputs, shape.rows % 2 == 0);
      run(*runtime_, LinearArgs{.x = put(x),
                                .x_stride = stride,
                                .rows = shape.rows,
                                .weight = put(m),
                                .arithmetic = way.arithmetic,
                                .to = {.bias = has_bias ? put(bias) : DevicePointer<float>(),
                                       .activation = activation,
                                       .adds = adds,
                                       .out = out,
                                       .out_stride = out_stride,
                                       .ordered = ordered.out()},
                                .scratch = scratch_for(shape.rows, shape.inputs, way.arithmetic),
                                .few_rows = 1000});
      const Floats got = get(out, shape.rows * out_stride);
      ordered.expect(got, out_stride);
      for (std::int64_t row = 0; row < shape.rows; ++row) {
        for (std::int64_t output = 0; output < shape.outputs; ++output) {
          double sum = has_bias ? static_cast<double>(bias[at_of(output)]) : 0, size = 1;
          for (std::int64_t k = 0; k < shape.inputs; ++k) {
            const double product =
                static_cast<double>(rounded(x[at_of(row * stride + k)], way)) * weight_of(m, output, k, way);
            sum += product;
            size += std::fabs(product);
          }
          double wanted = activated(activation, sum);
          if (adds) wanted += static_cast<double>(before[at_of(row * out_stride + output)]);
          expect_near(got[at_of(row * out_stride + output)], wanted, 4e-7 * size, "linear");
        }
        for (std::int64_t i = shape.outputs; i < out_stride; ++i)
          EXPECT_EQ(got[at_of(row * out_stride + i)], before[at_of(row * out_stride + i)])
              << "beyond the outputs";
      }
    }
}

// And what is not finite stays in its row.
TEST_F(CudaKernels, ARowHasTheSameBitsInEveryBatch) {
  for (const Way& way : ways()) {
    SCOPED_TRACE(text_of(way));
    const std::int64_t outputs = 21, inputs = 203, rows = 67;
    const TestMatrix m = make_matrix(way.format, outputs, inputs, random_, way.group);
    Floats x = random_.floats(rows * inputs);
    x[at_of(5 * inputs + 7)] = kNaN;
    x[at_of(6 * inputs + 100)] = -kInfinity;
    const auto held = put(x);
    const Matrix weight = put(m);
    const auto multiply = [&](std::int64_t first, std::int64_t count) {
      const auto out = room<float>(count * outputs);
      run(*runtime_, LinearArgs{.x = held + first * inputs,
                                .x_stride = inputs,
                                .rows = count,
                                .weight = weight,
                                .arithmetic = way.arithmetic,
                                .to = {.out = out, .out_stride = outputs},
                                .scratch = scratch_for(count, inputs, way.arithmetic)});
      return get(out, count * outputs);
    };
    const Floats all = multiply(0, rows);
    for (const auto& [first, count] : {std::pair{0, 1}, {66, 1}, {4, 4}, {3, 9}, {10, 20}, {2, 50}}) {
      const Floats some = multiply(first, count);
      for (std::size_t i = 0; i < some.size(); ++i)
        EXPECT_TRUE(is_same(some[i], all[at_of(first * outputs) + i])) << count << " rows, element " << i;
    }
    for (std::int64_t output = 0; output < outputs; ++output) {
      EXPECT_TRUE(std::isnan(all[at_of(5 * outputs + output)]));
      EXPECT_FALSE(std::isfinite(all[at_of(6 * outputs + output)]));
      EXPECT_TRUE(std::isfinite(all[at_of(7 * outputs + output)]));
    }
  }
}

TEST_F(CudaKernels, RefusesWhatItHasNoKernelFor) {
  const TestMatrix m = make_matrix(MatrixFormat::int8, 16, 32, random_);
  const auto x = put(Floats(32)), out = put(Floats(16));
  LinearArgs args{.x = x, .x_stride = 32, .rows = 1, .weight = put(m), .to = {.out = out, .out_stride = 16}};
  EXPECT_THROW(run(*runtime_, args), Error);
  args.weight.format = MatrixFormat::bfloat16;  // without memory to put inputs into order
  EXPECT_THROW(run(*runtime_, args), Error);
  args.weight.format = MatrixFormat::four_bit;
  args.weight.group = 48;
  EXPECT_THROW(run(*runtime_, args), Error);
  EXPECT_THROW(
      run(*runtime_, QuantizeArgs{.x = x, .x_stride = 32, .rows = 1, .inputs = 32, .codes_stride = 40}),
      Error);
  AttendArgs attend;
  attend.rows = 1;
  attend.cache.head_dim = 513;
  EXPECT_THROW(run(*runtime_, attend), Error);
}

// ---- attention

constexpr CacheFormat kCacheFormats[] = {CacheFormat::float32, CacheFormat::float16, CacheFormat::bfloat16,
                                         CacheFormat::int8};

TEST_F(CudaAttention, AttendsOverPagesOfEveryFormat) {
  std::vector<AttendCase> cases;
  for (const CacheFormat format : kCacheFormats)
    for (const int dim : {1, 20, 64, 80, 128}) cases.push_back({.format = format, .head_dim = dim});
  cases.push_back({.head_dim = 512, .heads = 1, .kv_heads = 1});
  cases.push_back({.head_dim = 32, .heads = 6, .kv_heads = 1, .window = 40});
  cases.push_back({.head_dim = 32, .heads = 3, .kv_heads = 3, .window = 257, .soft_cap = 2});
  cases.push_back({.format = CacheFormat::bfloat16, .head_dim = 16, .has_slopes = true});
  cases.push_back(
      {.format = CacheFormat::int8, .head_dim = 16, .window = 300, .soft_cap = 3, .has_slopes = true});
  for (const AttendCase& c : cases) {
    SCOPED_TRACE("format " + std::to_string(static_cast<int>(c.format)) + ", dim " +
                 std::to_string(c.head_dim));
    fill(c, {300, 70});
    store();
    const std::vector<Row> rows{{0, 299}, {1, 63}, {0, -1}, {0, 255}, {0, 256}, {1, 64}, {1, 0}, {1, 69}};
    const Floats q = random_.floats(static_cast<std::int64_t>(rows.size()) * c.heads * c.head_dim, -2, 2);
    const Floats got = attend(rows, q, false);
    expect_attended(rows, q, got);
    // Chunks side by side, and a row by itself: the same bits.
    EXPECT_EQ(attend(rows, q, true), got);
    const std::int64_t width = c.heads * c.head_dim;
    for (const std::size_t row : {std::size_t{0}, std::size_t{3}, std::size_t{7}}) {
      const auto begin = static_cast<std::int64_t>(row) * width;
      EXPECT_EQ(attend({rows[row]}, Floats(q.begin() + begin, q.begin() + begin + width), row != 3),
                Floats(got.begin() + begin, got.begin() + begin + width));
    }
  }
}

TEST_F(CudaAttention, KeepsWhatIsNotFinite) {
  for (const CacheFormat format : kCacheFormats) {
    const AttendCase c{.format = format, .head_dim = 8, .heads = 1, .kv_heads = 1};
    fill(c, {600, 10});
    sequences_[0].keys[at_of(300 * 8)] = kNaN;
    sequences_[1].values[at_of(4 * 8 + 3)] = kInfinity;
    store();
    const std::vector<Row> rows{{0, 299}, {0, 300}, {0, 599}, {1, 3}, {1, 4}, {1, 9}};
    const Floats q = random_.floats(6 * 8, 0.5F, 1), got = attend(rows, q, true);
    const auto is_finite = [&](std::int64_t row, std::int64_t i) {
      return std::isfinite(got[at_of(row * 8 + i)]);
    };
    for (std::int64_t i = 0; i < 8; ++i) {
      EXPECT_TRUE(is_finite(0, i));
      EXPECT_FALSE(is_finite(1, i));
      EXPECT_FALSE(is_finite(2, i));
      EXPECT_TRUE(is_finite(3, i));
      const bool is_whole_row = format == CacheFormat::int8;  // one scale for it
      EXPECT_EQ(is_finite(4, i), i != 3 && !is_whole_row);
      EXPECT_EQ(is_finite(5, i), i != 3 && !is_whole_row);
    }
    EXPECT_EQ(attend(rows, q, false).size(), got.size());
  }
}

// Scores of -infinity weigh nothing beside others, in their chunk and beside other chunks; alone they are
// NaN.
TEST_F(CudaAttention, ScoresOfMinusInfinityWeighNothing) {
  const AttendCase c{.format = CacheFormat::float32, .head_dim = 4, .heads = 1, .kv_heads = 1};
  fill(c, {520});
  for (std::int64_t key = 0; key < 300; ++key) sequences_[0].keys[at_of(key * 4)] = -kInfinity;
  store();
  const Floats q{1, 0.5F, 0.25F, 1, 1, 1, 1, 1};
  for (const bool has_scratch : {false, true}) {
    const Floats got = attend({{0, 519}, {0, 260}}, q, has_scratch);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(std::isfinite(got[i])) << got[i];
      EXPECT_TRUE(std::isnan(got[4 + i])) << got[4 + i];
    }
    Floats plain(4);
    double total = 0;
    std::vector<double> sums(4);
    for (std::int64_t key = 300; key < 520; ++key) {
      double score = 0;
      for (std::int64_t i = 0; i < 4; ++i)
        score +=
            static_cast<double>(q[at_of(i)]) * static_cast<double>(sequences_[0].keys[at_of(key * 4 + i)]);
      const double weight = std::exp(score * static_cast<double>(0.3F));
      total += weight;
      for (std::int64_t i = 0; i < 4; ++i)
        sums[at_of(i)] += weight * static_cast<double>(sequences_[0].values[at_of(key * 4 + i)]);
    }
    for (std::size_t i = 0; i < 4; ++i) expect_near(got[i], sums[i] / total, 5e-6, "attention");
  }
}

// ---- head

TEST_F(CudaKernels, FindsTheHighestAsTheCpuDoes) {
  cpu::KernelTable table;
  cpu::scalar::fill(table);
  const std::int64_t n = 1003, rows = 9;
  Floats x = random_.floats(rows * n, -30, 30);
  x[at_of(n + 700)] = x[at_of(n + 900)] = x[at_of(n + 699)] = 40;  // the lowest of equals
  x[at_of(2 * n + 5)] = kNaN;
  x[at_of(3 * n + 5)] = kInfinity;
  for (std::int64_t i = 0; i < n; ++i) x[at_of(4 * n + i)] = -kInfinity;
  x[at_of(5 * n + 1002)] = 50;
  x[at_of(6 * n)] = 50;
  x[at_of(7 * n + 3)] = -kInfinity;
  for (std::int64_t i = 0; i < n; ++i) x[at_of(8 * n + i)] = 1;
  std::vector<std::int32_t> targets;
  for (std::int32_t row = 0; row < rows; ++row) targets.push_back(row * 100);
  targets[7] = 3;
  const auto held = put(x);
  const auto ids = room<std::int32_t>(rows);
  const auto scores = room<double>(rows);
  run(*runtime_, ArgmaxArgs{.x = held, .x_stride = n, .rows = rows, .n = n, .out = ids});
  run(*runtime_, LogProbabilityArgs{
                     .x = held, .x_stride = n, .rows = rows, .n = n, .targets = put(targets), .out = scores});
  const std::vector<std::int32_t> got = get(ids, rows);
  const std::vector<double> got_scores = get(scores, rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* from = x.data() + row * n;
    EXPECT_EQ(got[at_of(row)], table.argmax(from, n)) << "row " << row;
    const double wanted = static_cast<double>(from[targets[at_of(row)]]) - table.log_sum_exp(from, n);
    if (std::isnan(wanted))
      EXPECT_TRUE(std::isnan(got_scores[at_of(row)])) << "row " << row;
    else if (std::isinf(wanted))
      EXPECT_EQ(got_scores[at_of(row)], wanted);
    else
      EXPECT_NEAR(got_scores[at_of(row)], wanted, 1e-12 * std::fabs(wanted) + 1e-12) << "row " << row;
  }
}

// A vocabulary smaller than a block.
TEST_F(CudaKernels, FindsTheHighestOfFew) {
  const auto held = put(Floats{-3, -1, -2});
  const auto ids = room<std::int32_t>(1);
  const auto scores = room<double>(1);
  run(*runtime_, ArgmaxArgs{.x = held, .x_stride = 3, .rows = 1, .n = 3, .out = ids});
  run(*runtime_, LogProbabilityArgs{.x = held,
                                    .x_stride = 3,
                                    .rows = 1,
                                    .n = 3,
                                    .targets = put(std::vector<std::int32_t>{2}),
                                    .out = scores});
  EXPECT_EQ(get(ids, 1)[0], 1);
  EXPECT_NEAR(get(scores, 1)[0], -2 - std::log(std::exp(-3.0) + std::exp(-2.0) + std::exp(-1.0)), 1e-12);
}

// What has no rows launches nothing.
TEST_F(CudaKernels, NothingIsNoLaunch) {
  run(*runtime_, EmbedArgs{});
  run(*runtime_, NormArgs{});
  run(*runtime_, GatedArgs{});
  run(*runtime_, StoreArgs{});
  run(*runtime_, AttendArgs{});
  run(*runtime_, LinearArgs{});
  run(*runtime_, LinearInt8Args{});
  run(*runtime_, QuantizeArgs{});
  run(*runtime_, ArgmaxArgs{});
  if (const auto* emulated = dynamic_cast<EmulatedRuntime*>(runtime_.get())) {
    EXPECT_EQ(emulated->launches(), 0);
  }
}

}  // namespace
}  // namespace assay::cuda
