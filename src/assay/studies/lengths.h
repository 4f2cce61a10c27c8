// Latency and speed against the length of the prompt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/harness/context.h"
#include "assay/results/results.h"

namespace assay {

struct LengthsOptions {
  std::vector<std::int64_t> lengths{32, 128, 512, 0};  // those of prompts, in tokens; 0 = the longest that
                                                       // fits; these defaults take 2048 too where it fits
  // Repeated until its tokens meet or exceed a length, then cut to exactly as many.
  std::string base = "In the beginning the road was wide and the evening light lay over the fields. ";
  std::int64_t new_tokens = 50;
  bool uses_cache = true;
};

// A row per length, shortest first: prompt_tokens and the metrics of time_generate. A length beyond the
// context is cut to it, with a warning. A remark says whether latency grew with the length, as it should.
// Throws Error where the base gives no tokens, FieldError for a length below 0.
ExperimentResult run_for_varied_lengths(const ExperimentContext& context, const LengthsOptions& options = {});

}  // namespace assay
