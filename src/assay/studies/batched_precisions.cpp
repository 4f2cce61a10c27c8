#include "assay/studies/batched_precisions.h"

#include "assay/studies/batched_case.h"
#include "assay/studies/precision_cases.h"
#include "assay/studies/study.h"

namespace assay {

namespace {

std::vector<RunConfig> batched_configurations(const ExperimentContext& context,
                                              const BatchedPrecisionsOptions& options) {
  return choose_configurations(context, precisions_or_default(context, options.precisions)).configurations;
}

std::vector<Case> batched_precision_cases(const ExperimentContext& context,
                                          const BatchedPrecisionsOptions& options) {
  if (options.batch_size < 1)
    throw FieldError("batch_size", "expected a whole number from 1, found {}", options.batch_size);
  std::vector<Case> cases;
  for (const RunConfig& configuration : batched_configurations(context, options)) {
    Case spec = batched_case(context, options.prompts, options.batch_size, options.new_tokens);
    spec.scenario = Scenario::batched_precisions;
    spec.label = configuration.label();
    spec.configuration = configuration;
    cases.push_back(std::move(spec));
  }
  return cases;
}

}  // namespace

Study batched_precisions_study() {
  using Options = BatchedPrecisionsOptions;
  return to_study<Options>(
      {.name = "batched-precisions",
       .title = "Precisions in batches",
       .description = "Compare precisions on several prompts in one batch",
       .command = "sweep batched-precisions",
       .example = "assay sweep batched-precisions demo --precision float32,int8,nf4 --batch-size 8",
       .options = {option("precision", &Options::precisions, "Precisions to compare"),
                   option("prompt", &Options::prompts, "Prompts of different lengths",
                          {.letter = 'p', .shown_default = "eight that ship"}),
                   option("batch-size", &Options::batch_size, "Batch size", {.min = 1}),
                   option("max-new-tokens", &Options::new_tokens, "New tokens", {.letter = 'n', .min = 1})},
       .is_in_suite = true,
       .takes_models = true,
       .cases = batched_precision_cases,
       .compared_with = ComparedWith::first_case,
       .finish = [](const ExperimentContext& context, const Options& options,
                    std::vector<CaseOutcome>& outcomes,
                    ExperimentResult&) { add_equal_names(context, options.precisions, outcomes); },
       .add_costs =
           [](const ExperimentContext& context, const Options& options, const CostOf&, CostedStudy& costed) {
             add_precisions(context, options.precisions, batched_configurations(context, options), costed);
             // After what every reader needs: a server's choice takes a verdict or is none.
             costed.needs_verdict = true;
             for (CostedCase& c : costed.cases) c.is_essential = c.is_asked = false;
           },
       .applies = [](const ExperimentContext& context,
                     const Options& options) { return batched_configurations(context, options).size() > 1; },
       .share =
           [](const SharedOptions& shared, Options& options) {
             options.precisions = shared.precisions;
             options.new_tokens = shared.axis_new_tokens();
             if (!shared.batch_prompts.empty()) options.prompts = shared.batch_prompts;
             if (shared.largest_batch) options.batch_size = *shared.largest_batch;
           }});
}

ExperimentResult measure_batched_precisions(const ExperimentContext& context,
                                            const BatchedPrecisionsOptions& options) {
  return batched_precisions_study().run(context, options);
}

}  // namespace assay
