#include "assay/generate/token_divergence.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>

namespace assay {

namespace {

// Sums run in so many lanes side by side, which compilers turn into vectors.
constexpr std::size_t kLanes = 8;

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

double total(const double (&lanes)[kLanes]) {
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

double sum_of_exp(std::span<const float> logits, float max) {
  double lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j)
      lanes[j] += static_cast<double>(exp_of_negative(logits[i + j] - max));
  for (; i < logits.size(); ++i) lanes[0] += static_cast<double>(exp_of_negative(logits[i] - max));
  return total(lanes);
}

bool are_finite(std::span<const float> logits) {
  bool all = true;
  for (const float logit : logits) all &= std::fabs(logit) <= std::numeric_limits<float>::max();
  return all;
}

// An id enters in front of those whose logits are lower, so that of equals the lower id stays in front.
void find_top(std::span<const float> logits, LogitSummary& summary) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto logit_at = [&](int place) {
      return logits[static_cast<std::size_t>(summary.top[static_cast<std::size_t>(place)])];
    };
    if (summary.tops == kTopTokens && logits[i] <= logit_at(kTopTokens - 1)) continue;
    int place = std::min(summary.tops, kTopTokens - 1);
    for (; place > 0 && logits[i] > logit_at(place - 1); --place)
      summary.top[static_cast<std::size_t>(place)] = summary.top[static_cast<std::size_t>(place - 1)];
    summary.top[static_cast<std::size_t>(place)] = static_cast<TokenId>(i);
    summary.tops = std::min(summary.tops + 1, kTopTokens);
  }
  summary.max = logits[static_cast<std::size_t>(summary.top[0])];
  if (summary.tops > 1) summary.margin = summary.max - logits[static_cast<std::size_t>(summary.top[1])];
}

// The sum of exp(x - max) ((x - max) - (y - other_max)): differences are exact in double.
double weighted_difference(std::span<const float> x, float max, std::span<const float> y, float other_max) {
  const double shift = static_cast<double>(max) - static_cast<double>(other_max);
  double lanes[kLanes] = {};
  const auto term = [&](std::size_t i) {
    return static_cast<double>(exp_of_negative(x[i] - max)) *
           (static_cast<double>(x[i]) - static_cast<double>(y[i]) - shift);
  };
  std::size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] += term(i + j);
  for (; i < x.size(); ++i) lanes[0] += term(i);
  return total(lanes);
}

double nll_of(std::span<const float> logits, const LogitSummary& summary, TokenId target) {
  return summary.log_sum -
         (static_cast<double>(logits[static_cast<std::size_t>(target)]) - static_cast<double>(summary.max));
}

}  // namespace

std::optional<LogitSummary> summary_of(std::span<const float> logits) {
  if (logits.empty() || !are_finite(logits)) return std::nullopt;
  LogitSummary summary;
  find_top(logits, summary);
  summary.log_sum = std::log(sum_of_exp(logits, summary.max));
  return summary;
}

TokenDivergence divergence_of(std::span<const float> base, const LogitSummary& of_base,
                              std::span<const float> candidate, const LogitSummary& of_candidate,
                              TokenId target) {
  TokenDivergence d;
  const double sum = std::exp(of_base.log_sum);
  d.kl = weighted_difference(base, of_base.max, candidate, of_candidate.max) / sum +
         (of_candidate.log_sum - of_base.log_sum);
  d.nll_base = nll_of(base, of_base, target);
  d.nll = nll_of(candidate, of_candidate, target);
  d.p_base = static_cast<float>(std::exp(-d.nll_base));
  d.p = static_cast<float>(std::exp(-d.nll));
  d.same_top1 = of_base.top[0] == of_candidate.top[0];
  const auto end = of_candidate.top.begin() + of_candidate.tops;
  int shared = 0;
  for (int i = 0; i < of_base.tops; ++i)
    shared += std::find(of_candidate.top.begin(), end, of_base.top[static_cast<std::size_t>(i)]) != end;
  d.top5 = static_cast<float>(shared) / static_cast<float>(of_base.tops);
  d.base_margin = of_base.margin;
  return d;
}

}  // namespace assay
