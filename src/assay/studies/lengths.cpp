#include "assay/studies/lengths.h"

#include <algorithm>

#include "assay/studies/study.h"

namespace assay {

namespace {

std::vector<Case> lengths_cases(const ExperimentContext& context, const LengthsOptions& options) {
  const std::int64_t longest = context.context_length - options.new_tokens;
  if (longest < 1)
    throw Error("{} new tokens leave no room for a prompt in the model's context of {}", options.new_tokens,
                context.context_length);
  std::vector<std::int64_t> lengths = options.lengths;
  // Between 512 tokens and a context of 32k the axis would have nothing else.
  if (lengths == LengthsOptions().lengths && longest > kLongPrompt) lengths.push_back(kLongPrompt);
  for (std::int64_t& length : lengths) {
    if (length < 0) throw FieldError("lengths", "expected whole numbers from 0, found {}", length);
    if (length == 0) length = longest;
  }
  std::sort(lengths.begin(), lengths.end());
  std::vector<Case> cases;
  for (const std::int64_t wanted : lengths) {
    const std::int64_t length = std::min(wanted, longest);
    Case spec = baseline_case(context, Scenario::lengths, fmt::format("{} tokens", length),
                              {ids_of_length(context, options.base, length)}, options.new_tokens);
    spec.uses_cache = options.uses_cache;
    if (length < wanted)
      spec.warnings.push_back(
          {WarningKind::length_reduced,
           fmt::format("{} prompt tokens were asked for, but {} and {} new tokens fill the context of {}",
                       wanted, length, options.new_tokens, context.context_length),
           static_cast<double>(wanted), static_cast<double>(length)});
    cases.push_back(std::move(spec));
  }
  return cases;
}

// Each length against the one before it.
void compare_neighbours(const ExperimentContext& context, const LengthsOptions&,
                        std::vector<CaseOutcome>& outcomes, ExperimentResult& result) {
  const CaseResult* shorter = nullptr;
  for (const CaseOutcome& outcome : outcomes) {
    if (!outcome.result.is_measured()) continue;
    if (shorter != nullptr)
      if (auto comparison = compare_cases(outcome.result, *shorter, context))
        result.other_comparisons.push_back(std::move(*comparison));
    shorter = &outcome.result;
  }
}

std::vector<Finding> trend(const ExperimentResult& judged) {
  LengthTrend found;
  for (const Comparison& c : judged.other_comparisons)
    if (c.scenario == Scenario::lengths) found.steps.push_back(c);
  if (found.steps.empty()) return {};
  return {std::move(found)};
}

}  // namespace

Study lengths_study() {
  using Options = LengthsOptions;
  return to_study<Options>(
      {.name = "lengths",
       .title = "Prompt lengths",
       .description = "Measure latency and speed over the length of the prompt",
       .command = "sweep lengths",
       .example = "assay sweep lengths demo --lengths 32,128,512",
       .options = {option("lengths", &Options::lengths,
                          "Prompt lengths in tokens; 0 is the longest that fits", {.name_in_run = "lengths"}),
                   option("base", &Options::base, "Text that is repeated to each length",
                          {.shown_default = "a sentence that ships"}),
                   option("max-new-tokens", &Options::new_tokens, "New tokens", {.letter = 'n', .min = 1}),
                   flag("no-cache", &Options::uses_cache, false, "Generate without a KV cache")},
       .is_in_suite = true,
       .cases = lengths_cases,
       .finish = compare_neighbours,
       .conclude = trend,
       .share = [](const SharedOptions& shared, Options& options) {
         options.new_tokens = shared.axis_new_tokens();
       }});
}

ExperimentResult run_for_varied_lengths(const ExperimentContext& context, const LengthsOptions& options) {
  return lengths_study().run(context, options);
}

}  // namespace assay
