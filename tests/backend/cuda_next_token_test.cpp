// From logits to the next step's input on the device.
#include <gtest/gtest.h>

#include "support/cuda_kernels.h"

namespace assay::cuda {
namespace {

using namespace testing_support;
using CudaNextToken = CudaKernels;

// Sums of 16 columns of rows of 40, and of squares about their mean; the last part has 8.
void expect_moments(const Floats& embedded, const Floats& parts, std::int64_t rows) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t part = 0; part < 3; ++part) {
      const std::int64_t begin = row * 40 + part * 16, count = part == 2 ? 8 : 16;
      double sum = 0, squares = 0;
      for (std::int64_t i = begin; i < begin + count; ++i) sum += embedded[at_of(i)];
      for (std::int64_t i = begin; i < begin + count; ++i)
        squares += std::pow(embedded[at_of(i)] - sum / static_cast<double>(count), 2);
      expect_near(parts[at_of(row * 8 + 2 * part)], sum, 1e-4, "the sum of a part");
      expect_near(parts[at_of(row * 8 + 2 * part + 1)], squares, 1e-4, "the squares of a part");
    }
}

// As argmax, which is held to the CPU's: NaN, infinities, equals, zeros of both signs.
TEST_F(CudaNextToken, FindsTheHighestByManyBlocks) {
  const std::int64_t n = 5003, rows = 9;
  Floats x = random_.floats(rows * n, -30, 30);
  x[at_of(n + 4700)] = x[at_of(n + 900)] = x[at_of(n + 899)] = 40;
  x[at_of(2 * n + 5000)] = kNaN;
  x[at_of(3 * n + 5)] = kInfinity;
  for (std::int64_t i = 0; i < n; ++i) {
    x[at_of(4 * n + i)] = -kInfinity;
    x[at_of(5 * n + i)] = i % 2 == 0 ? -1.0F : -0.0F;
    x[at_of(6 * n + i)] = -3 - static_cast<float>(i % 7);
    x[at_of(8 * n + i)] = 1;
  }
  x[at_of(5 * n + 3001)] = 0;
  const auto held = put(x);
  const auto ids = room<std::int32_t>(rows);
  run(*runtime_, ArgmaxArgs{.x = held, .x_stride = n, .rows = rows, .n = n, .out = ids});
  const auto keys = put(std::vector<std::uint64_t>(at_of(rows), 0));
  run(*runtime_, BestKeyArgs{.x = held, .x_stride = n, .rows = rows, .n = n, .keys = keys});
  const TestMatrix table = make_matrix(MatrixFormat::bfloat16, n, 40, random_),
                   places = make_matrix(MatrixFormat::float32, 12, 40, random_);
  const auto next = room<std::int32_t>(rows), positions = put(std::vector<std::int32_t>(at_of(rows), 7)),
             angles = put(std::vector<std::int32_t>(at_of(rows), 107)),
             key = put(std::vector<std::int32_t>(at_of(rows), 5)),
             tokens = put(std::vector<std::int32_t>(at_of(rows * 2), -9)),
             count = put(std::vector<std::int32_t>{0, 1, 2, 0, 0, 0, 0, 0, 0});
  const auto out = room<float>(rows * 40), moments = room<float>(rows * 8);
  const NextTokenArgs args{.keys = keys,
                           .ids = next,
                           .positions = positions,
                           .angles = angles,
                           .key = key,
                           .tokens = tokens,
                           .count = count,
                           .token_stride = 2,
                           .embed = {.ids = next,
                                     .positions = positions,
                                     .tokens = put(table),
                                     .places = put(places),
                                     .position_offset = 2,
                                     .scale = 3,
                                     .out = out,
                                     .out_stride = 40,
                                     .rows = rows,
                                     .columns = 40,
                                     .moments = {.data = moments, .stride = 8}}};
  run(*runtime_, args);
  const std::vector<std::int32_t> wanted = get(ids, rows), got = get(next, rows),
                                  list = get(tokens, rows * 2);
  EXPECT_EQ(get(keys, rows), std::vector<std::uint64_t>(at_of(rows), 0));
  EXPECT_EQ(get(positions, rows), std::vector<std::int32_t>(at_of(rows), 8));
  EXPECT_EQ(get(angles, rows), std::vector<std::int32_t>(at_of(rows), 108));
  EXPECT_EQ(get(key, rows), std::vector<std::int32_t>(at_of(rows), 6));
  EXPECT_EQ(get(count, rows), (std::vector<std::int32_t>{1, 2, 2, 1, 1, 1, 1, 1, 1}));
  const Floats embedded = get(out, rows * 40);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int32_t id = wanted[at_of(row)];
    EXPECT_EQ(got[at_of(row)], std::max(id, 0)) << "row " << row;
    if (row != 2) {
      EXPECT_EQ(list[at_of(row * 2 + (row == 1 ? 1 : 0))], id) << "row " << row;
    }
    for (std::int64_t i = 0; i < 40; ++i)
      EXPECT_EQ(embedded[at_of(row * 40 + i)], table.value(std::max(id, 0), i) * 3 + places.value(10, i));
  }
  EXPECT_EQ(list[5], -9);  // a full list stays
  expect_moments(embedded, get(moments, rows * 8), rows);
  // Nobody takes the step behind the last position, which no table has.
  NextTokenArgs last = args;
  last.last_position = 9;
  for (int step = 0; step < 3; ++step) run(*runtime_, last);
  EXPECT_EQ(get(positions, rows), std::vector<std::int32_t>(at_of(rows), 11));
  EXPECT_EQ(get(out, 40)[39], table.value(0, 39) * 3 + places.value(11, 39));
  EXPECT_EQ(wanted[2], -1);
  EXPECT_EQ(wanted[1], 899);
}

}  // namespace
}  // namespace assay::cuda
