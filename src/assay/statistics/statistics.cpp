#include "assay/statistics/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace assay::statistics {

namespace {

// Ranks from 0; equal values share their mean rank.
std::vector<double> ranks_of(std::span<const double> samples) {
  std::vector<std::size_t> order(samples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return samples[a] < samples[b]; });
  std::vector<double> ranks(samples.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i + 1;
    while (end < order.size() && samples[order[end]] == samples[order[i]]) ++end;
    const double rank = 0.5 * static_cast<double>(i + end - 1);
    for (; i < end; ++i) ranks[order[i]] = rank;
  }
  return ranks;
}

// The level of the median's interval: chosen by simulation with correlated, bursty noise and an adaptive
// stop.
constexpr double kDeviations = 2.5, kStrongestCorrelation = 0.8;

// The standard normal's quantile, by bisection of erfc: called once per interval.
double normal_quantile(double p) {
  double low = -10, high = 10;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < p ? low : high) = middle;
  }
  return low;
}

// How many of the smallest of n (n + 1) / 2 averages lie outside an interval of this level; negative where
// even none is too many.
std::int64_t left_out_of_signed_ranks(std::size_t n, double level) {
  const double tail = (1 - level) / 2;
  const auto all = static_cast<std::int64_t>(n * (n + 1) / 2);
  constexpr std::size_t kExact = 60;
  if (n > kExact) {
    const auto count = static_cast<double>(n);
    const double deviation = std::sqrt(count * (count + 1) * (2 * count + 1) / 24);
    return static_cast<std::int64_t>(static_cast<double>(all) / 2 + normal_quantile(tail) * deviation);
  }
  // The number of subsets of 1..n by their sum.
  std::vector<double> ways(static_cast<std::size_t>(all) + 1);
  ways[0] = 1;
  for (std::size_t rank = 1; rank <= n; ++rank)
    for (std::size_t sum = ways.size(); sum-- > rank;) ways[sum] += ways[sum - rank];
  const double whole = std::exp2(static_cast<double>(n));
  double below = 0;
  std::int64_t left_out = -1;
  for (const double w : ways) {
    below += w / whole;
    if (below > tail) break;
    ++left_out;
  }
  return left_out;
}

std::optional<Shift> shift_of(std::vector<double> averages, std::int64_t left_out, double level) {
  const auto count = static_cast<std::int64_t>(averages.size());
  if (left_out < 0 || 2 * left_out >= count) return std::nullopt;
  std::sort(averages.begin(), averages.end());
  return Shift{median(averages),
               {averages[static_cast<std::size_t>(left_out)],
                averages[static_cast<std::size_t>(count - 1 - left_out)], level}};
}

}  // namespace

double mean(std::span<const double> samples) {
  double sum = 0;
  for (const double x : samples) sum += x;
  return samples.empty() ? 0 : sum / static_cast<double>(samples.size());
}

double median(std::span<const double> samples) {
  return quantile(samples, 0.5);
}

double quantile(std::span<const double> samples, double p) {
  if (samples.empty()) return 0;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const double at = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const double next = sorted[std::min(below + 1, sorted.size() - 1)];
  return sorted[below] + (at - static_cast<double>(below)) * (next - sorted[below]);
}

std::pair<double, double> median_interval(std::span<const double> samples) {
  if (samples.empty()) return {0, 0};
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  // How many samples lie below the median is binomial with 1/2: leave out as many at each end as 2.5 % allow.
  const auto n = static_cast<double>(sorted.size());
  std::size_t left_out = 0;
  if (n > 1000)  // where the binomial's terms leave the range of a double, and the normal one is as good
    left_out = static_cast<std::size_t>((n - 1.96 * std::sqrt(n)) / 2);
  for (double tail = 0, choose = 1, k = 0; k < n && n <= 1000; ++k) {
    tail += choose * std::exp2(-n);
    if (tail > 0.025) break;
    left_out = static_cast<std::size_t>(k);
    choose *= (n - k) / (k + 1);
  }
  return {sorted[left_out], sorted[sorted.size() - 1 - left_out]};
}

std::optional<double> standard_deviation(std::span<const double> samples) {
  if (samples.size() < 2) return std::nullopt;
  const double center = mean(samples);
  double squares = 0;
  for (const double x : samples) squares += (x - center) * (x - center);
  return std::sqrt(squares / static_cast<double>(samples.size() - 1));
}

