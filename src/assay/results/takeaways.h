// Three to five sentences that a result supports: each with its figure, and with a test behind what it
// claims.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assay/results/results.h"

namespace assay {

// By rule, from rows of the scenarios trade-off, perplexity, cache and batches and their comparisons; a rule
// whose rows are missing gives nothing, one whose test has no verdict says so.
//   memory    how many times smaller the smallest configuration is, and what keeps it from more
//   latency   the fastest configuration by the test against the baseline; why a smaller one is not faster
//   quality   what is lost most and least, as ratios of perplexity with intervals
//   cache and batch  what they gain
//   choice    small device: least memory within 5 % of the baseline's perplexity; server: most tokens per
//   second;
//             best quality: the fastest that no loss is shown for
std::vector<std::string> takeaways_of(const ResultSet& results);

// What the trade-off recommends, by label: the smallest whose perplexity rises by 5 % at most, the fastest,
// and the fastest with no loss shown.
struct Recommendation {
  std::string small_device, server, best_quality;  // empty where no perplexity was measured
};
// Empty where there are not two precisions to choose from.
std::optional<Recommendation> recommendation_of(const ResultSet& results);

}  // namespace assay
