// Both sides of every limit of the statistics, and samples whose mean, median and middle lie apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "assay/base/random.h"
#include "assay/statistics/replicates.h"

namespace assay::statistics {
namespace {

using Numbers = std::vector<double>;

Numbers one_to(int n) {
  Numbers samples(static_cast<std::size_t>(n));
  std::iota(samples.begin(), samples.end(), 1.0);
  return samples;
}

// Cubes, of which hardly two pairs have the same sum: each rank of their averages is another number.
Numbers cubes(int n) {
  Numbers samples = one_to(n);
  for (double& x : samples) x = x * x * x;
  return samples;
}
double average_at(const Numbers& samples, std::size_t rank) {
  Numbers averages;
  for (std::size_t i = 0; i < samples.size(); ++i)
    for (std::size_t j = i; j < samples.size(); ++j) averages.push_back((samples[i] + samples[j]) / 2);
  std::sort(averages.begin(), averages.end());
  return averages[rank];
}

// Binomial with 1/2: of 1000, 468 lie outside on each side with 2.5 % at most; of 1001, 469.
TEST(SampleLimits, OfTheExactMedianInterval) {
  EXPECT_EQ(median_interval(one_to(1000)), std::pair(469.0, 532.0));
  EXPECT_EQ(median_interval(one_to(1001)), std::pair(470.0, 532.0));
  EXPECT_EQ(median_interval(one_to(7)), std::pair(1.0, 7.0));
  EXPECT_EQ(median_interval(one_to(8)), std::pair(1.0, 8.0));
}

// Exactly 567 of the 1830 averages of 60 lie below at 99 %, the normal approximation says 565; of 61 it says
// 586, and 589 would be exact. At 95 % of 100: 1954.
TEST(SampleLimits, OfTheExactSignedRanks) {
  const auto sixty = paired_shift(cubes(60), 0.99);
  EXPECT_EQ(sixty->interval.low, average_at(cubes(60), 567));
  EXPECT_EQ(sixty->interval.high, average_at(cubes(60), 1829 - 567));
  EXPECT_EQ(sixty->interval.level, 0.99);
  const auto more = paired_shift(cubes(61), 0.99);
  EXPECT_EQ(more->interval.low, average_at(cubes(61), 586));
  EXPECT_EQ(more->interval.high, average_at(cubes(61), 1890 - 586));
  const auto hundred = paired_shift(cubes(100));
  EXPECT_EQ(hundred->interval.low, average_at(cubes(100), 1954));
  EXPECT_EQ(hundred->interval.high, average_at(cubes(100), 5049 - 1954));
  EXPECT_EQ(hundred->estimate, (average_at(cubes(100), 2524) + average_at(cubes(100), 2525)) / 2);
  // Half of 2016 lie outside of an interval of no level at all: nothing is left of it.
  EXPECT_FALSE(paired_shift(one_to(63), 0));
}

// For four equals at 1.5 their mean rank is below the mean of all, 2.5: deviations -1 four times, 1.5, 2.5.
TEST(SampleLimits, CorrelatedRanksDeviateFromTheirMean) {
  EXPECT_NEAR(rank_autocorrelation(Numbers{1, 1, 1, 1, 2, 3}), 5.25 / 12.5 + 1.0 / 6, 1e-12);
  // In between: neighbours' products -1.25 of squares 17.5 are less than 1 / 6 the other way.
  EXPECT_NEAR(rank_autocorrelation(Numbers{1, 2, 3, 6, 5, 4}),
              (3.75 + 0.75 - 1.25 + 3.75 + 0.75) / 17.5 + 1.0 / 6, 1e-12);
}

// The deviation is 1.4826 times the median distance, 2, and 3.5 of it are no outlier yet.
TEST(SampleLimits, AnOutlierLiesBeyondAndNotAtItsLimit) {
  const double limit = 3.5 * (1.4826 * 2);
  EXPECT_TRUE(outliers(Numbers{-3, -2, -1, 0, 1, 2, 3, limit, -limit}).empty());
  EXPECT_EQ(outliers(Numbers{-3, -2, -1, 0, 1, 2, 3, limit, -std::nextafter(limit, 99)}),
            (std::vector<std::size_t>{8}));
}

TEST(SampleLimits, SupportedQuantilesTellOfBothTails) {
  EXPECT_FALSE(supported_quantile(one_to(3), 0.75));
  EXPECT_DOUBLE_EQ(*supported_quantile(one_to(4), 0.75), 3.25);
  EXPECT_FALSE(supported_quantile(one_to(3), 0.25));
  EXPECT_DOUBLE_EQ(*supported_quantile(one_to(4), 0.25), 1.75);
  EXPECT_FALSE(supported_quantile(one_to(100), 1)) << "nothing lies beyond the largest";
}

TEST(SampleLimits, BlocksHaveTheirMeans) {
  EXPECT_EQ(block_means(Numbers{0, 0, 9, 1, 1, 7}, 3), (Numbers{3, 3}));
  EXPECT_EQ(block_means(Numbers{4, 2, 9}, 1), (Numbers{4, 2, 9}));
  EXPECT_EQ(block_means(Numbers{0, 0, 6, 6, 8, 8, 8}, 2), (Numbers{0, 6, 8}));
  EXPECT_TRUE(block_means(Numbers{1, 2, 3}, 2).empty()) << "one block tells of no spread";
  EXPECT_EQ(block_means(Numbers{1, 2, 3, 4}, 2), (Numbers{1.5, 3.5}));
  EXPECT_TRUE(block_means(Numbers{1, 2, 3}, -1).empty());
}

// For positions of any size.
TEST(SampleLimits, LinesThroughTinyAndHugePositions) {
  for (const double scale : {1e-9, 1e9}) {
    const auto line = fit_polynomial(Numbers{scale, 2 * scale, 3 * scale, 4 * scale}, Numbers{3, 5, 7, 9}, 1);
    ASSERT_TRUE(line) << scale;
    EXPECT_NEAR(line->coefficients[0], 1, 1e-9);
    EXPECT_NEAR(line->coefficients[1] * scale, 2, 1e-9);
  }
}

TEST(ReplicateLimits, EqualPValuesKeepTheirOrder) {
  EXPECT_EQ(holm_divisors(Numbers{0.01, 0.01}, 0.05), (std::vector<int>{2, 1}));
  EXPECT_EQ(holm_divisors(Numbers{0.05}, 0.05), (std::vector<int>{1}));
  EXPECT_EQ(holm_divisors(Numbers{0.06, 0.001, 0.9}, 0.05), (std::vector<int>{2, 3, 2}));
}

// Examples by hand: n - i + 1 divides the level of the ith smallest, from the largest on.
TEST(Hochberg, RejectsUpToTheLargestThatMayBe) {
  using Rejected = std::vector<char>;
  EXPECT_EQ(hochberg_rejections(Numbers{}, 0.05), Rejected{});
  EXPECT_EQ(hochberg_rejections(Numbers{0.04, 0.05, 0.03, 0.02}, 0.05), (Rejected{1, 1, 1, 1}));
  EXPECT_EQ(hochberg_rejections(Numbers{0.04, 0.06, 0.03}, 0.05), (Rejected{0, 0, 0}));
  EXPECT_EQ(hochberg_rejections(Numbers{0.025, 0.06, 0.02}, 0.05), (Rejected{1, 0, 1}));
  EXPECT_EQ(hochberg_rejections(Numbers{0.016, 0.9, 0.026}, 0.05), (Rejected{1, 0, 0}));
}

// Two true hypotheses, half of the time with the same p value, beside two that are false by far.
TEST(Hochberg, SeldomRejectsWhatIsTrue) {
  constexpr int kRuns = 20000;
  Random random(5);
  int is_false = 0;
  for (int run = 0; run < kRuns; ++run) {
    const bool is_shared = random.uniform() < 0.5;
    const double first = random.uniform(), second = is_shared ? first : random.uniform();
    const std::vector<char> rejected = hochberg_rejections(Numbers{first, 1e-6, second, 1e-9}, 0.05);
    is_false += rejected[0] != 0 || rejected[2] != 0;
    EXPECT_TRUE(rejected[1] != 0 && rejected[3] != 0);
  }
  EXPECT_LE(is_false, 0.0535 * kRuns);
  EXPECT_GE(is_false, 0.03 * kRuns);
}

// Five estimates of two degrees and one of very many: chance explains 5/6 of pi^2 / 6 of the logarithms'
// variance. What is left, pi^2 / 6, is that of a prior of two degrees.
TEST(ReplicateLimits, ChanceIsTheMeanOverEstimates) {
  const double chance = std::numbers::pi * std::numbers::pi / 6;
  // The logarithms of the variances, less what few degrees shift them by: +a and -a three times each.
  const double a = std::sqrt((chance + chance * 5 / 6) * 5 / 6), shift = -std::numbers::egamma;
  std::vector<EstimatedVariance> estimates;
  for (int i = 0; i < 6; ++i) {
    const double log = i % 2 == 0 ? a : -a;
    estimates.push_back(i < 5 ? EstimatedVariance{std::exp(log + shift), 2}
                              : EstimatedVariance{std::exp(log), 1e9});
  }
  const VariancePrior prior = variance_prior(estimates);
  EXPECT_NEAR(prior.degrees, 2, 1e-6);
  EXPECT_NEAR(prior.variance, std::exp(shift), 1e-6);  // digamma(1) - log(1)
}

TEST(ReplicateLimits, NothingLiesBeyondInfinity) {
  EXPECT_EQ(student_t_tail(INFINITY, 3), 0);
  EXPECT_EQ(student_t_tail(0, 3), 1);
  EXPECT_EQ((Effect{1e300, 1e-300, 3, 4}).p_value(), 0);
}

TEST(ReplicateLimits, APriorCountsAsItsDegrees) {
  // (1 * 4 + 4 * 1) / 5 over five replicates.
  const Effect one = with_prior({0.5, std::sqrt(1.0 / 5), 4, 5}, {4, 1});
  EXPECT_NEAR(one.error, std::sqrt(8.0 / 5 / 5), 1e-12);
  EXPECT_EQ(one.degrees, 5);
  EXPECT_EQ(one.replicates, 5U);
  // For one replicate alone the prior says everything, and no prior nothing.
  EXPECT_NEAR(with_prior({0.5, 0, 0, 1}, {4, 3}).error, 2, 1e-12);
  EXPECT_EQ(with_prior({0.5, 0.25, 0, 1}, {}).error, 0.25);
}

TEST(ReplicateLimits, ADifferenceKnowsItsSmallerSide) {
  const auto difference = difference_of(Numbers{1, 3}, Numbers{2, 2, 2});
  EXPECT_EQ(difference->replicates, 2U);
  EXPECT_DOUBLE_EQ(difference->estimate, 0);
  EXPECT_DOUBLE_EQ(difference->error, 1);
  EXPECT_DOUBLE_EQ(difference->degrees, 1);  // that of the side that varies
}

// With half the chance the estimate lies beyond its critical value where that is the truth. Nine in ten: by
// integrating over the errors of 4 and of 9 degrees on a grid of 300, the finer the same.
TEST(ReplicateLimits, DetectableDifferencesOfFewDegrees) {
  EXPECT_NEAR(detectable_difference({0, 1, 4, 5}, 0.95, 0.5), 2.776445, 1e-5);
  EXPECT_NEAR(detectable_difference({0, 1, 9, 10}, 0.95, 0.5), 2.262157, 1e-5);
  EXPECT_NEAR(detectable_difference({0, 1, 4, 5}, 0.95), 6.12156, 5e-5);
  EXPECT_NEAR(detectable_difference({0, 1, 9, 10}, 0.95), 4.22313, 2e-5);
  EXPECT_NEAR(detectable_difference({0, 2, 9, 10}, 0.95), 2 * 4.22313, 4e-5);
}

// A simulation of 20000 new comparisons, with true chi-squared errors, needs as many as stand behind each;
// the 400 fixed draws are as near as their own error of 0.02 in the power lets them be, and always give the
// same.
TEST(ReplicateLimits, NeededReplicatesAreThoseOfASimulation) {
  const auto needed = [](const Effect& first, double margin, double level = 0.95, double power = 0.85) {
    return replicates_needed(first, margin, level, 1000, power).value_or(0);
  };
  EXPECT_EQ(needed({0.5, 0.05, 399, 400}, 0.01), 43);              // 40
  EXPECT_EQ(needed({0, 0.05, 399, 400}, 0.5), 45);                 // 46
  EXPECT_EQ(needed({0.5, 0.05, 399, 400}, 0.01, 0.95, 0.95), 58);  // 58
  EXPECT_EQ(needed({0.5, 0.05, 399, 400}, 0.01, 0.99), 62);        // 58
  EXPECT_EQ(needed({1, 0.5, 4, 5}, 0.01), 43);                     // 46
  EXPECT_EQ(needed({1, 0.4, 4, 5}, 0.01, 0.95, 0.7), 11);          // 11
  EXPECT_EQ(needed({2, 0.5, 4, 5}, 0.01), 10);                     // 9
  EXPECT_EQ(needed({0, 0.1, 4, 5}, 0.5), 8);                       // 7
  EXPECT_EQ(needed({0, 0.2, 9, 10}, 0.5), 28);                     // 27
  EXPECT_EQ(needed({1, 0.5, 12, 5}, 0.01), 35);                    // 31, with a prior of eight degrees
  EXPECT_EQ(needed({-2, 0.5, 4, 5}, 0.01), 9);                     // 9: other draws of the same
  // The number itself is enough.
  EXPECT_EQ(replicates_needed({2, 0.5, 4, 5}, 0.01, 0.95, 10), 10);
  EXPECT_FALSE(replicates_needed({2, 0.5, 4, 5}, 0.01, 0.95, 9));
}

}  // namespace
}  // namespace assay::statistics
