#include "assay/quant/calibration.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <numeric>

#include "assay/base/error.h"
#include "assay/quant/magnitude.h"

namespace assay {

namespace {

constexpr std::string_view kNames[] = {"minmax", "percentile", "entropy"};
constexpr std::int64_t kQuantizedBins = 128;  // that the entropy calibrator has
constexpr std::int64_t kMaxGrowth = 16;

// numpy.linspace in float32.
std::vector<float> even_edges(float first, float last, std::size_t bins) {
  const float step = (last - first) / static_cast<float>(bins);
  std::vector<float> edges(bins + 1);
  for (std::size_t i = 0; i < bins; ++i) {
    const float offset = static_cast<float>(i) * step;
    edges[i] = offset + first;
  }
  edges[bins] = last;
  return edges;
}

// numpy.floor_divide in float32, of positive numbers.
float floor_divide(float a, float b) {
  const float quotient = (a - std::fmod(a, b)) / b, whole = std::floor(quotient);
  return quotient - whole > 0.5F ? whole + 1 : whole;
}

Range range_of(std::span<const float> values) {
  Range range{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
  for (const float x : values) {  // comparisons with NaN are false
    if (x < range.low) range.low = x;
    if (x > range.high) range.high = x;
  }
  return range;
}

// smooth_distribution of ONNX Runtime: zeros become 1e-4, which the others pay for. Empty where all are zero.
std::vector<float> smoothed(std::span<const std::int64_t> counts) {
  const auto zeros = std::count(counts.begin(), counts.end(), 0);
  const auto others = static_cast<std::ptrdiff_t>(counts.size()) - zeros;
  if (others == 0) return {};
  constexpr double kEpsilon = 1e-4;
  const auto less = static_cast<float>(kEpsilon * static_cast<double>(zeros) / static_cast<double>(others));
  std::vector<float> out(counts.size());
  std::transform(counts.begin(), counts.end(), out.begin(), [&](std::int64_t count) {
    return count == 0 ? static_cast<float>(kEpsilon) : static_cast<float>(count) - less;
  });
  return out;
}

float sum_of(std::span<const float> x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value);
  return static_cast<float>(sum);
}

// Kullback-Leibler divergence of what the counts become as distributions.
float divergence(std::span<const float> p, std::span<const float> q) {
  const float p_sum = sum_of(p), q_sum = sum_of(q);
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const float a = p[i] / p_sum, b = q[i] / q_sum;
    sum += static_cast<double>(a * std::log(a / b));
  }
  return static_cast<float>(sum);
}

// How much bins [start, end) lose when 128 levels stand for them and the outer values for what lies outside.
float divergence_of_slice(std::span<const std::int64_t> counts, std::size_t start, std::size_t end) {
  const auto slice = counts.subspan(start, end - start);
  std::vector<std::int64_t> p(slice.begin(), slice.end());
  p.front() = std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(start), p.front());
  p.back() = std::accumulate(counts.begin() + static_cast<std::ptrdiff_t>(end), counts.end(), p.back());
  const std::size_t merged = slice.size() / kQuantizedBins;
  std::vector<std::int64_t> q(slice.size());
  for (std::size_t level = 0; level < kQuantizedBins; ++level) {
    const std::size_t first = level * merged, last = first + merged;
    std::int64_t sum = 0, filled = 0;
    for (std::size_t i = first; i < last; ++i) {
      sum += slice[i];
      filled += p[i] != 0 ? 1 : 0;
    }
    if (level + 1 == kQuantizedBins)
      sum = std::accumulate(slice.begin() + static_cast<std::ptrdiff_t>(last), slice.end(), sum);
    // Whole numbers, as there, empty bins too, and nothing in the bins that are left over.
    if (filled != 0)
      std::fill(q.begin() + static_cast<std::ptrdiff_t>(first), q.begin() + static_cast<std::ptrdiff_t>(last),
                static_cast<std::int64_t>(static_cast<double>(sum) / static_cast<double>(filled)));
  }
  const auto smooth_p = smoothed(p), smooth_q = smoothed(q);
  if (smooth_p.empty() || smooth_q.empty()) return std::numeric_limits<float>::infinity();
  return divergence(smooth_p, smooth_q);
}

Range entropy_range(const std::vector<std::int64_t>& counts, const std::vector<float>& edges) {
  const std::size_t bins = counts.size(), zero = bins / 2, half = kQuantizedBins / 2;
  Range best;
  float least = 0;
  for (std::size_t i = half; i <= zero; ++i) {
    const std::size_t start = zero - i, end = std::min(zero + i + 1, bins);
    const float loss = divergence_of_slice(counts, start, end);
    if (i > half && !(loss < least)) continue;
    least = loss;
    best = {edges[start], edges[end]};
  }
  return best;
}

}  // namespace

