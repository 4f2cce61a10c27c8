#include "assay/studies/threads.h"

#include <algorithm>

#include "assay/base/cpu.h"

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
    if (count < 1 || count > 1024) throw UsageError("threads: expected 1 to 1024, found {}", count);
    Case what =
        baseline_case(context, Scenario::threads, fmt::format("{} thread{}", count, count == 1 ? "" : "s"),
                      {options.prompt}, options.new_tokens);
    what.configuration.threads = static_cast<int>(count);
    if (count > allowed)
      what.warnings.push_back(
          {WarningKind::too_many_threads, fmt::format("{} threads on {} processor{} wait for each other",
                                                      count, allowed, allowed == 1 ? "" : "s")});
    cases.push_back(std::move(what));
  }
  return cases;
}

double seconds_of(const CaseResult& c) {
  return median(c.each(&Sample::total_latency_s));
}

void recommend(const ExperimentContext& context, const ThreadsOptions&, std::vector<CaseOutcome>& outcomes,
               ExperimentResult& result) {
  const CaseResult* best = nullptr;
  for (const CaseOutcome& outcome : outcomes)
    if (outcome.result.is_measured() && (best == nullptr || seconds_of(outcome.result) < seconds_of(*best)))
      best = &outcome.result;
  if (best == nullptr) return;
  const CaseResult& first = outcomes.front().result;
  for (const CaseOutcome& outcome : outcomes) {
    const CaseResult& c = outcome.result;
    const auto against = &c == best ? std::nullopt : compare_cases(c, *best, context);
    if (&c != best && (!against || against->verdict != Verdict::no_difference)) continue;
    result.remarks.push_back(
        fmt::format("Use {}: {}{:.2f} x as fast as {}.", c.what.label,
                    &c == best ? "the fastest measured, " : "no larger number is shown to be faster, ",
                    seconds_of(first) / seconds_of(c), first.what.label));
    return;
  }
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
                   option("prompt", &Options::prompt, "Prompt", {.letter = 'p'}),
                   option("max-new-tokens", &Options::new_tokens, "New tokens", {.letter = 'n', .min = 1})},
       .cases = threads_cases,
       .compared_with = ComparedWith::first_case,
       .finish = recommend});
}

ExperimentResult run_for_varied_threads(const ExperimentContext& context, const ThreadsOptions& options) {
  return threads_study().run(context, options);
}

}  // namespace assay
