// The trade-off study: memory, latency and texts of every precision.
#pragma once

#include <string>
#include <vector>

#include "assay/harness/context.h"
#include "assay/results/results.h"
#include "assay/session/time_generate.h"

namespace assay {

struct TradeoffOptions {
  std::vector<std::string> precisions = {};  // empty: default_precisions(); the first is the baseline
  std::vector<Prompt> prompts{"The capital of France is", "Once upon a time, in a land far, far away,",
                              "To be or not to be, that is the"};
  std::int64_t new_tokens = 50;
};

// A row per configuration: memory, latency of the first prompt over the timing runs (SweepOptions::repeats),
// the time to quantize and the number of tokens after which it has paid off; the text of every prompt, the
// first prompt's from its first generation. Remarks say after how many tokens each text diverges from the
// baseline's, and which texts repeat themselves.
ExperimentResult run_quantization_tradeoff(const ExperimentContext& context,
                                           const TradeoffOptions& options = {});

// Puts speed, memory and quality into one row: copies perplexity and its ratio, KL divergence and
// top-1 agreement from each row that measured them to the trade-off row of the same configuration.
void merge_quality(std::vector<Row>& rows);

// The share of a text that is one sequence of ids repeated up to its end; 0 where nothing repeats.
double repetition_share(const std::vector<TokenId>& ids);

}  // namespace assay