Calibrator calibrator_from_name(std::string_view name) {
  std::string wanted(name.substr(0, 64));
  for (char& c : wanted) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (wanted == kNames[i]) return static_cast<Calibrator>(i);
  throw FieldError("calibrator", "expected minmax, percentile or entropy, found '{}'", wanted);
}

std::string_view name_of(Calibrator calibrator) {
  return kNames[static_cast<std::size_t>(calibrator)];
}

RangeObserver::RangeObserver(const ObserverOptions& options)
    : options_(options),
      has_magnitudes_(options.calibrator == Calibrator::percentile && options.is_symmetric) {
  if (options_.bins == 0) options_.bins = options_.calibrator == Calibrator::entropy ? 128 : 2048;
  most_bins_ = kMaxGrowth * options_.bins;
}

void RangeObserver::observe(std::span<const float> values) {
  const Range seen = range_of(values);
  if (seen.low > seen.high) return;  // nothing but NaN
  const bool is_first = values_ == 0;
  seen_ = is_first ? seen : Range{std::min(seen_.low, seen.low), std::max(seen_.high, seen.high)};
  values_ += static_cast<std::int64_t>(values.size());
  if (options_.calibrator == Calibrator::minmax) return;
  const float largest = std::max(std::fabs(seen.low), std::fabs(seen.high));
  std::vector<float> magnitudes;
  if (has_magnitudes_) {
    magnitudes.resize(values.size());
    std::transform(values.begin(), values.end(), magnitudes.begin(), [](float x) { return std::fabs(x); });
    values = magnitudes;
  }
  if (is_first)
    begin(has_magnitudes_ ? range_of(values) : Range{-largest, largest}, largest);
  else if (has_magnitudes_)
    widen_magnitudes(largest);
  else
    widen(largest);
  count(values);
}

void RangeObserver::begin(Range seen, float largest) {
  threshold_ = largest;
  if (seen.low == seen.high) seen = {seen.low - 0.5F, seen.high + 0.5F};
  counts_.assign(static_cast<std::size_t>(options_.bins), 0);
  edges_ = even_edges(seen.low, seen.high, counts_.size());
}

// Neighbours become one bin. Of a histogram about zero a pair never holds values of both signs.
void RangeObserver::join_bins() {
  const std::size_t unit = has_magnitudes_ ? 2 : 4;
  if (counts_.size() % unit != 0) {
    const float width = edges_[1] - edges_[0];
    edges_.push_back(edges_.back() + width);
    counts_.push_back(0);
    if (!has_magnitudes_) {
      edges_.insert(edges_.begin(), edges_.front() - width);
      counts_.insert(counts_.begin(), 0);
      threshold_ += width;
    }
  }
  for (std::size_t i = 0; i < counts_.size() / 2; ++i) {
    counts_[i] = counts_[2 * i] + counts_[2 * i + 1];
    edges_[i] = edges_[2 * i];
  }
  edges_[counts_.size() / 2] = edges_.back();
  counts_.resize(counts_.size() / 2);
  edges_.resize(counts_.size() + 1);
}

// merge_histogram of ONNX Runtime: the same width, more bins on both sides.
void RangeObserver::widen(float largest) {
  if (largest <= threshold_) return;
  if (threshold_ == 0) {  // nothing but zeros so far: their counts stay where they are
    threshold_ = largest;
    edges_ = even_edges(-largest, largest, counts_.size());
    return;
  }
  for (;;) {
    const auto bins = static_cast<float>(counts_.size());
    const float width = 2.0F * threshold_ / bins, half = floor_divide(largest - threshold_, width) + 1;
    if (!(2 * half + bins <= static_cast<float>(most_bins_))) {
      join_bins();
      continue;
    }
    const float more = half * width;
    threshold_ = more + threshold_;
    const auto added = static_cast<std::size_t>(half);
    counts_.insert(counts_.begin(), added, 0);
    counts_.insert(counts_.end(), added, 0);
    edges_ = even_edges(-threshold_, threshold_, counts_.size());
    return;
  }
}

// Bins of the same width behind the last, by numpy.arange.
void RangeObserver::widen_magnitudes(float largest) {
  if (largest <= edges_.back()) return;
  for (;;) {
    const float width = edges_[1] - edges_[0], first = edges_.back() + width, stop = largest + width;
    const float added = std::ceil((stop - first) / width);
    if (!(added + static_cast<float>(counts_.size()) <= static_cast<float>(most_bins_))) {
      join_bins();
      continue;
    }
    const float step = first + width - first;
    for (int i = 0; i < static_cast<int>(added); ++i) {
      const float offset = static_cast<float>(i) * step;
      edges_.push_back(i == 1 ? first + width : first + offset);
    }
    counts_.resize(edges_.size() - 1);
    return;
  }
}

