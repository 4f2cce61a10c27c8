// The three to four sentences that a result supports, each with its figure and the test behind it, and what
// to choose.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assay/results/results.h"

namespace assay {

// By rule, from rows of the scenarios tradeoff, cache and batches and their comparisons; a rule whose rows
// are missing gives nothing, one whose test has no verdict says so.
//   memory    how many times smaller the smallest configuration is, and what keeps it from being smaller
//   latency   the fastest configuration by its test against the baseline; what slows the smallest one down
//   quality   which loses least and most, as ratios of perplexity with intervals
//   cache and batch  what they gain
std::vector<std::string> takeaways_of(const ResultSet& results);

// What the trade-off recommends, by label: the smallest whose perplexity rises by 5 % at most, the fastest,
// and the fastest with no loss shown.
struct Recommendation {
  std::string small_device, server, best_quality;  // empty where no perplexity was measured
  std::vector<std::string> sentences;              // one for each that is not empty, with its figures
};
// Empty where there are not two precisions to choose from.
std::optional<Recommendation> recommendation_of(const ResultSet& results);

}  // namespace assay
