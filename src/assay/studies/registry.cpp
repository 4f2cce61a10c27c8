#include "assay/studies/registry.h"

#include "assay/base/error.h"
#include "assay/studies/tradeoff.h"

// One line per study; NAME_study() is in the file of its name.
#define ASSAY_STUDIES(STUDY) \
  STUDY(baseline_study)      \
  STUDY(noise_study)         \
  STUDY(tradeoff_study)      \
  STUDY(lengths_study)       \
  STUDY(ablation_study)      \
  STUDY(cache_study)         \
  STUDY(padding_study)       \
  STUDY(precisions_study)    \
  STUDY(batched_study)       \
  STUDY(threads_study)       \
  STUDY(kv_cache_study)      \
  STUDY(perplexity_study)    \
  STUDY(edge_prompts_study)  \
  STUDY(bench_study)

namespace assay {

#define ASSAY_DECLARE(study) Study study();
ASSAY_STUDIES(ASSAY_DECLARE)
#undef ASSAY_DECLARE

const std::vector<Study>& studies() {
#define ASSAY_MAKE(study) study(),
  static const std::vector<Study> all{ASSAY_STUDIES(ASSAY_MAKE)};
#undef ASSAY_MAKE
  return all;
}

const Study& study_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Study& study : studies()) {
    if (study.name == name) return study;
    names.push_back(study.name);
  }
  throw UsageError("study: expected one of {}, found '{}'", fmt::join(names, ", "), name);
}

std::vector<Case> cases_of(const ExperimentContext& context, const std::vector<PlannedStudy>& plan) {
  std::vector<Case> all;
  for (const auto& [study, options] : plan) {
    if (!study->applies(context, options)) continue;
    const std::vector<Case> cases = study->cases(context, options);
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

ExperimentResult run_studies(ExperimentContext context, const std::vector<PlannedStudy>& plan,
                             const PredictedSeconds& seconds_of) {
  std::vector<const PlannedStudy*> applying;
  std::vector<TimeLeft::Part> parts;
  for (const PlannedStudy& planned : plan) {
    const auto& [study, options] = planned;
    if (!study->applies(context, options)) continue;
    applying.push_back(&planned);
    parts.push_back({study->name, seconds_of ? study->predict_s(context, options, seconds_of) : 0});
  }
  TimeLeft time_left(std::move(parts), seconds_of != nullptr, context.sweep.on_progress, context.sweep.clock);
  if (applying.size() > 1) context.sweep.on_progress = time_left.teller();
  ExperimentResult result;
  for (const PlannedStudy* planned : applying) {
    result.is_interrupted =
        result.is_interrupted || (context.sweep.should_stop && context.sweep.should_stop());
    if (result.is_interrupted) break;
    time_left.begin(planned->study->name);
    result.add(planned->study->measure(context, planned->options));
  }
  // The comparisons of all studies are judged together, also where the run was interrupted.
  result.judge_all(context.margin);
  for (const PlannedStudy* planned : applying) append_findings(planned->study->conclude, result);
  merge_quality(result.rows);
  return result;
}

}  // namespace assay
