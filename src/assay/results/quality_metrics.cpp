#include "assay/results/quality_metrics.h"

namespace assay {

namespace {

using At = Scenario;

constexpr Metric kQuality[] = {
    {.tag = "kl_mean",
     .title = "KL divergence",
     .head = "KL",
     .unit = "nats/token",
     .better = Better::lower,
     .shown_unit = "nats",
     .decimals = 4,
     .shows_interval = true,
     .tables = {At::tradeoff, At::divergence},
     .rank = 2,
     .definition = "Mean over the scored tokens of KL(baseline || candidate) of the next-token distributions "
                   "at temperature 1: sum of p (ln p - ln q) over the vocabulary."},
    {.tag = "kl_median",
     .title = "Median of the KL divergence",
     .head = "KL median",
     .unit = "nats/token",
     .better = Better::lower,
     .decimals = 4,
     .tables = {At::divergence},
     .rank = 6,
     .definition = "Median over the scored tokens of the KL divergence."},
    {.tag = "kl_p99",
     .title = "99th percentile of the KL divergence",
     .head = "KL p99",
     .unit = "nats/token",
     .better = Better::lower,
     .decimals = 3,
     .tables = {At::divergence},
     .rank = 5,
     .definition = "99th percentile over the scored tokens of the KL divergence."},
    {.tag = "kl_max",
     .title = "Largest KL divergence",
     .head = "KL max",
     .unit = "nats/token",
     .better = Better::lower,
     .decimals = 3,
     .tables = {At::divergence},
     .rank = 7,
     .definition = "Largest KL divergence of a scored token."},
    {.tag = "top1_agreement",
     .title = "Top-1 agreement",
     .head = "Top-1",
     .unit = "",
     .better = Better::higher,
     .scale = 100,
     .shown_unit = "%",
     .decimals = 1,
     .tables = {At::tradeoff, At::divergence},
     .rank = 5,
     .definition = "Share of the scored tokens at which the baseline and the candidate have the same most "
                   "probable token; of equal logits the lowest id counts."},
    {.tag = "delta_p_rms",
     .title = "RMS change of the true token's probability",
     .head = "RMS dp",
     .unit = "",
     .better = Better::lower,
     .scale = 100,
     .shown_unit = "%",
     .decimals = 2,
     .tables = {At::divergence},
     .rank = 6,
     .definition = "Root of the mean square of q - p over the scored tokens, where p is the baseline's "
                   "probability of the text's token and q the candidate's."},
    {.tag = "log_perplexity_ratio",
     .title = "Logarithm of the perplexity ratio",
     .head = "ln PPL ratio",
     .unit = "nats/token",
     .better = Better::lower,
     .decimals = 4,
     .tables = {At::divergence},
     .rank = 6,
     .definition = "Mean over the scored tokens of the candidate's loss less the baseline's."},
    {.tag = "noise_floor",
     .title = "Noise floor of the KL divergence",
     .head = "Noise floor",
     .unit = "nats/token",
     .better = Better::neither,
     .decimals = 4,
     .tables = {At::divergence},
     .rank = 8,
     .definition = "Mean KL divergence of the baseline from itself in the other of float32 and bfloat16, as "
                   "noise_floor_of names it: a KL below three times it is not distinguishable from the "
                   "noise floor. The same arithmetic in another batch gives exactly 0."},
};

}  // namespace

std::span<const Metric> quality_metrics() {
  return kQuality;
}

}  // namespace assay
