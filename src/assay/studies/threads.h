// How speed grows with threads, and how many to use.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/harness/experiment.h"

namespace assay {

struct ThreadsOptions {
  std::vector<std::int64_t> threads;  // empty: 1, 2, 4, ... and the processors this process may use
  Prompt prompt = "Once upon a time, in a land far, far away,";
  std::int64_t new_tokens = 50;
};

// A row per number of threads; a remark recommends the smallest that nothing is shown to be faster than.
ExperimentResult run_for_varied_threads(const ExperimentContext& experiment,
                                        const ThreadsOptions& options = {});
std::vector<Case> threads_cases(const ExperimentContext& experiment, const ThreadsOptions& options);

}  // namespace assay
