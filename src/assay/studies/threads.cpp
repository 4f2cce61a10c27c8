#include "assay/studies/threads.h"

#include <algorithm>

#include "assay/base/cpu.h"
#include "assay/studies/study.h"

namespace assay {

namespace {

std::vector<Case> threads_cases(const ExperimentContext& context, const ThreadsOptions& options) {
  const auto allowed = static_cast<std::int64_t>(allowed_processors().size());
  std::vector<std::int64_t> counts = options.threads;
  if (counts.empty()) {
    for (std::int64_t n = 1; n < allowed; n *= 2) counts.push_back(n);
    counts.push_back(allowed);
  }
  std::sort(counts.begin(), counts.end());
  std::vector<Case> cases;
  for (const std::int64_t count : counts) {
    if (count < 1 || count > 1024) throw FieldError("threads", "expected 1 to 1024, found {}", count);
    Case spec =
        baseline_case(context, Scenario::threads, fmt::format("{} thread{}", count, count == 1 ? "" : "s"),
                      {options.prompt}, options.new_tokens);
    spec.configuration.threads = static_cast<int>(count);
    if (count > allowed)
      spec.warnings.push_back({WarningKind::too_many_threads,
                               fmt::format("{} threads on {} processor{} wait for each other", count, allowed,
                                           allowed == 1 ? "" : "s"),
                               static_cast<double>(count), static_cast<double>(allowed)});
    cases.push_back(std::move(spec));
  }
  return cases;
}

// The smallest number that none was shown to beat.
std::vector<Finding> choose_threads(const ExperimentResult& judged) {
  const std::vector<const Row*> best = best_rows(judged.rows, judged.other_comparisons, Scenario::threads);
  if (best.empty()) return {};
  const Row* chosen = *std::min_element(best.begin(), best.end());  // rows go from few threads to many
  ThreadChoice found{chosen->label, best.size() == 1};
  for (const Row& row : judged.rows)
    if (row.scenario == Scenario::threads) {  // the first has the fewest
      const Comparison* c = judged.comparison(Scenario::threads, chosen->label, row.label);
      if (c != nullptr && c->interval && c->verdict == Verdict::lower) found.with_fewest = *c;
      break;
    }
  return {std::move(found)};
}

}  // namespace

Study threads_study() {
  using Options = ThreadsOptions;
  return to_study<Options>(
      {.name = "threads",
       .title = "Threads",
       .description = "Measure speed over the number of threads, and find how many to use",
       .command = "sweep threads",
       .example = "assay sweep threads demo",
       .options = {option("threads", &Options::threads, "Numbers of threads",
                          {.letter = 't', .min = 1, .max = 1024, .shown_default = "1, 2, 4, ... and all"}),
                   option("prompt", &Options::prompt, "Prompt",
                          {.letter = 'p', .shown_default = "one that ships"}),
                   option("max-new-tokens", &Options::new_tokens, "New tokens", {.letter = 'n', .min = 1})},
       .cases = threads_cases,
       .compared_with = ComparedWith::first_case,
       .conclude = choose_threads});
}

ExperimentResult run_for_varied_threads(const ExperimentContext& context, const ThreadsOptions& options) {
  return threads_study().run(context, options);
}

}  // namespace assay
