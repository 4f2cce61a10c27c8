// The baseline alone, a row per prompt: what everything else in a run is compared with.
#include "assay/studies/study.h"

namespace assay {

namespace {

struct BaselineOptions {
  std::vector<Prompt> prompts = {};
  std::int64_t new_tokens = 50;
  bool uses_cache = true;
  Truncation truncation = Truncation::none;
};

std::vector<Case> baseline_cases(const ExperimentContext& context, const BaselineOptions& options) {
  std::vector<Case> cases;
  for (std::size_t i = 0; i < options.prompts.size(); ++i) {
    Case spec = baseline_case(context, Scenario::baseline, fmt::format("prompt {}", i + 1),
                              {options.prompts[i]}, options.new_tokens);
    spec.uses_cache = options.uses_cache;
    spec.truncation = options.truncation;
    spec.parameters.emplace_back("prompt", shown(options.prompts[i]));
    cases.push_back(std::move(spec));
  }
  return cases;
}

void add_texts(const ExperimentContext&, const BaselineOptions&, std::vector<CaseOutcome>& outcomes,
               ExperimentResult& result) {
  for (CaseOutcome& outcome : outcomes) {
    const CaseResult& c = outcome.result;
    if (!c.is_measured()) continue;
    outcome.row.set("load_s", c.facts.model.load_s);
    result.texts.push_back({outcome.row.label, shown(c.spec.prompts.front()), c.first.texts.front(),
                            c.first.prompt_ids.front(), c.first.ids.front(), Scenario::baseline,
                            outcome.row.label});
  }
}

}  // namespace

Study baseline_study() {
  return to_study<BaselineOptions>(
      {.name = "baseline",
       .title = "Baseline",
       .description = "Measure every prompt on the baseline",
       .is_in_suite = true,
       .can_be_skipped = false,
       .cases = baseline_cases,
       .finish = add_texts,
       .add_costs =
           [](const ExperimentContext&, const BaselineOptions&, const CostOf&, CostedStudy& costed) {
             for (std::size_t i = 1; i < costed.cases.size(); ++i) costed.cases[i].is_essential = false;
           },
       .share =
           [](const SharedOptions& shared, BaselineOptions& options) {
             options = {shared.prompts, shared.new_tokens, shared.uses_cache, shared.truncation};
           }});
}

}  // namespace assay
