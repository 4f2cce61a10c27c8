#include "assay/statistics/paired_counts.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace assay::statistics {

namespace {

// The z that a normal stays within with the chance `level`.
double normal_reach(double level) {
  double low = 0, high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) > 1 - level ? low : high) = middle;
  }
  return low;
}

// Wilson's limits around a share.
Interval wilson(double share, double n, double z, double level) {
  const double square = z * z, below = 1 + square / n;
  const double middle = (share + square / (2 * n)) / below;
  const double half = z / below * std::sqrt(share * (1 - share) / n + square / (4 * n * n));
  return {std::max(0.0, middle - half), std::min(1.0, middle + half), level};
}

// The chance of at most k heads in n throws of a coin.
double binomial_tail(std::int64_t k, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i <= k; ++i) {
    const auto all = static_cast<double>(n), own = static_cast<double>(i);
    sum += std::exp(std::lgamma(all + 1) - std::lgamma(own + 1) - std::lgamma(all - own + 1) -
                    all * std::log(2.0));
  }
  return sum;
}

}  // namespace

double PairedCounts::difference() const {
  return items() == 0 ? 0 : static_cast<double>(gained - lost) / static_cast<double>(items());
}

Interval wilson_interval(std::int64_t right, std::int64_t n, double level) {
  if (n <= 0) return {0, 1, level};
  const auto all = static_cast<double>(n);
  Interval interval = wilson(static_cast<double>(right) / all, all, normal_reach(level), level);
  if (right == 0) interval.low = 0;  // without rounding
  if (right == n) interval.high = 1;
  return interval;
}

PairedCounts paired_counts(const std::vector<bool>& subject, const std::vector<bool>& baseline) {
  if (subject.size() != baseline.size()) throw std::logic_error("paired answers are of different items");
  PairedCounts counts;
  for (std::size_t i = 0; i < subject.size(); ++i) {
    if (baseline[i])
      ++(subject[i] ? counts.both_right : counts.lost);
    else
      ++(subject[i] ? counts.gained : counts.both_wrong);
  }
  return counts;
}

double mcnemar_p_value(const PairedCounts& counts) {
  const std::int64_t flips = counts.flips();
  if (flips == 0) return 1;
  if (flips < kExactFlips)
    return std::min(1.0, 2 * binomial_tail(std::min(counts.lost, counts.gained), flips));
  const double apart = std::max(0.0, std::abs(static_cast<double>(counts.lost - counts.gained)) - 1);
  // Chi-squared of one degree is the square of a normal.
  return std::erfc(apart / std::sqrt(static_cast<double>(flips)) / std::sqrt(2.0));
}

Interval difference_interval(const PairedCounts& counts, double level) {
  const std::int64_t n = counts.items();
  if (n == 0) return {-1, 1, level};
  const std::int64_t subject = counts.both_right + counts.gained, baseline = counts.both_right + counts.lost;
  const auto all = static_cast<double>(n);
  const double p = static_cast<double>(subject) / all, q = static_cast<double>(baseline) / all;
  const Interval of_p = wilson_interval(subject, n, level), of_q = wilson_interval(baseline, n, level);
  // The correlation of the two answers, with the correction for continuity where it is positive.
  const double margins = static_cast<double>(subject) * static_cast<double>(n - subject) *
                         static_cast<double>(baseline) * static_cast<double>(n - baseline);
  double phi = 0;
  if (margins > 0) {
    double cross = static_cast<double>(counts.both_right) * static_cast<double>(counts.both_wrong) -
                   static_cast<double>(counts.lost) * static_cast<double>(counts.gained);
    if (cross > 0) cross = std::max(0.0, cross - all / 2);
    phi = cross / std::sqrt(margins);
  }
  const auto reach = [&](double a, double b) {
    return std::sqrt(std::max(0.0, a * a - 2 * phi * a * b + b * b));
  };
  return {p - q - reach(p - of_p.low, of_q.high - q), p - q + reach(of_p.high - p, q - of_q.low), level};
}

double detectable_share(const PairedCounts& counts) {
  const auto items = static_cast<double>(std::max<std::int64_t>(1, counts.items()));
  const auto flips = static_cast<double>(std::max<std::int64_t>(1, counts.flips()));
  return 3.24 * std::sqrt(flips / items / items);
}

}  // namespace assay::statistics
