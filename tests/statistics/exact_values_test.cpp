// Every function of samples against values worked out by hand, where closed forms exist.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "assay/statistics/replicates.h"

namespace assay::statistics {
namespace {

using Samples = std::vector<double>;

Samples rising(int n) {
  Samples samples(static_cast<std::size_t>(n));
  std::iota(samples.begin(), samples.end(), 1.0);
  return samples;
}
// 1, n, 2, n - 1, ...: neighbours differ as much as they can.
Samples alternating(int n) {
  Samples samples;
  for (int i = 0; i < n; ++i) samples.push_back(i % 2 == 0 ? 1 + i / 2 : n - i / 2);
  return samples;
}

TEST(Averages, AreNotOneAnother) {
  EXPECT_DOUBLE_EQ(mean(Samples{1, 2, 6}), 3);
  EXPECT_DOUBLE_EQ(median(Samples{6, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median(Samples{6, 1, 2, 4}), 3);
  EXPECT_EQ(mean({}), 0);
  EXPECT_EQ(median({}), 0);
  EXPECT_DOUBLE_EQ(*standard_deviation(Samples{1, 2, 6}), std::sqrt(7.0));
  EXPECT_DOUBLE_EQ(*standard_deviation(Samples{1, 2}), std::sqrt(0.5));
  EXPECT_FALSE(standard_deviation(Samples{1}));
}

TEST(Quantile, OfNinetyPercentIsNotThatOfEighty) {
  EXPECT_DOUBLE_EQ(quantile(rising(11), 0.9), 10);
  EXPECT_DOUBLE_EQ(quantile(rising(11), 0.8), 9);
  EXPECT_DOUBLE_EQ(quantile(rising(11), 0), 1);
}

TEST(SupportedQuantile, NeedsASampleBeyondIt) {
  EXPECT_FALSE(supported_quantile(rising(99), 0.99));
  EXPECT_DOUBLE_EQ(*supported_quantile(rising(100), 0.99), 99.01);
  EXPECT_FALSE(supported_quantile(rising(9), 0.9));
  EXPECT_DOUBLE_EQ(*supported_quantile(rising(10), 0.9), 9.1);
  EXPECT_FALSE(supported_quantile(rising(9), 0.1));
  EXPECT_DOUBLE_EQ(*supported_quantile(rising(10), 0.1), 1.9);
  EXPECT_DOUBLE_EQ(*supported_quantile(rising(2), 0.5), 1.5);
  EXPECT_FALSE(supported_quantile(rising(1), 0.5));
}

TEST(RankAutocorrelation, ByHand) {
  // Ranks deviate by -2.5 to 2.5: squares sum to 17.5, products of neighbours to 8.75; 1 / 6 is added.
  EXPECT_NEAR(rank_autocorrelation(rising(6)), 0.5 + 1.0 / 6, 1e-12);
  // The ranks alone count, and equal values share theirs: deviations -2, -2, 0, 0, 2, 2.
  EXPECT_NEAR(rank_autocorrelation(Samples{1, 1, 20, 20, 300, 300}), 8.0 / 16 + 1.0 / 6, 1e-12);
  EXPECT_EQ(rank_autocorrelation(alternating(6)), 0);
  EXPECT_EQ(rank_autocorrelation(Samples(6, 3.0)), 0);
  EXPECT_EQ(rank_autocorrelation(rising(5)), 0);
}

TEST(RepeatedMedianInterval, WidensWithTheCorrelation) {
  EXPECT_FALSE(repeated_median_interval(rising(5)));
  EXPECT_EQ(repeated_median_interval(alternating(6))->low, 1);
  EXPECT_EQ(repeated_median_interval(alternating(6))->high, 6);
  // 2.5 sqrt(40) / 2 = 7.91 around the middle: of ranks 0 to 39, 19.5 + 0.5 - 7.91 = 12.09 are left out.
  const auto narrow = repeated_median_interval(alternating(40));
  EXPECT_EQ(narrow->low, 13);
  EXPECT_EQ(narrow->high, 28);
  EXPECT_EQ(narrow->level, 0.95);
  // At the strongest correlation, 0.8, three times as far: 49.5 + 0.5 - 37.5 = 12.5.
  const auto wide = repeated_median_interval(rising(100));
  EXPECT_EQ(wide->low, 13);
  EXPECT_EQ(wide->high, 88);
}

TEST(MedianInterval, OfManySamplesByHand) {
  // (2500 - 1.96 * 50) / 2 = 1201 samples are left out at each end.
  const auto [low, high] = median_interval(rising(2500));
  EXPECT_EQ(low, 1202);
  EXPECT_EQ(high, 1299);
}

TEST(PairedShift, HasTheRanksOfWilcoxonsTables) {
  EXPECT_FALSE(paired_shift(rising(5)));
  EXPECT_TRUE(paired_shift(rising(6), 0.96875)) << "1 / 64 is just half of what may lie outside";
  // One of 64 orders is below 2.5 %, two are not: none of 21 averages is left out.
  const auto six = paired_shift(rising(6));
  EXPECT_DOUBLE_EQ(six->estimate, 3.5);
  EXPECT_EQ(six->interval.low, 1);
  EXPECT_EQ(six->interval.high, 6);
  EXPECT_EQ(six->interval.level, 0.95);
  EXPECT_FALSE(paired_shift(rising(6), 0.99)) << "1 / 64 is more than 0.5 %";
  // The table's critical value is 8: of the averages (i + j) / 2 the ninth is 3.
  const auto ten = paired_shift(rising(10));
  EXPECT_DOUBLE_EQ(ten->estimate, 5.5);
  EXPECT_DOUBLE_EQ(ten->interval.low, 3);
  EXPECT_DOUBLE_EQ(ten->interval.high, 8);
  // Normal: 2525 - 1.95996 sqrt(100 * 101 * 201 / 24) = 1954.9. floor(k^2 / 4) averages are at most k / 2.
  const auto hundred = paired_shift(rising(100));
  EXPECT_DOUBLE_EQ(hundred->interval.low, 44.5);
  EXPECT_DOUBLE_EQ(hundred->interval.high, 56.5);
  EXPECT_DOUBLE_EQ(paired_shift(rising(100), 0.99)->interval.low, 42.5);  // 2525 - 2.57583 * 290.8 = 1775.8
  // Skewed: the median of the averages, not of the differences (0) or their mean.
  EXPECT_DOUBLE_EQ(paired_shift(Samples{0, 0, 0, 0, 8, 8, 8})->estimate, 4);
}

TEST(OutliersOf, LieBeyondThreeAndAHalfDeviations) {
  // Distances 0, 1, 1, 2, 2, 3, 3 and these: their median 2 is a deviation of 2.9652; 3.5 of it are 10.378.
  EXPECT_EQ(outliers(Samples{-3, -2, -1, 0, 1, 2, 3, 10.37, -10.39}), (std::vector<std::size_t>{8}));
  EXPECT_TRUE(outliers(Samples{1, 1, 1, 9}).empty()) << "no spread, no outlier";
  EXPECT_TRUE(outliers({}).empty());
}

TEST(FitPolynomial, ByHand) {
  const auto line = fit_polynomial(Samples{1, 2, 3, 4}, Samples{5, 8, 11, 14}, 1);
  EXPECT_NEAR(line->coefficients[0], 2, 1e-9);
  EXPECT_NEAR(line->coefficients[1], 3, 1e-9);
  EXPECT_NEAR(line->r2, 1, 1e-12);
  EXPECT_NEAR(line->at(10), 32, 1e-8);
  // Residuals -1/6, 1/3, -1/6 of deviations that sum to 2/3.
  const auto rough = fit_polynomial(Samples{0, 1, 2}, Samples{0, 1, 1}, 1);
  EXPECT_NEAR(rough->coefficients[0], 1.0 / 6, 1e-9);
  EXPECT_NEAR(rough->coefficients[1], 0.5, 1e-9);
  EXPECT_NEAR(rough->r2, 0.75, 1e-9);
  const auto square = fit_polynomial(Samples{-10, 0, 10, 20}, Samples{191, 1, 211, 821}, 2);
  EXPECT_NEAR(square->coefficients[0], 1, 1e-7);
  EXPECT_NEAR(square->coefficients[1], 1, 1e-7);
  EXPECT_NEAR(square->coefficients[2], 2, 1e-7);
  EXPECT_NEAR(square->at(3), 22, 1e-7);
  // For points about 0 sums of odd powers vanish: a row that begins with 0 eliminates nothing.
  const auto centred = fit_polynomial(Samples{-2, -1, 0, 1, 2}, Samples{7, 2, 1, 4, 11}, 2);
  ASSERT_TRUE(centred);
  EXPECT_NEAR(centred->coefficients[0], 1, 1e-9);
  EXPECT_NEAR(centred->coefficients[1], 1, 1e-9);
  EXPECT_NEAR(centred->coefficients[2], 2, 1e-9);
  EXPECT_EQ(fit_polynomial(Samples{1, 2, 3}, Samples{4, 4, 4}, 1)->r2, 1) << "nothing is left to explain";
  EXPECT_FALSE(fit_polynomial(Samples{1, 2}, Samples{1, 2}, 1));
  EXPECT_FALSE(fit_polynomial(Samples{1, 2, 3}, Samples{1, 2, 4}, 2));
  EXPECT_FALSE(fit_polynomial(Samples{1, 2, 3}, Samples{1, 2}, 1));
  EXPECT_FALSE(fit_polynomial(Samples{2, 2, 2}, Samples{1, 2, 3}, 1));
  EXPECT_FALSE(fit_polynomial(Samples{0, 0, 0}, Samples{1, 2, 3}, 1));
}

TEST(StudentT, HasItsClosedForms) {
  for (const double t : {0.1, 0.7, 1.0, 2.0, 9.0, 300.0}) {
    EXPECT_NEAR(student_t_tail(t, 1), 1 - 2 / std::numbers::pi * std::atan(t), 1e-13) << t;
    EXPECT_NEAR(student_t_tail(t, 2), 1 - t / std::sqrt(2 + t * t), 1e-13) << t;
    const double c2 = 4 / (4 + t * t), s = t / std::sqrt(4 + t * t);
    EXPECT_NEAR(student_t_tail(t, 4), 1 - s * (1 + c2 / 2), 1e-13) << t;
  }
  EXPECT_NEAR(student_t_quantile(0.5, 1), 1, 1e-9);
  EXPECT_NEAR(student_t_quantile(1 / std::sqrt(3.0), 2), 1, 1e-9);
  EXPECT_NEAR(student_t_tail(student_t_quantile(0.999, 2.5), 2.5), 0.001, 1e-12);
  EXPECT_NEAR(student_t_quantile(0.999999, 1), 2 / (1e-6 * std::numbers::pi), 1);
  // Beyond the last term of a short fraction: many degrees are normal.
  EXPECT_NEAR(student_t_tail(1.959963985, 1e9), 0.05, 1e-7);
}

TEST(Effect, IntervalsAndCertainty) {
  const Effect effect{3, 0.5, 4, 5};
  EXPECT_NEAR(effect.interval(0.95).low, 3 - 2.776445 * 0.5, 1e-5);
  EXPECT_NEAR(effect.interval(0.95).high, 3 + 2.776445 * 0.5, 1e-5);
  EXPECT_EQ(effect.interval(0.9).level, 0.9);
  EXPECT_NEAR(effect.interval(0.9).high, 3 + 2.131847 * 0.5, 1e-5);
  const Effect certain{3, 0, 4, 5};
  EXPECT_EQ(certain.interval(0.95).low, 3);
  EXPECT_EQ(certain.interval(0.95).high, 3);
}

TEST(DifferenceOf, IsWelchs) {
  // Squared errors 1/3 and 5/3.
  const auto difference = difference_of(Samples{1, 2, 3}, Samples{2, 4, 6, 8});
  EXPECT_DOUBLE_EQ(difference->estimate, 3);
  EXPECT_NEAR(difference->error, std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(difference->degrees, 4 / (1.0 / 9 / 2 + 25.0 / 9 / 3), 1e-9);
  EXPECT_EQ(difference->replicates, 3u);
  EXPECT_EQ(difference_of(Samples{1, 1, 1}, Samples{2, 2, 2, 2})->degrees, 5);
  EXPECT_FALSE(difference_of(Samples{1}, Samples{1, 2}));
  EXPECT_FALSE(difference_of(Samples{1, 2}, Samples{1}));
}

TEST(SpreadOf, TakesOffWhatTheRepeatsExplain) {
  // Medians 2 and 5 have the variance 4.5; repeats (2 + 2) / (2 + 1). Their share in a median is 1.35 times
  // that of a mean, of 1/3 and 1/2 on average.
  const auto spread = spread_of(std::vector<Samples>{{1, 2, 3}, {}, {4, 6}});
  EXPECT_NEAR(spread->within, std::sqrt(4.0 / 3), 1e-12);
  EXPECT_NEAR(spread->between, std::sqrt(4.5 - 1.35 * 4 / 3 * (5.0 / 6) / 2), 1e-12);
  // A process counts with its median, whatever one of its repeats was: medians 2 and 5 again.
  const auto skewed = spread_of(std::vector<Samples>{{1, 2, 30}, {4, 6}});
  const double squares = (100.0 + 81 + 361 + 2) / 3;  // the squares of 1, 2, 30 about 11 and of 4, 6 about 5
  EXPECT_NEAR(skewed->within, std::sqrt(squares), 1e-12);
  EXPECT_EQ(skewed->between, 0);
  EXPECT_NEAR(spread_of(std::vector<Samples>{{2, 2, 2.3}, {50}})->between,
              std::sqrt(48.0 * 48 / 2 - 1.35 * (0.01 + 0.01 + 0.04) / 2 * (4.0 / 3) / 2), 1e-12);
  EXPECT_EQ(spread_of(std::vector<Samples>{{1, 9}, {2, 8}})->between, 0);
  EXPECT_FALSE(spread_of(std::vector<Samples>{{1}, {2}}));
  EXPECT_FALSE(spread_of(std::vector<Samples>{{1, 2}}));
  EXPECT_TRUE(spread_of(std::vector<Samples>{{1, 2}, {3}}));
}

TEST(VariancePrior, HasItsClosedForms) {
  constexpr double kEuler = std::numbers::egamma;
  using Estimates = std::vector<EstimatedVariance>;
  // Equal estimates: of 2 degrees, log-chi-squared has the mean digamma(1) = -0.5772; of 4, digamma(2).
  const VariancePrior two = variance_prior(Estimates(6, {3, 2}));
  EXPECT_EQ(two.degrees, kMaxPriorDegrees);
  EXPECT_NEAR(two.variance, 3 * std::exp(kEuler), 1e-8);
  EXPECT_NEAR(variance_prior(Estimates(6, {3, 4})).variance, 3 * 2 * std::exp(kEuler - 1), 1e-8);
  EXPECT_NEAR(variance_prior(Estimates(6, {3, 40})).variance, 3 * 20 * std::exp(-2.9705239922421490), 1e-9);
  // Logarithms that deviate by twice trigamma(1) = pi^2 / 6: what is left is that of a prior of 2 degrees.
  const double a = std::sqrt(std::numbers::pi * std::numbers::pi / 3 * 5 / 6);
  Estimates unequal(6, {std::exp(a), 2});
  for (std::size_t i = 0; i < 3; ++i) unequal[i].variance = std::exp(-a);
  const VariancePrior prior = variance_prior(unequal);
  EXPECT_NEAR(prior.degrees, 2, 1e-9);
  EXPECT_NEAR(prior.variance, 1, 1e-9);
  // They centre where their mean is, not where most of them are.
  Estimates skewed(6, {1, 2});
  skewed[5].variance = std::exp(6 * 0.5);
  EXPECT_NEAR(variance_prior(skewed).variance, std::exp(0.5) * variance_prior(Estimates(6, {1, 2})).variance,
              1e-8);
  // For so many degrees nothing is by chance: what is left is that of a prior of 7 degrees, which is below
  // the most. trigamma(3.5) = pi^2 / 2 - 4 (1 + 1/9 + 1/25).
  const double of_seven = std::numbers::pi * std::numbers::pi / 2 - 4 * (1 + 1.0 / 9 + 1.0 / 25),
               b = std::sqrt(of_seven * 5 / 6);
  Estimates nearly(6, {std::exp(b), 1e9});
  for (std::size_t i = 0; i < 3; ++i) nearly[i].variance = std::exp(-b);
  EXPECT_NEAR(variance_prior(nearly).degrees, 7, 1e-6);
  unequal.push_back({0, 2});  // tells nothing
  EXPECT_NEAR(variance_prior(unequal).degrees, 2, 1e-9);
  EXPECT_EQ(variance_prior(Estimates(5, {3, 2})).degrees, 0);
  const Effect own{0.5, 0.2, 4, 5};
  EXPECT_EQ(with_prior(own, {}).error, 0.2);
}

TEST(RowVariances, NeedThreeRowsOfTwo) {
  EXPECT_TRUE(row_variances(std::vector<Samples>{{1}, {2}, {3}}).empty());
  // One row deviates by (1, -1) / 2: residuals 1/3 for it, over (2 - 1) * 2/3.
  const auto variances = row_variances(std::vector<Samples>{{1, 1}, {1, 1}, {2, 1}});
  EXPECT_NEAR(variances[2], 2 * (1.0 / 9) / (2.0 / 3), 1e-12);
  EXPECT_NEAR(variances[0], 2 * (1.0 / 36) / (2.0 / 3), 1e-12);
}

TEST(Holm, RejectsAtTheLevelItself) {
  EXPECT_EQ(holm_divisors(Samples{0.05, 0.025}, 0.05), (std::vector<int>{1, 2}));
}

TEST(ReplicatesNeeded, AtItsEnds) {
  EXPECT_EQ(replicates_needed({1, 1e-6, 4, 5}, 0.02, 0.95, 100), 2) << "a clear difference";
  EXPECT_EQ(replicates_needed({0, 1e-6, 4, 5}, 0.02, 0.95, 100), 2) << "clearly none";
  EXPECT_FALSE(replicates_needed({0.02, 0.5, 4, 5}, 0.02, 0.95, 100));
  EXPECT_EQ(replicates_needed({1, 1e-12, 1, 2}, 0.02, 0.95, 100), 2)
      << "of two the deviation is known a little";
  EXPECT_FALSE(replicates_needed({1, 1e-6, 0, 1}, 0.02, 0.95, 100)) << "of one nothing is known";
  // Known deviation 1, effect 0.5: a t interval excludes 0 with the chance 0.85 from about 38 on. That of a
  // first estimate from 400 replicates is itself uncertain by 0.05.
  const auto known = replicates_needed({0.5, 1 / std::sqrt(400.0), 399, 400}, 0.01, 0.95, 1000);
  ASSERT_TRUE(known);
  EXPECT_GE(*known, 34);
  EXPECT_LE(*known, 46);
  // Equivalence: (1.96 + 1.44) / 0.5, squared.
  const auto equal = replicates_needed({0, 1 / std::sqrt(400.0), 399, 400}, 0.5, 0.95, 1000);
  ASSERT_TRUE(equal);
  EXPECT_GE(*equal, 42);
  EXPECT_LE(*equal, 56);
  // More certainty takes more.
  EXPECT_GT(*replicates_needed({0.5, 0.05, 399, 400}, 0.01, 0.95, 1000, 0.95), *known);
  EXPECT_GT(*replicates_needed({0.5, 0.05, 399, 400}, 0.01, 0.99, 1000), *known);
}

TEST(DetectableDifference, OfManyDegreesIsTheNormalOne) {
  // 1.96 + 1.2816 errors, where the error is known.
  EXPECT_NEAR(detectable_difference({0, 2, 4000, 5}, 0.95) / 2, 1.95996 + 1.28155, 0.1);
  EXPECT_NEAR(detectable_difference({0, 1, 4000, 5}, 0.95, 0.5), 1.96, 0.1);
  const double three = detectable_difference({0, 1, 2, 3}, 0.95);
  EXPECT_GT(three, 4.302653 + 1.28155);
  EXPECT_EQ(detectable_difference({0, 3, 2, 3}, 0.95), 3 * three);
}

}  // namespace
}  // namespace assay::statistics
