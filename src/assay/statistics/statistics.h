// Pure functions of samples. A spread of too few samples is "unknown", not a number.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace assay::statistics {

double mean(std::span<const double> samples);    // 0 for none
double median(std::span<const double> samples);  // 0 for none
// The value below which the fraction p of the samples lies, between neighbours on a line; 0 for none.
double quantile(std::span<const double> samples, double p);
// An interval that holds the median of what the samples were drawn from with at least 95 % where there are
// six or more, whatever their distribution: order statistics. Of fewer, the smallest and the largest.
std::pair<double, double> median_interval(std::span<const double> samples);
// Sample standard deviation (n - 1); empty below two samples.
std::optional<double> standard_deviation(std::span<const double> samples);

struct Interval {
  double low = 0, high = 0, level = 0.95;
};
// Below it no interval is given: order statistics of five samples reach 94 % at most.
inline constexpr std::size_t kMinForInterval = 6;

// The median's interval for repeats in time order that may depend on their neighbours: order statistics,
// whose distance from the middle grows by sqrt((1 + r) / (1 - r)) with the correlation r of neighbours'
// ranks, and by a factor for the looks that an adaptive stop takes (tests/measure simulates both). Empty
// below six samples.
std::optional<Interval> repeated_median_interval(std::span<const double> in_time_order);

// Correlation of neighbours' ranks, never below 0 (which would narrow an interval); 0 below six samples.
double rank_autocorrelation(std::span<const double> in_time_order);

struct Shift {
  double estimate = 0;  // median of all averages of two of the differences (Hodges and Lehmann 1963)
  Interval interval;    // by the exact distribution of Wilcoxon's signed ranks; normal beyond 60 differences
};
// Where paired differences centre. Empty where their number cannot give an interval of this level.
std::optional<Shift> paired_shift(std::span<const double> differences, double level = 0.95);
// Tokens of a text whose losses are taken together, because those of neighbours depend on each other:
// differences of two models' losses; and losses themselves, which passages have in common.
inline constexpr std::int64_t kLossBlock = 64, kTextBlock = 512;

// Samples whose distance from the median is more than 3.5 robust deviations (Iglewicz and Hoaglin 1993).
std::vector<std::size_t> outliers(std::span<const double> samples);

// Least squares y = c0 + c1 x (+ c2 x^2); r2 is the share of the variance it explains.
struct Fit {
  std::vector<double> coefficients;
  double r2 = 0;
  double at(double x) const;
};
// Empty where there are not more points than coefficients, or all x are the same.
std::optional<Fit> fit_polynomial(std::span<const double> x, std::span<const double> y, int degree);

// Percentiles that n samples support: p99 needs 100, p99.9 needs 1000, and so on; empty otherwise.
std::optional<double> supported_quantile(std::span<const double> samples, double p);

}  // namespace assay::statistics
