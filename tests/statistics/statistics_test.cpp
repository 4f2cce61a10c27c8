// Quantiles and the interval of a median, against values from tables.
#include "assay/statistics/statistics.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace assay::statistics {
namespace {

std::vector<double> up_to(int n) {
  std::vector<double> samples(static_cast<std::size_t>(n));
  std::iota(samples.rbegin(), samples.rend(), 1.0);  // unsorted: n, n - 1, ..., 1
  return samples;
}

TEST(Quantile, LiesBetweenNeighbours) {
  EXPECT_DOUBLE_EQ(quantile(up_to(5), 0.25), 2);
  EXPECT_DOUBLE_EQ(quantile(up_to(4), 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile(up_to(4), 0.75), 3.25);
  EXPECT_DOUBLE_EQ(quantile(up_to(9), 1), 9);
  EXPECT_DOUBLE_EQ(quantile(up_to(1), 0.3), 1);
  EXPECT_DOUBLE_EQ(quantile({}, 0.5), 0);
}

// The ranks of the usual tables of the sign test at 95 %.
TEST(MedianInterval, HasTheRanksOfTheSignTest) {
  using Pair = std::pair<double, double>;
  EXPECT_EQ(median_interval({}), Pair(0, 0));
  EXPECT_EQ(median_interval(up_to(1)), Pair(1, 1));
  EXPECT_EQ(median_interval(up_to(5)), Pair(1, 5));
  EXPECT_EQ(median_interval(up_to(6)), Pair(1, 6));
  EXPECT_EQ(median_interval(up_to(9)), Pair(2, 8));
  EXPECT_EQ(median_interval(up_to(20)), Pair(6, 15));
  EXPECT_EQ(median_interval(up_to(100)), Pair(40, 61));
}

TEST(MedianInterval, OfManySamplesGoesOnWhereTheExactOneEnds) {
  const auto exact = median_interval(up_to(1000)), normal = median_interval(up_to(1001));
  EXPECT_NEAR(exact.first, normal.first, 1.5);
  EXPECT_NEAR(exact.second, normal.second, 1.5);
}

}  // namespace
}  // namespace assay::statistics
