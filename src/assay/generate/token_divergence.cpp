#include "assay/generate/token_divergence.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>

namespace assay {

namespace {

// Sums run in so many lanes side by side, which compilers turn into vectors.
constexpr std::int64_t kLanes = 8;

// exp(x) for x <= 0 within two units of the last place, after expf() of Moshier's Cephes; below -87, where
// float32 leaves its normal range, 0.
inline float exp_of_negative(float x) {
  constexpr float kLowest = -87, kToWhole = 12582912;  // 1.5 * 2^23: adding it rounds to a whole number
  constexpr float kLog2 = 1.44269504088896341F, kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  const float kept = x < kLowest ? kLowest : x;
  const float shifted = kept * kLog2 + kToWhole, n = shifted - kToWhole;
  const float r = kept - n * kLn2High - n * kLn2Low;
  float y = 1.9875691500e-4F;
  y = y * r + 1.3981999507e-3F;
  y = y * r + 8.3334519073e-3F;
  y = y * r + 4.1665795894e-2F;
  y = y * r + 1.6666665459e-1F;
  y = y * r + 5.0000001201e-1F;
  y = y * (r * r) + r + 1;
  const float power = std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
  return x < kLowest ? 0 : y * power;
}

SliceSums sum_logits(const float* x, std::int64_t n, float* powers) noexcept {
  SliceSums sums{.max = x[0], .is_finite = true};
  for (std::int64_t i = 0; i < n; ++i) {
    sums.max = x[i] > sums.max ? x[i] : sums.max;
    sums.is_finite &= std::fabs(x[i]) <= std::numeric_limits<float>::max();
  }
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t j = 0; j < kLanes; ++j) {
      powers[i + j] = exp_of_negative(x[i + j] - sums.max);
      lanes[j] += static_cast<double>(powers[i + j]);
    }
  for (; i < n; ++i) {
    powers[i] = exp_of_negative(x[i] - sums.max);
    lanes[0] += static_cast<double>(powers[i]);
  }
  for (const double lane : lanes) sums.sum += lane;
  return sums;
}

// Differences of floats are exact in double.
double weigh_logits(const float* powers, const float* x, const float* y, std::int64_t n) noexcept {
  double lanes[kLanes] = {};
  const auto term = [&](std::int64_t i) {
    return static_cast<double>(powers[i]) * (static_cast<double>(x[i]) - static_cast<double>(y[i]));
  };
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t j = 0; j < kLanes; ++j) lanes[j] += term(i + j);
  for (; i < n; ++i) lanes[0] += term(i);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

// An id enters in front of those whose logits are lower, so that of equals the lower id stays in front.
template <typename Highest>
void enter_top(Highest& highest, float logit, TokenId id) {
  int place = std::min(highest.tops, kTopTokens - 1);
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  for (; place > 0 && logit > highest.top_logits[at(place - 1)]; --place) {
    highest.top[at(place)] = highest.top[at(place - 1)];
    highest.top_logits[at(place)] = highest.top_logits[at(place - 1)];
  }
  highest.top[at(place)] = id;
  highest.top_logits[at(place)] = logit;
  highest.tops = std::min(highest.tops + 1, kTopTokens);
}

// What a logit must exceed to enter.
template <typename Highest>
float least_of(const Highest& highest, float floor) {
  return highest.tops == kTopTokens ? highest.top_logits[kTopTokens - 1] : floor;
}
constexpr float kNoFloor = -std::numeric_limits<float>::infinity();

// The highest of a slice, as far as they exceed `floor`. Most runs of logits hold none of them: a loop that
// compilers make vectors of passes them by.
void find_top(RowSlice& slice, std::span<const float> logits, TokenId first, float floor) {
  constexpr std::size_t kAtOnce = 64;
  for (std::size_t begin = 0; begin < logits.size(); begin += kAtOnce) {
    const std::size_t end = std::min(begin + kAtOnce, logits.size());
    const float least = least_of(slice, floor);
    int any = 0;
    for (std::size_t i = begin; i < end; ++i) any |= logits[i] > least ? 1 : 0;
    if (any == 0) continue;
    for (std::size_t i = begin; i < end; ++i)
      if (logits[i] > least_of(slice, floor)) enter_top(slice, logits[i], first + static_cast<TokenId>(i));
  }
}

constexpr LogitReducer kPortable{sum_logits, weigh_logits};

double nll_of(const LogitSummary& summary) {
  return summary.log_sum_exp() - static_cast<double>(summary.target_logit);
}

}  // namespace

double LogitSummary::log_sum_exp() const {
  return max + std::log(sum);
}

std::optional<SliceScales> add_slice(LogitSummary& summary, const RowSlice& slice) {
  if (!slice.sums.is_finite) return std::nullopt;
  for (int i = 0; i < slice.tops && slice.top_logits[i] > least_of(summary, kNoFloor); ++i)
    enter_top(summary, slice.top_logits[i], slice.top[i]);
  if (slice.has_target) summary.target_logit = slice.target_logit;
  const double highest = static_cast<double>(slice.sums.max);
  SliceScales scales;
  if (summary.sum == 0) {
    summary.max = highest;
  } else {
    const double max = std::max(summary.max, highest);
    scales = {std::exp(summary.max - max), std::exp(highest - max)};
    summary.max = max;
  }
  summary.sum = summary.sum * scales.earlier + slice.sums.sum * scales.own;
  return scales;
}

std::optional<SliceScales> add_slice(LogitSummary& summary, std::span<const float> logits, TokenId first,
                                     TokenId target, const LogitReducer& reducer, float* powers) {
  RowSlice slice{.sums = reducer.sum(logits.data(), static_cast<std::int64_t>(logits.size()), powers)};
  const float floor = least_of(summary, kNoFloor);
  if (slice.sums.is_finite && slice.sums.max > floor) find_top(slice, logits, first, floor);
  slice.has_target = target >= first && target - first < static_cast<TokenId>(logits.size());
  if (slice.has_target) slice.target_logit = logits[static_cast<std::size_t>(target - first)];
  return add_slice(summary, slice);
}

TokenDivergence divergence_of(const LogitSummary& base, const LogitSummary& candidate, double weighed) {
  TokenDivergence d;
  d.kl = weighed / base.sum + (candidate.log_sum_exp() - base.log_sum_exp());
  d.nll_base = nll_of(base);
  d.nll = nll_of(candidate);
  d.p_base = static_cast<float>(std::exp(-d.nll_base));
  d.p = static_cast<float>(std::exp(-d.nll));
  d.same_top1 = base.top[0] == candidate.top[0];
  const auto end = candidate.top.begin() + candidate.tops;
  int shared = 0;
  for (int i = 0; i < base.tops; ++i)
    shared += std::find(candidate.top.begin(), end, base.top[static_cast<std::size_t>(i)]) != end;
  d.top5 = static_cast<float>(shared) / static_cast<float>(base.tops);
  d.base_margin = base.margin();
  return d;
}

const LogitReducer& portable_logit_reducer() {
  return kPortable;
}

}  // namespace assay
