// How speed grows with threads, and how many to use.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/harness/context.h"
#include "assay/results/results.h"
#include "assay/session/time_generate.h"

namespace assay {

struct ThreadsOptions {
  std::vector<std::int64_t> threads = {};  // empty: 1, 2, 4, ... and the processors this process may use
  Prompt prompt = "Once upon a time, in a land far, far away,";
  std::int64_t new_tokens = 50;
};

// A row per number of threads. A remark recommends the smallest number that no larger one was shown to beat.
ExperimentResult run_for_varied_threads(const ExperimentContext& context, const ThreadsOptions& options = {});

}  // namespace assay
