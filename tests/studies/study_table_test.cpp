// The table of studies as front ends see it: each flag, each option with its letter and range.
#include <gtest/gtest.h>

#include "assay/studies/registry.h"

namespace assay {
namespace {

std::string shown_option(const StudyOption& option) {
  std::string text = "--" + option.name;
  if (option.traits.letter != 0) text += std::string(" -") + option.traits.letter;
  const bool is_whole = option.kind == StudyOption::Kind::whole || option.kind == StudyOption::Kind::wholes;
  if (is_whole) text += fmt::format(" from {}", option.traits.min);
  if (option.traits.max != std::int64_t{1} << 40) text += fmt::format(" to {}", option.traits.max);
  if (!option.traits.name_in_run.empty()) text += ", run: " + option.traits.name_in_run;
  return text + ", " + option.field();
}

constexpr std::string_view kExpected = R"(
baseline |  | in a run, always
noise |  | in a run
  --pairs from 0, run: noise-pairs, pairs
trade-off | tradeoff | in a run, followed
  --precision, precision
  --prompt -p, prompts
  --max-new-tokens -n from 1, max_new_tokens
lengths | sweep lengths | in a run
  --lengths from 0, run: lengths, lengths
  --base, base
  --max-new-tokens -n from 1, max_new_tokens
  --no-cache, no_cache
ablation |  | in a run
  --lengths from 1, run: ablation-lengths, lengths
cache | ablate cache | alone
  --lengths from 1, lengths
  --max-new-tokens -n from 1, max_new_tokens
padding | ablate padding | alone
  --prompt -p, prompt
  --max-new-tokens -n from 1, max_new_tokens
precisions | sweep precisions | alone
  --precision, precision
  --prompt -p, prompt
  --max-new-tokens -n from 1, max_new_tokens
batches | sweep batches | in a run
  --prompt -p, prompt
  --batch-size from 0, run: batch-size, batch_sizes
  --padding, padding
  --max-new-tokens -n from 1, max_new_tokens
batched-precisions | sweep batched-precisions | in a run
  --precision, precision
  --prompt -p, prompt
  --batch-size from 1, batch_size
  --max-new-tokens -n from 1, max_new_tokens
threads | sweep threads | alone
  --threads -t from 1 to 1024, threads
  --prompt -p, prompt
  --max-new-tokens -n from 1, max_new_tokens
kv-cache | sweep kv-cache | alone
  --kv-cache, kv_cache
  --length from 0, length
  --max-new-tokens -n from 1, max_new_tokens
perplexity |  | in a run
  --precision, precision
  --corpus, run: corpus, corpus
  --context from 2, run: context, context
  --stride from 1, run: stride, stride
  --through, run: through, through
task | task | in a run
  --precision, precision
  --task, run: task, task
divergence |  | in a run
  --precision, precision
  --corpus, run: corpus, corpus
  --context from 2, run: context, context
  --stride from 1, run: stride, stride
  --divergence-tokens from 2, run: divergence-tokens, max_tokens
  --sample from 0 to 1048576, run: sample, sample_tokens
edge | probe | in a run
  --prompt -p, prompt
  --max-new-tokens -n from 1, max_new_tokens
bench | bench | alone
  --precision, precision
  --n-prompt -p from 0, prompt_tokens
  --n-gen -n from 0, new_tokens
  --n-depth -d from 0, depths
  --batch-size -b from 1 to 4096, batches
  --threads -t from 1 to 1024, threads
)";

TEST(StudyTable, HasTheseStudiesAndOptions) {
  std::vector<std::string> lines;
  for (const Study& study : studies()) {
    lines.push_back(
        fmt::format("{} | {} | {}{}{}", study.name, study.command, study.is_in_suite ? "in a run" : "alone",
                    study.can_be_skipped ? "" : ", always", study.followers.empty() ? "" : ", followed"));
    for (const StudyOption& option : study.options) lines.push_back("  " + shown_option(option));
  }
  EXPECT_EQ(fmt::format("\n{}\n", fmt::join(lines, "\n")), kExpected);
}

TEST(StudyTable, RefusesANameThatIsNone) {
  try {
    study_named("none");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "study: expected one of baseline, noise, trade-off, lengths, ablation, cache, padding, "
                 "precisions, batches, batched-precisions, threads, kv-cache, perplexity, task, divergence, "
                 "edge, bench, found 'none'");
  }
}

}  // namespace
}  // namespace assay
