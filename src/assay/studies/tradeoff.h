// The trade-off experiment: every precision's memory, latency and texts.
#pragma once

#include <string>
#include <vector>

#include "assay/harness/experiment.h"

namespace assay {

struct TradeoffOptions {
  std::vector<std::string> precisions;  // empty: default_precisions(); the first is the baseline
  std::vector<Prompt> prompts{"The capital of France is", "Once upon a time, in a land far, far away,",
                              "To be or not to be, that is the"};
  std::int64_t new_tokens = 50;
};

// A row per configuration: memory, latency of the first prompt over the timing runs (SweepOptions::repeats),
// quantizing time and after how many tokens it has paid; the text of every prompt, the first prompt's from
// its first generation. A configuration that fails is a failed row with its reason. Remarks say
// where each text leaves the baseline's, and which texts repeat themselves.
ExperimentResult run_quantization_tradeoff(const ExperimentContext& experiment,
                                           const TradeoffOptions& options = {});
std::vector<Case> tradeoff_cases(const ExperimentContext& experiment, const TradeoffOptions& options);

// Speed, memory and quality in one row: copies perplexity and its ratio from the perplexity rows to the
// trade-off rows of the same configuration.
void merge_quality(std::vector<Row>& rows);

// The longest run of ids that repeats at once at the end of a text, as a share of it; 0 where nothing does.
double repetition_share(const std::vector<TokenId>& ids);

}  // namespace assay
