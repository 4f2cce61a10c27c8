// How far one next-token distribution is from another: the arithmetic on the logits of one position, which
// come in slices of ascending ids, so that those of a large vocabulary never stand in memory together.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "assay/backend/head.h"
#include "assay/base/token_id.h"

namespace assay {

// What a position tells of a candidate beside the baseline, at temperature 1, in nats.
struct TokenDivergence {
  double kl = 0;                 // KL(baseline || candidate), the sum of p (ln p - ln q) over the vocabulary
  double nll_base = 0, nll = 0;  // the true token's -ln p and -ln q
  float p_base = 0, p = 0;       // the true token's
  bool same_top1 = false;        // the lowest id of equal logits counts as the highest
  float top5 = 0;                // the share of the baseline's top 5 that is in the candidate's top 5
  float base_margin = 0;         // the baseline's top-1 minus top-2 log-probability
};

// What is known of a model's logits of one position so far.
struct LogitSummary {
  double max = 0, sum = 0;                     // the sum of exp(logit - max)
  std::array<TokenId, kTopTokens> top{};       // the highest, ties by the lowest id
  std::array<float, kTopTokens> top_logits{};  // theirs
  int tops = 0;                                // how many there are: a vocabulary may have fewer
  float target_logit = 0;                      // the true token's

  double log_sum_exp() const;
  float margin() const { return tops > 1 ? top_logits[0] - top_logits[1] : 0; }
};

// By what sums of earlier slices, and those of this one, are multiplied to stand beside each other.
struct SliceScales {
  double earlier = 0, own = 1;
};

// Takes what a slice of logits was reduced to, behind those of lower ids. Empty where a logit is not finite.
std::optional<SliceScales> add_slice(LogitSummary& summary, const RowSlice& slice);

// The same for a slice of logits from id `first` on, which are reduced here: powers[i] becomes exp(logits[i]
// - the slice's highest).
std::optional<SliceScales> add_slice(LogitSummary& summary, std::span<const float> logits, TokenId first,
                                     TokenId target, const LogitReducer& reducer, float* powers);

// `weighed` is the sum over all slices of exp(base - its highest) * (base - candidate), put together by the
// baseline's SliceScales. Equal logits give exactly 0. The rounding of exp() leaves about 1e-7 nats, which
// may be below 0.
TokenDivergence divergence_of(const LogitSummary& base, const LogitSummary& candidate, double weighed);

// Sums over a slice for logits of a device without kernels for it (Program::logit_reducer()).
const LogitReducer& portable_logit_reducer();

}  // namespace assay
