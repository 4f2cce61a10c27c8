// The quality of several models or configurations on one text, side by side.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "assay/config/run_config.h"
#include "assay/generate/scorer.h"
#include "assay/harness/context.h"
#include "assay/results/results.h"

namespace assay {

struct LoadedModel;  // session/load.h
struct LossAndPerplexity {
  double loss = 0, ppx = 0;
  std::int64_t tokens = 0;
  std::vector<Warning>
      warnings;  // a sudden large rise against the first: "check tokenization and aggregation"
};
// The perplexity of each model over all sentences, every sentence scored on its own: losses are summed over
// tokens and divided by their number, then exp(). In the order given. Throws Error where no sentence has two
// tokens.
std::vector<std::pair<std::string, LossAndPerplexity>> compare_ppplx(
    const std::vector<std::pair<std::string, const LoadedModel*>>& models,
    const std::vector<std::string>& sentences);

struct PerplexityOptions {
  std::vector<RunConfig> configurations = {};        // the first is what the others are compared with;
  std::vector<std::string> precisions = {};          // empty: made of these, as choose_configurations() does
  std::optional<std::filesystem::path> corpus = {};  // unset: the text that ships
  std::optional<std::int64_t> context = {}, stride = {};  // unset: the scorer's defaults
  ScoreThrough through = ScoreThrough::prefill;
};
// A row per configuration: loss and perplexity with an interval from the means of blocks of 512 tokens, and
// the ratio to the first's over the same tokens, from blocks of 64. Throws Error for a corpus that cannot be
// scored.
ExperimentResult compare_perplexity(const ExperimentContext& context, const PerplexityOptions& options);

}  // namespace assay
