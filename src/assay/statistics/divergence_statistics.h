// Figures of a divergence over the tokens of a text, with intervals that know that neighbouring tokens depend
// on each other.
//
// Tokens are taken together in blocks of 256 neighbours, which are the replicates. An interval holds the
// values that a test by sign flips of the blocks does not reject: means (or quantiles) of random subsets of
// the blocks lie to both sides of the true one with known chances (Hartigan, "Using subsample values as
// typical values", 1969). That needs no normal distribution and holds for few blocks; it assumes that blocks
// lie about as often above as below. Draws are those of one fixed seed: the same tokens give the same
// interval.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "assay/statistics/statistics.h"

namespace assay::statistics {

inline constexpr std::int64_t kDivergenceBlock = 256;
// A quantile of 99.9 % is given from so many tokens on.
inline constexpr std::size_t kTokensForP999 = 10000;
// A fall of the true token's probability that counts as one.
inline constexpr double kFall = 0.1;

// Without an interval where the tokens make fewer than kMinForInterval blocks.
struct Estimate {
  double value = 0;
  std::optional<Interval> interval = {};
};

// The mean of values in text order.
Estimate token_mean(std::span<const double> in_order);
// Quantiles of values in text order, as quantile() has them, one for each of `p`.
std::vector<Estimate> token_quantiles(std::span<const double> in_order, std::span<const double> p);

// One number of each token, all in text order and of one length.
struct DivergenceTokens {
  std::vector<double> kl;              // nats
  std::vector<double> nll_change;      // the true token's, candidate less baseline, nats
  std::vector<double> p_change;        // its probability, candidate less baseline
  std::vector<double> same_top1;       // 1 or 0
  std::vector<double> top5_agreement;  // a share
};

struct DivergenceFigures {
  std::int64_t tokens = 0;
  Estimate kl_mean, kl_median, kl_p90, kl_p99;
  std::optional<Estimate> kl_p999;  // from kTokensForP999 tokens on
  double kl_max = 0;
  std::size_t kl_max_token = 0;  // its place among the tokens, the first of equals
  Estimate top1_agreement, top5_agreement;
  Estimate p_change_mean, p_change_rms;
  Estimate p_falls;               // the share of tokens whose probability falls by more than kFall
  Estimate log_perplexity_ratio;  // the mean change of the loss, nats
};
// Throws std::logic_error where there is no token, or the lengths differ.
DivergenceFigures divergence_figures(const DivergenceTokens& tokens);

// How many tokens a new text would need, so that a test finds a difference with a power of 90 %. A forecast
// from few blocks is as rough as the difference that they have: it lies between the bounds in four of five
// texts. There is none above where the difference may be 0.
struct TokensNeeded {
  std::int64_t about = 0, low = 0;
  std::optional<std::int64_t> high = {};
  bool operator==(const TokensNeeded&) const = default;
};

// Two candidates on the same tokens.
struct PairedDivergence {
  Estimate difference;        // mean KL of the first less that of the second
  double p_value = 1;         // by sign flips of the blocks' differences, two-sided, of no difference
  std::size_t blocks = 0;     // below kMinForInterval there is no verdict
  double first_is_lower = 0;  // the share of tokens at which the first has the lower KL, ties half
  // For a test at the level of 5 %. Empty where there is no difference, or it is not known.
  std::optional<TokensNeeded> tokens_needed = {};
};
PairedDivergence compare_divergence(std::span<const double> first_kl, std::span<const double> second_kl);

}  // namespace assay::statistics
