// Several sequences at once: throughput against latency.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/harness/experiment.h"

namespace assay {

struct BatchedOptions {
  std::vector<Prompt> prompts;  // of different lengths; empty: eight that ship
  std::vector<std::int64_t> batch_sizes{1, 4, 8};
  std::int64_t new_tokens = 50;
  Padding padding = Padding::none;
};

// The same prompts in batches of each size, a row per size: total latency, tokens/s in all and per sequence,
// ms per token, latency of a step. A last batch that is not full is run and counted as what it is; a size
// above the number of prompts is cut to it, with a warning. A size whose memory cannot be had is a row that
// says so.
ExperimentResult measure_batched(const ExperimentContext& experiment, const BatchedOptions& options = {});
std::vector<Case> batched_cases(const ExperimentContext& experiment, const BatchedOptions& options);

// Eight prompts of different lengths that ship with the program.
std::vector<Prompt> default_batch_prompts();

}  // namespace assay
