// One prompt in every precision.
#pragma once

#include <string>
#include <vector>

#include "assay/harness/experiment.h"

namespace assay {

struct PrecisionsOptions {
  // As run_config_from_text() reads them. Empty: default_precisions().
  std::vector<std::string> precisions;
  Prompt prompt = "Once upon a time, in a land far, far away,";
  std::int64_t new_tokens = 50;
};

// float32, float16, bfloat16, and each quantized scheme both by Transformers' rule and with the head
// quantized too.
std::vector<std::string> default_precisions();
// `asked`, or where it is empty: the default ones, or the one that the checkpoint is quantized in already.
std::vector<std::string> precisions_or_default(const ExperimentContext& experiment,
                                               const std::vector<std::string>& asked);

// Of texts: without those that resolve to the same thing, which is measured once; `shown_as` says of each
// left-out one what it runs as. Throws UsageError for an unknown name.
struct ChosenConfigurations {
  std::vector<RunConfig> configurations;
  std::vector<std::pair<std::string, std::string>> shown_as;  // "float16" -> "float32"
};
ChosenConfigurations choose_configurations(const ExperimentContext& experiment,
                                           const std::vector<std::string>& texts);

// A row per precision with the label of what really ran, and its comparison with the baseline.
ExperimentResult run_varied_precision(const ExperimentContext& experiment,
                                      const PrecisionsOptions& options = {});
std::vector<Case> precisions_cases(const ExperimentContext& experiment, const PrecisionsOptions& options);

}  // namespace assay
