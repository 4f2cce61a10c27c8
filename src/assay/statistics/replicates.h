// Effects from replicates: processes that were started and loaded afresh, or blocks of a text. Repeats
// within one of them are not replicates (Kalibera and Jones, "Rigorous benchmarking in reasonable time",
// 2013), so each gives one number: the median of its repeats, or the mean of its block.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "assay/statistics/statistics.h"

namespace assay::statistics {

// Student's t: the chance that |T| exceeds |t|, and the t that |T| stays below with the chance `level`.
// `degrees` may be a fraction (Welch), above 0.
double student_t_tail(double t, double degrees);
double student_t_quantile(double level, double degrees);

// A mean, as far as its replicates determine it.
struct Effect {
  double estimate = 0;
  double error = 0;    // standard error of the estimate
  double degrees = 0;  // the degrees of freedom of that error
  std::size_t replicates = 0;

  Interval interval(double level) const;  // Student's t
  double p_value() const;                 // two-sided, of no effect at all
};
// Empty below two replicates.
std::optional<Effect> effect_of(std::span<const double> replicates);
// Mean of b minus mean of a, which were not paired (Welch 1947). Empty below two of either.
std::optional<Effect> difference_of(std::span<const double> a, std::span<const double> b);

// Means of consecutive blocks of about `block` values that depend on their neighbours, such as losses of a
// text; equally long but for one value. Empty below two blocks.
std::vector<double> block_means(std::span<const double> in_order, std::int64_t block);

// What is known of variances of one kind before a further one is estimated: scaled inverse chi squared, after
// Smyth, "Linear models and empirical Bayes methods" (2004).
struct VariancePrior {
  double variance = 0;  // 0: nothing is known
  double degrees =
      0;  // the degrees of freedom that it counts as: few where the variances differ by more than chance
};
inline constexpr double kMaxPriorDegrees = 8;  // limits how far a prior outweighs the measurement
// From estimates, each with its degrees of freedom. No degrees for fewer than six estimates.
struct EstimatedVariance {
  double variance = 0, degrees = 0;
};
VariancePrior variance_prior(std::span<const EstimatedVariance> estimates);
// The effect with an error that takes `prior`, of the variance of its replicates, into account.
Effect with_prior(Effect effect, const VariancePrior& prior);
// Rows of as many replicates each, taken side by side (a column is a visit): the variance of each row without
// what all rows of a column have in common. Empty for fewer than three rows or two columns.
std::vector<double> row_variances(std::span<const std::vector<double>> rows);

// For each p value of a family, the factor by which the error level is to be divided for it: the step-down
// rule of Holm (1979). It holds the chance of any false rejection at the level. From the first that is not
// rejected on, all have that one's factor.
std::vector<int> holm_divisors(std::span<const double> p_values, double error_level);
// Which p values of a family are rejected by the step-up rule of Hochberg (1988), which holds the chance of
// any false rejection at the level where the tests depend on each other positively, as those of one candidate
// with others on one text do. All are rejected where none is above the level.
std::vector<char> hochberg_rejections(std::span<const double> p_values, double error_level);

// Replicates that each hold several repeats: how much of their spread repeating more often would remove.
struct Spread {
  double between = 0;  // standard deviation of replicates beyond what their repeats explain
  double within = 0;   // standard deviation of repeats in a replicate
};
// `repeats` by replicate. From mean squares of the repeats and the variance of the replicates' medians.
// Empty below two replicates, or without two repeats in any.
std::optional<Spread> spread_of(std::span<const std::vector<double>> repeats);

// The difference that a comparison with as many replicates and degrees detects at this level and `power`. The
// power takes the uncertainty of the estimated error into account.
double detectable_difference(const Effect& like, double level, double power = 0.9);

// How many replicates a new comparison needs, so that with the chance `power` its interval of this level
// either excludes 0 or lies within (-margin, margin): from a first one, whose estimate and deviation are
// uncertain themselves. Empty where `most` are not enough.
std::optional<int> replicates_needed(const Effect& first, double margin, double level, int most,
                                     double power = 0.85);

}  // namespace assay::statistics
