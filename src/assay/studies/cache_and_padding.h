// What the KV cache and padding cost and gain, and that neither changes a result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/harness/experiment.h"

namespace assay {

struct AblationOptions {
  std::vector<std::int64_t> lengths{32, 128};  // of the prompts whose cache is ablated
  std::string base = "In the beginning the road was wide and the evening light lay over the fields. ";
  std::int64_t new_tokens = 32;
  std::vector<Prompt> padded_prompts;  // of different lengths; empty: four that ship, from 8 to 96 tokens
  bool has_cache = true, has_padding = true;  // which halves to run
};

// Rows "cache on" and "cache off" per length, and one batch with padding none, left and right, each with the
// share of its work that is padding. Remarks: the time per token against the position, fitted by a line and a
// parabola for either, and where they cross; real against padded tokens per second. The audit compares ids
// and logits of all settings.
ExperimentResult ablate_cache_and_padding(const ExperimentContext& experiment,
                                          const AblationOptions& options = {});
std::vector<Case> ablation_cases(const ExperimentContext& experiment, const AblationOptions& options);

}  // namespace assay
