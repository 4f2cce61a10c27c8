// What the KV cache and padding cost and save, and whether either changes a result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/harness/context.h"
#include "assay/results/results.h"
#include "assay/session/time_generate.h"

namespace assay {

struct AblationOptions {
  std::vector<std::int64_t> lengths{32, 128};  // those of the prompts whose cache is ablated
  std::string base = "In the beginning the road was wide and the evening light lay over the fields. ";
  std::int64_t new_tokens = 32;
  std::vector<Prompt> padded_prompts = {};  // their lengths differ; empty: four that ship, of 8 to 96 tokens
  bool has_cache = true, has_padding = true;  // which halves to run
};

// Median times of decode steps, by the number of tokens that the sequence holds.
struct StepTimes {
  std::vector<double> position, milliseconds;
};
// What lines and parabolas through them say, cache on and off: each fit that explains half of the variance,
// and where the two lines cross if that lies among the positions of both.
std::vector<Finding> step_findings(const StepTimes& on, const StepTimes& off);

// Rows "cache on" and "cache off" per length, and one batch without padding, padded left and padded right,
// each with its padding overhead. Findings: the time of a decode step against its position, fitted by a line
// and a parabola with the cache and without, and where the lines cross; what padding costs. The audit
// compares ids and logits of all settings.
ExperimentResult ablate_cache_and_padding(const ExperimentContext& context,
                                          const AblationOptions& options = {});

}  // namespace assay
