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
                       wanted, length, options.new_tokens, context.context_length)});
    cases.push_back(std::move(spec));
  }
  return cases;
}

// "rises in 2, stays within 2 % in 1": what the comparisons found.
std::string counted(const std::vector<const Comparison*>& comparisons) {
  const auto number = [&](Verdict verdict) {
    return std::count_if(comparisons.begin(), comparisons.end(),
                         [&](const Comparison* c) { return c->verdict == verdict; });
  };
  std::vector<std::string> found;
  const auto add = [&](Verdict verdict, const std::string& spec) {
    if (const auto count = number(verdict); count > 0) found.push_back(fmt::format("{} in {}", spec, count));
  };
  double margin = 0;
  for (const Comparison* c : comparisons) margin = std::max(margin, c->margin);
  add(Verdict::higher, "rises");
  add(Verdict::no_difference, fmt::format("stays within {:.2g} %", 100 * margin));
  add(Verdict::cannot_tell, "is undecided");
  add(Verdict::too_few, "has too few processes for a verdict");
  add(Verdict::lower, "falls");
  return fmt::format("{}", fmt::join(found, ", "));
}

// Each length against the one before it. A longer prompt is more work, so that a fall is named.
void add_length_trend(const ExperimentContext& context, const LengthsOptions&,
                      std::vector<CaseOutcome>& outcomes, ExperimentResult& result) {
  std::vector<const CaseResult*> measured;
  for (const CaseOutcome& outcome : outcomes)
    if (outcome.result.is_measured()) measured.push_back(&outcome.result);
  std::vector<std::pair<std::string, std::string>> steps;
  for (std::size_t i = 1; i < measured.size(); ++i) {
    auto comparison = compare_cases(*measured[i], *measured[i - 1], context);
    if (!comparison) continue;
    steps.emplace_back(comparison->subject, comparison->baseline);
    result.other_comparisons.push_back(std::move(*comparison));
  }
  if (steps.empty()) return;
  result.conclusions.emplace_back([steps](ExperimentResult& all) {
    std::vector<const Comparison*> comparisons;
    std::vector<std::string> falls;
    for (const auto& [longer, shorter] : steps) {
      comparisons.push_back(all.comparison(Scenario::lengths, longer, shorter));
      if (comparisons.back()->verdict == Verdict::lower) falls.push_back(comparisons.back()->sentence);
    }
    all.remarks.push_back(fmt::format("From one prompt length to the next, latency {} of {} comparisons.",
                                      counted(comparisons), comparisons.size()));
    if (!falls.empty())
      all.remarks.push_back(
          fmt::format("Against expectation, a longer prompt took less time: {}.", fmt::join(falls, "; ")));
  });
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
       .finish = add_length_trend,
       .share = [](const SharedOptions& shared, Options& options) {
         options.new_tokens = shared.axis_new_tokens();
       }});
}

ExperimentResult run_for_varied_lengths(const ExperimentContext& context, const LengthsOptions& options) {
  return lengths_study().run(context, options);
}

}  // namespace assay
