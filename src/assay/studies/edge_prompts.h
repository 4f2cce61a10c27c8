// Edge-case prompts beside a typical one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "assay/harness/context.h"
#include "assay/results/results.h"
#include "assay/session/time_generate.h"

namespace assay {

struct EdgeOptions {
  std::int64_t new_tokens = 50;
  std::vector<std::pair<std::string, Prompt>> more = {};  // further prompts, by name
  std::vector<Prompt> prompts = {};                       // and without one: "own prompt 1", ...
};

// Prompts that are very short, very long, multi-line, repetitive, only blanks, rare Unicode, digits and code,
// with the same number of new tokens. For each whose latency differs from the typical prompt's, a remark
// names the phase that explains most of the difference.
ExperimentResult probe_edge_prompts(const ExperimentContext& context, const EdgeOptions& options = {});

}  // namespace assay
