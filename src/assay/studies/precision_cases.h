// Configurations and cases of the studies that compare precisions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "assay/harness/budget.h"
#include "assay/harness/predict.h"
#include "assay/studies/precisions.h"
#include "assay/studies/study.h"

namespace assay {

// `asked`; where it is empty, default_precisions(), or where every model is quantized already the
// checkpoint's own precision, and what is made of it (ExperimentContext::made_of_stored).
std::vector<std::string> precisions_or_default(const ExperimentContext& context,
                                               const std::vector<std::string>& asked);

// What the configurations of each model are made of: of one that is quantized, less what says how to
// quantize.
std::vector<RunConfig> commons_of(const ExperimentContext& context);
// Throws FieldError for "stored" where the model's weights are plain numbers.
void require_stored(const std::string& text, bool is_quantized_already);
// The texts that apply to the model of `common`: of several, one that is quantized runs only as it is stored,
// and "stored" is none of the others'. Throws FieldError for "stored" where none is quantized.
std::vector<std::string> texts_for(const ExperimentContext& context, const RunConfig& common,
                                   const std::vector<std::string>& texts);

// The configurations that texts ask for, of every model, the named baseline first. Texts that resolve to the
// same configuration give it once; `shown_as` tells what each text that was left out runs as. Throws
// UsageError for an unknown name.
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
// Precisions of each kind, one each: the first of all, bfloat16, int8-dynamic and nf4, with the LM head as it
// is; what is no named precision counts as one, and what is made of dequantized weights as none.
std::vector<RunConfig> one_of_each_kind(const std::vector<RunConfig>& configurations);
// Within a budget a precision of each kind comes first: the first of all, bfloat16, int8-dynamic and nf4,
// with the LM head as it is. `cases` have those configurations, in their order; each gets its text of the
// list.
void add_precisions(const ExperimentContext& context, const std::vector<std::string>& precisions,
                    const std::vector<RunConfig>& configurations, CostedStudy& costed);
// What is measured once of each configuration, which is loaded for it: a text, a task.
struct MeasuredOnce {
  Need need = Need::perplexity;
  std::function<std::string(const RunConfig&)> key;      // that of its case
  std::function<double(const CaseCost& of_one)> once_s;  // seconds, where `one` costs so much
  Case one = {};                                         // a part of it, in any configuration
};
void add_measured_once(const std::vector<RunConfig>& configurations, MeasuredOnce what, const CostOf& cost_of,
                       CostedStudy& costed);
// Warns on the rows of configurations that several names asked for.
void add_equal_names(const ExperimentContext& context, const std::vector<std::string>& precisions,
                     std::vector<CaseOutcome>& outcomes);

}  // namespace assay
