// Precisions in one batch: which of them serves several users at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/harness/context.h"
#include "assay/results/results.h"
#include "assay/session/time_generate.h"

namespace assay {

struct BatchedPrecisionsOptions {
  std::vector<std::string> precisions = {};  // empty: default_precisions(); the first is the baseline
  std::vector<Prompt> prompts = {};          // their lengths differ; empty: eight that ship
  std::int64_t batch_size = 8;
  std::int64_t new_tokens = 50;
};

// The same prompts in batches of one size, a row per precision, compared with the first. A size above the
// number of prompts is cut to it, with a warning. A precision that does not fit in memory is a failed row.
ExperimentResult measure_batched_precisions(const ExperimentContext& context,
                                            const BatchedPrecisionsOptions& options = {});

}  // namespace assay
