// Unusual prompts beside a typical one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/harness/experiment.h"

namespace assay {

struct EdgeOptions {
  std::int64_t new_tokens = 50;
  std::vector<std::pair<std::string, Prompt>> more;  // prompts of the user's own, by name
};

// Very short, very long, multi-line, repetitive, only blanks, rare Unicode, digits, code: the same new tokens
// for all. A remark for each whose latency differs from the typical one's names the phase that explains most
// of it.
ExperimentResult probe_edge_prompts(const ExperimentContext& experiment, const EdgeOptions& options = {});
std::vector<Case> edge_cases(const ExperimentContext& experiment, const EdgeOptions& options);

}  // namespace assay
