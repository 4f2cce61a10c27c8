// One prompt in every precision.
#pragma once

#include <string>
#include <vector>

#include "assay/harness/context.h"
#include "assay/results/results.h"
#include "assay/session/time_generate.h"

namespace assay {

struct PrecisionsOptions {
  // As run_config_from_text() reads them. Empty: default_precisions().
  std::vector<std::string> precisions = {};
  Prompt prompt = "Once upon a time, in a land far, far away,";
  std::int64_t new_tokens = 50;
};

// float32, float16, bfloat16, and each quantized scheme twice: by Transformers' rule, which leaves the LM
// head alone, and with a quantized LM head.
// Of a GPU float16 comes first: it is what the others are compared with there.
std::vector<std::string> default_precisions(const Device& device = {});
// A row per precision with the label of what really ran, and its comparison with the first.
ExperimentResult run_varied_precision(const ExperimentContext& context,
                                      const PrecisionsOptions& options = {});

}  // namespace assay
