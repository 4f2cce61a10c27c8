// Several sequences at once: throughput against latency.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/harness/context.h"
#include "assay/results/results.h"
#include "assay/session/time_generate.h"

namespace assay {

struct BatchedOptions {
  std::vector<Prompt> prompts = {};  // their lengths differ; empty: eight that ship
  std::vector<std::int64_t> batch_sizes{1, 4, 8};
  std::int64_t new_tokens = 50;
  Padding padding = Padding::none;
};

// The same prompts in batches of each size, a row per size: total latency, tokens/s in all and per sequence,
// latency per token and per step. A last batch that is not full is run and counted as what it is. A size
// above the number of prompts is cut to it, with a warning. A size that does not fit in memory is a failed
// row.
ExperimentResult measure_batched(const ExperimentContext& context, const BatchedOptions& options = {});

// Eight prompts of different lengths that ship with the program.
std::vector<Prompt> default_batch_prompts();

}  // namespace assay
