#include "assay/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace assay {

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

}  // namespace assay
