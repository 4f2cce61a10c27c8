// Shares of right answers: against SciPy, and the worked example of Newcombe (1998).
#include "assay/statistics/paired_counts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace assay::statistics {
namespace {

PairedCounts counts_of(std::int64_t both_right, std::int64_t both_wrong, std::int64_t lost,
                       std::int64_t gained) {
  return {both_right, both_wrong, lost, gained};
}

TEST(PairedCounts, AreCountedByItem) {
  const PairedCounts counts =
      paired_counts({true, false, false, true, true}, {true, true, false, false, false});
  EXPECT_EQ(counts.both_right, 1);
  EXPECT_EQ(counts.both_wrong, 1);
  EXPECT_EQ(counts.lost, 1);
  EXPECT_EQ(counts.gained, 2);
  EXPECT_DOUBLE_EQ(counts.difference(), 0.2);
  EXPECT_THROW(paired_counts({true}, {}), std::logic_error);
}

TEST(PairedCounts, WilsonsInterval) {
  const Interval some = wilson_interval(15, 148), none = wilson_interval(0, 20),
                 empty = wilson_interval(0, 0);
  EXPECT_NEAR(some.low, 0.06238639953073629, 1e-12);
  EXPECT_NEAR(some.high, 0.16048724172330803, 1e-12);
  EXPECT_EQ(none.low, 0);
  EXPECT_NEAR(none.high, 0.16112515805281935, 1e-12);
  EXPECT_EQ(empty.low, 0);
  EXPECT_EQ(empty.high, 1);
}

// scipy.stats.binomtest below 25 flips, chi2.sf((|20 - 40| - 1)**2 / 60, 1) beyond.
TEST(PairedCounts, McNemarsTest) {
  EXPECT_NEAR(mcnemar_p_value(counts_of(36, 0, 2, 12)), 0.012939453125, 1e-12);
  EXPECT_NEAR(mcnemar_p_value(counts_of(20, 10, 13, 5)), 0.09625244140625, 1e-12);
  EXPECT_NEAR(mcnemar_p_value(counts_of(100, 50, 20, 40)), 0.014171388254012323, 1e-12);
  EXPECT_NEAR(mcnemar_p_value(counts_of(0, 0, 12, 12)), 1, 1e-12);
  EXPECT_EQ(mcnemar_p_value(counts_of(9, 9, 0, 0)), 1);
  EXPECT_EQ(mcnemar_p_value(counts_of(0, 0, 13, 13)), 1) << "a correction does not change the sign";
}

TEST(PairedCounts, NewcombesInterval) {
  const Interval gained = difference_interval(counts_of(36, 0, 2, 12));
  EXPECT_NEAR(gained.low, 0.0569, 5e-5);
  EXPECT_NEAR(gained.high, 0.3404, 5e-5);
  const Interval lost = difference_interval(counts_of(36, 0, 12, 2));
  EXPECT_NEAR(lost.low, -gained.high, 1e-12);
  EXPECT_NEAR(lost.high, -gained.low, 1e-12);
  const Interval equal = difference_interval(counts_of(30, 20, 0, 0));
  EXPECT_LT(equal.low, 0);
  EXPECT_GT(equal.high, 0);
  EXPECT_EQ(difference_interval({}).high, 1);
}

// As arXiv 2605.28873 has it: at 5 % flips, 3.6 points for 400 items.
TEST(PairedCounts, DetectableDifference) {
  EXPECT_NEAR(detectable_share(counts_of(200, 180, 10, 10)), 0.0362, 5e-5);
  EXPECT_NEAR(detectable_share(counts_of(50, 50, 0, 0)), 0.0324, 5e-5);
}

}  // namespace
}  // namespace assay::statistics
