// One prompt in every precision.
#pragma once

#include <string>
#include <vector>

#include "assay/studies/study.h"

namespace assay {

struct PrecisionsOptions {
  // As run_config_from_text() reads them. Empty: default_precisions().
  std::vector<std::string> precisions = {};
  Prompt prompt = "Once upon a time, in a land far, far away,";
  std::int64_t new_tokens = 50;
};

// float32, float16, bfloat16, and each quantized scheme twice: by Transformers' rule, which leaves the LM
// head alone, and with a quantized LM head.
std::vector<std::string> default_precisions();
// `asked`; where it is empty, default_precisions(), or the checkpoint's own precision if it is quantized.
std::vector<std::string> precisions_or_default(const ExperimentContext& context,
                                               const std::vector<std::string>& asked);

// The configurations that texts ask for. Texts that resolve to the same configuration give it once;
// `shown_as` tells what each text that was left out runs as. Throws UsageError for an unknown name.
struct ChosenConfigurations {
  std::vector<RunConfig> configurations;
  std::vector<std::pair<std::string, std::string>> shown_as;  // "float16" -> "float32"
};
ChosenConfigurations choose_configurations(const ExperimentContext& context,
                                           const std::vector<std::string>& texts);

// A case of every configuration that `precisions` ask for: one prompt each.
std::vector<Case> precision_cases(const ExperimentContext& context, Scenario scenario,
                                  const std::vector<std::string>& precisions, const Prompt& prompt,
                                  std::int64_t new_tokens);
// Warns on the rows of configurations that several names asked for.
void add_equal_names(const ExperimentContext& context, const std::vector<std::string>& precisions,
                     std::vector<CaseOutcome>& outcomes);

// A row per precision with the label of what really ran, and its comparison with the first.
ExperimentResult run_varied_precision(const ExperimentContext& context,
                                      const PrecisionsOptions& options = {});

Study precisions_study();

}  // namespace assay
