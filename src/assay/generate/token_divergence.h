// How far one next-token distribution is from another: the arithmetic on the logits of one position.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "assay/base/token_id.h"

namespace assay {

inline constexpr int kTopTokens = 5;

// What a position tells of a candidate beside the baseline, at temperature 1, in nats.
struct TokenDivergence {
  double kl = 0;                 // KL(baseline || candidate), the sum of p (ln p - ln q) over the vocabulary
  double nll_base = 0, nll = 0;  // the true token's -ln p and -ln q
  float p_base = 0, p = 0;       // the true token's
  bool same_top1 = false;        // the lowest id of equal logits counts as the highest
  float top5 = 0;                // the share of the baseline's top 5 that is in the candidate's top 5
  float base_margin = 0;         // the baseline's top-1 minus top-2 log-probability
};

// What is needed of the logits of one position, beside themselves.
struct LogitSummary {
  float max = 0;
  double log_sum = 0;                     // the logarithm of the sum of exp(logit - max)
  std::array<TokenId, kTopTokens> top{};  // the highest, ties by the lowest id
  int tops = 0;                           // how many of them there are: a vocabulary may have fewer
  float margin = 0;                       // the highest minus the second
};

// Empty where a logit is not finite. exp() is taken in float32 and summed in double, in an order that
// depends on the number of logits alone.
std::optional<LogitSummary> summary_of(std::span<const float> logits);

// `base` and `candidate` have the same length, which `target` is below. Equal logits give exactly 0. The
// rounding of exp() leaves about 1e-7 nats, which may be below 0.
TokenDivergence divergence_of(std::span<const float> base, const LogitSummary& of_base,
                              std::span<const float> candidate, const LogitSummary& of_candidate,
                              TokenId target);

}  // namespace assay
