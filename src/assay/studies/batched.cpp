#include "assay/studies/batched.h"

#include <algorithm>

#include "assay/base/error.h"

namespace assay {

std::vector<Prompt> default_batch_prompts() {
  return {"The capital of France is",
          "Once upon a time, in a land far, far away,",
          "To be or not to be, that is the",
          "It was a dark night, and nobody in the house had slept for three days, when",
          "She said:",
          "The old captain looked at the sea for a long while before he answered. At last he turned to his "
          "men and",
          "In the morning the letter came. It was short, and written in a hand that none of them knew. "
          "\"Dear Sir,\" it "
          "began, \"I must ask you to leave the house at once, for",
          "There are two kinds of people in the world:"};
}

std::vector<Case> batched_cases(const ExperimentContext& experiment, const BatchedOptions& options) {
  const std::vector<Prompt> prompts = options.prompts.empty() ? default_batch_prompts() : options.prompts;
  const auto all = static_cast<std::int64_t>(prompts.size());
  std::vector<Case> cases;
  for (const std::int64_t wanted : options.batch_sizes) {
    if (wanted < 1) throw UsageError("--batch-size: expected whole numbers from 1, found {}", wanted);
    const std::int64_t size = std::min(wanted, all);
    Case what = baseline_case(experiment, Scenario::batches, fmt::format("batch {}", size), prompts,
                              options.new_tokens);
    what.batch_size = size;
    what.padding = options.padding;
    if (options.prompts.empty()) fit_context(experiment, what);
    if (size < wanted)
      what.warnings.push_back(
          {WarningKind::batch_reduced,
           fmt::format("a batch of {} was asked for, but there are {} prompts", wanted, all)});
    if (all % size != 0)
      what.warnings.push_back({WarningKind::partial_batch,
                               fmt::format("the last batch holds {} of {} sequences", all % size, size)});
    cases.push_back(std::move(what));
  }
  return cases;
}

ExperimentResult measure_batched(const ExperimentContext& experiment, const BatchedOptions& options) {
  const std::vector<Case> cases = batched_cases(experiment, options);
  const SweepResult swept =
      run_sweep(*experiment.sessions, std::string(name_of(Scenario::batches)), cases, experiment.sweep);
  ExperimentResult result;
  result.is_interrupted = swept.is_interrupted;
  for (const CaseResult& c : swept.cases) result.rows.push_back(row_of(c, experiment));
  const int comparisons = static_cast<int>(swept.cases.size()) - 1;
  for (std::size_t i = 1; i < swept.cases.size(); ++i) {
    auto comparison = compare_cases(swept.cases[i], swept.cases.front(), experiment, comparisons);
    if (!comparison) continue;
    if (comparison->verdict == Verdict::higher &&
        swept.cases[i].what.batch_size > swept.cases.front().what.batch_size)
      result.remarks.push_back("Against expectation, the same prompts take longer in a larger batch: " +
                               comparison->sentence);
    result.comparisons.push_back(std::move(*comparison));
  }
  return result;
}

}  // namespace assay
