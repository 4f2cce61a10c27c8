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
  if (samples.empty()) return 0;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : 0.5 * (sorted[half - 1] + sorted[half]);
}

std::optional<double> standard_deviation(std::span<const double> samples) {
  if (samples.size() < 2) return std::nullopt;
  const double center = mean(samples);
  double squares = 0;
  for (const double x : samples) squares += (x - center) * (x - center);
  return std::sqrt(squares / static_cast<double>(samples.size() - 1));
}

}  // namespace assay