void RangeObserver::count(std::span<const float> values) {
  const float first = edges_.front(), last = edges_.back();
  const auto bins = static_cast<std::ptrdiff_t>(counts_.size());
  const float per_width = static_cast<float>(bins) / (last - first);
  for (const float x : values) {
    if (!(x >= first && x <= last)) continue;
    auto bin = std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>((x - first) * per_width), 0, bins - 1);
    while (bin > 0 && x < edges_[static_cast<std::size_t>(bin)]) --bin;
    while (bin + 1 < bins && x >= edges_[static_cast<std::size_t>(bin + 1)]) ++bin;
    ++counts_[static_cast<std::size_t>(bin)];
  }
}

Range RangeObserver::percentile_range() const {
  const auto total = static_cast<double>(std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0}));
  std::vector<double> cumulative(counts_.size());
  double sum = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i)
    cumulative[i] = sum += static_cast<double>(counts_[i]) / total;
  const auto edge_at = [&](double share) {
    return edges_[static_cast<std::size_t>(std::lower_bound(cumulative.begin(), cumulative.end(), share) -
                                           cumulative.begin())];
  };
  if (has_magnitudes_) {
    const float edge = edge_at(options_.percentile / 100.0);
    return {-edge, edge};
  }
  const double cut = (100.0 - options_.percentile) / 200.0;
  return {edge_at(cut), edge_at(1.0 - cut)};
}

Range RangeObserver::range() const {
  if (values_ == 0) return {};
  if (options_.calibrator == Calibrator::minmax) {
    const float further = std::max(std::fabs(seen_.low), std::fabs(seen_.high));
    return options_.is_symmetric ? Range{-further, further} : seen_;
  }
  const Range range =
      options_.calibrator == Calibrator::entropy ? entropy_range(counts_, edges_) : percentile_range();
  return {std::max(range.low, seen_.low), std::min(range.high, seen_.high)};
}

double RangeObserver::clipped_share() const {
  Range kept = range();
  if (values_ == 0 || options_.calibrator == Calibrator::minmax) return 0;
  // Nothing lies beyond what was seen, though a bin may.
  if (has_magnitudes_) kept.high = std::max(-kept.low, kept.high);
  const bool clips_low = !has_magnitudes_ && kept.low > seen_.low,
             clips_high = kept.high < std::max(seen_.high, has_magnitudes_ ? -seen_.low : seen_.high);
  std::int64_t outside = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i)
    if ((clips_low && edges_[i + 1] <= kept.low) || (clips_high && edges_[i] >= kept.high))
      outside += counts_[i];
  return static_cast<double>(outside) / static_cast<double>(values_);
}

UniformCode uint8_code(Range range) {
  const auto low = static_cast<double>(std::min(range.low, 0.0F)),
             high = static_cast<double>(std::max(range.high, 0.0F));
  const double scale = (high - low) / 255;
  if (scale < static_cast<double>(FLT_MIN)) return {};
  return {static_cast<float>(scale), static_cast<int>(std::nearbyint(0 - low / scale))};
}

UniformCode dynamic_uint8_code(Range range) {
  const float low = std::min(range.low, 0.0F), high = std::max(range.high, 0.0F);
  if (low == high) return {};
  const float scale = (high - low) / 255.0F;
  return {scale, static_cast<int>(std::nearbyint(std::clamp(-low / scale, 0.0F, 255.0F)))};
}

UniformCode symmetric_int8_code(Range range) {
  const auto further = static_cast<double>(std::max({-range.low, range.high, 0.0F}));
  const double scale = 2 * further / 254;
  if (scale < static_cast<double>(FLT_MIN)) return {};
  return {static_cast<float>(scale), 0};
}

std::vector<float> smoothing_factors(std::span<const float> input_max, std::span<const float> weight_max,
                                     double alpha) {
  std::vector<float> factors(input_max.size(), 1.0F);
  for (std::size_t i = 0; i < factors.size(); ++i)
    if (input_max[i] > 0 && weight_max[i] > 0)
      factors[i] =
          static_cast<float>(std::max(1e-5, std::pow(static_cast<double>(input_max[i]), alpha) /
                                                std::pow(static_cast<double>(weight_max[i]), 1 - alpha)));
  return factors;
}

}  // namespace assay
