#include "assay/studies/batched.h"

#include <algorithm>

#include "assay/studies/batched_case.h"
#include "assay/studies/study.h"

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

Case batched_case(const ExperimentContext& context, const std::vector<Prompt>& asked, std::int64_t wanted,
                  std::int64_t new_tokens) {
  const std::vector<Prompt> prompts = asked.empty() ? default_batch_prompts() : asked;
  const auto all = static_cast<std::int64_t>(prompts.size());
  const std::int64_t size = std::min(wanted, all);
  Case spec = baseline_case(context, Scenario::batches, fmt::format("batch {}", size), prompts, new_tokens);
  spec.batch_size = size;
  if (asked.empty()) fit_context(context, spec);
  if (size < wanted)
    spec.warnings.push_back(
        {WarningKind::batch_reduced,
         fmt::format("a batch of {} was asked for, but there are {} prompts", wanted, all),
         static_cast<double>(wanted), static_cast<double>(all)});
  if (all % size != 0)
    spec.warnings.push_back({WarningKind::partial_batch,
                             fmt::format("the last batch holds {} of {} sequences", all % size, size),
                             static_cast<double>(all % size), static_cast<double>(size)});
  return spec;
}

namespace {

std::vector<Case> batched_cases(const ExperimentContext& context, const BatchedOptions& options) {
  std::vector<Case> cases;
  for (const std::int64_t wanted : options.batch_sizes) {
    if (wanted < 1) throw FieldError("batch_sizes", "expected whole numbers from 1, found {}", wanted);
    cases.push_back(batched_case(context, options.prompts, wanted, options.new_tokens));
    cases.back().padding = options.padding;
  }
  return cases;
}

// The same prompts in a larger batch are less work.
std::vector<Finding> slower_batches(const ExperimentResult& judged) {
  std::vector<Finding> found;
  const Row* first = nullptr;
  for (const Row& row : judged.rows) {
    if (row.scenario != Scenario::batches) continue;
    if (first == nullptr) first = &row;
    const Comparison* c = judged.comparison(Scenario::batches, row.label, first->label);
    if (c != nullptr && c->verdict == Verdict::higher && row.setting.batch_size > first->setting.batch_size)
      found.emplace_back(SlowerBatch{*c});
  }
  return found;
}

}  // namespace

Study batched_study() {
  using Options = BatchedOptions;
  return to_study<Options>(
      {.name = "batches",
       .title = "Batches",
       .description = "Measure the same prompts one at a time and in batches",
       .command = "sweep batches",
       .example = "assay sweep batches demo --batch-size 1,2,4,8",
       .options = {option("prompt", &Options::prompts, "Prompts of different lengths",
                          {.letter = 'p', .shown_default = "eight that ship"}),
                   option("batch-size", &Options::batch_sizes, "Batch sizes",
                          {.name_in_run = "batch-size", .field = "batch_sizes"}),
                   choice("padding", &Options::padding, padding_from_name, name_of,
                          "Padding of the prompts: left, right or none"),
                   option("max-new-tokens", &Options::new_tokens, "New tokens", {.letter = 'n', .min = 1})},
       .is_in_suite = true,
       .cases = batched_cases,
       .compared_with = ComparedWith::first_case,
       .conclude = slower_batches,
       .share = [](const SharedOptions& shared, Options& options) {
         options.new_tokens = shared.axis_new_tokens();
         if (!shared.batch_prompts.empty()) options.prompts = shared.batch_prompts;
       }});
}

ExperimentResult measure_batched(const ExperimentContext& context, const BatchedOptions& options) {
  return batched_study().run(context, options);
}

}  // namespace assay