double rank_autocorrelation(std::span<const double> in_time_order) {
  const std::size_t n = in_time_order.size();
  if (n < kMinForInterval) return 0;
  const std::vector<double> ranks = ranks_of(in_time_order);
  const double center = mean(ranks);
  double own = 0, with_next = 0;
  for (std::size_t i = 0; i < n; ++i) {
    own += (ranks[i] - center) * (ranks[i] - center);
    if (i + 1 < n) with_next += (ranks[i] - center) * (ranks[i + 1] - center);
  }
  // For independent samples its mean is -1 / n.
  return own == 0 ? 0 : std::max(0.0, with_next / own + 1 / static_cast<double>(n));
}

std::optional<Interval> repeated_median_interval(std::span<const double> in_time_order) {
  const std::size_t n = in_time_order.size();
  if (n < kMinForInterval) return std::nullopt;
  std::vector<double> sorted(in_time_order.begin(), in_time_order.end());
  std::sort(sorted.begin(), sorted.end());
  const double r = std::min(rank_autocorrelation(in_time_order), kStrongestCorrelation);
  const double deviations = kDeviations * std::sqrt((1 + r) / (1 - r));
  const auto count = static_cast<double>(n);
  const double reach = deviations * std::sqrt(count) / 2;
  const auto left_out = static_cast<std::size_t>(std::max(0.0, std::floor((count - 1) / 2 - reach + 0.5)));
  return Interval{sorted[left_out], sorted[n - 1 - left_out], 0.95};
}

std::optional<Shift> paired_shift(std::span<const double> differences, double level) {
  const std::size_t n = differences.size();
  if (n < kMinForInterval) return std::nullopt;
  std::vector<double> averages;
  averages.reserve(n * (n + 1) / 2);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i; j < n; ++j) averages.push_back((differences[i] + differences[j]) / 2);
  return shift_of(std::move(averages), left_out_of_signed_ranks(n, level), level);
}

std::vector<std::size_t> outliers(std::span<const double> samples) {
  const double center = median(samples);
  std::vector<double> distances;
  for (const double x : samples) distances.push_back(std::abs(x - center));
  const double spread = 1.4826 * median(distances);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < samples.size() && spread > 0; ++i)
    if (distances[i] > 3.5 * spread) found.push_back(i);
  return found;
}

double Fit::at(double x) const {
  double y = 0;
  for (std::size_t i = coefficients.size(); i-- > 0;) y = y * x + coefficients[i];
  return y;
}

std::optional<Fit> fit_polynomial(std::span<const double> x, std::span<const double> y, int degree) {
  const auto terms = static_cast<std::size_t>(degree) + 1;
  if (x.size() != y.size() || x.size() <= terms) return std::nullopt;
  // Powers of x / largest: the normal equations of raw positions would lose half of the digits.
  double largest = 0;
  for (const double value : x) largest = std::max(largest, std::abs(value));
  if (largest == 0) return std::nullopt;
  std::vector<std::vector<double>> a(terms, std::vector<double>(terms + 1));
  for (std::size_t p = 0; p < x.size(); ++p)
    for (std::size_t i = 0; i < terms; ++i) {
      const double power = std::pow(x[p] / largest, static_cast<double>(i));
      for (std::size_t j = 0; j < terms; ++j)
        a[i][j] += power * std::pow(x[p] / largest, static_cast<double>(j));
      a[i][terms] += power * y[p];
    }
  for (std::size_t i = 0; i < terms; ++i) {
    std::size_t pivot = i;
    for (std::size_t row = i + 1; row < terms; ++row)
      if (std::abs(a[row][i]) > std::abs(a[pivot][i])) pivot = row;
    if (std::abs(a[pivot][i]) < 1e-12) return std::nullopt;
    std::swap(a[i], a[pivot]);
    for (std::size_t row = 0; row < terms; ++row) {
      if (row == i) continue;
      const double factor = a[row][i] / a[i][i];
      for (std::size_t j = i; j <= terms; ++j) a[row][j] -= factor * a[i][j];
    }
  }
  Fit fit;
  for (std::size_t i = 0; i < terms; ++i)
    fit.coefficients.push_back(a[i][terms] / a[i][i] / std::pow(largest, static_cast<double>(i)));
  const double center = mean(y);
  double left = 0, all = 0;
  for (std::size_t p = 0; p < x.size(); ++p) {
    left += (y[p] - fit.at(x[p])) * (y[p] - fit.at(x[p]));
    all += (y[p] - center) * (y[p] - center);
  }
  fit.r2 = all > 0 ? 1 - left / all : 1;
  return fit;
}

std::optional<double> supported_quantile(std::span<const double> samples, double p) {
  const double needed = 1 / std::max(1e-9, std::min(p, 1 - p));
  if (static_cast<double>(samples.size()) < needed * (1 - 1e-9)) return std::nullopt;
  return quantile(samples, p);
}

}  // namespace assay::statistics
