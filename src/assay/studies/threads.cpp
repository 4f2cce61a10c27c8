#include "assay/studies/threads.h"

#include <algorithm>

#include "assay/base/cpu.h"
#include "assay/base/error.h"

namespace assay {

std::vector<Case> threads_cases(const ExperimentContext& experiment, const ThreadsOptions& options) {
  const auto allowed = static_cast<std::int64_t>(allowed_processors().size());
  std::vector<std::int64_t> counts = options.threads;
  if (counts.empty()) {
    for (std::int64_t n = 1; n < allowed; n *= 2) counts.push_back(n);
    counts.push_back(allowed);
  }
  std::sort(counts.begin(), counts.end());
  std::vector<Case> cases;
  for (const std::int64_t count : counts) {
    if (count < 1 || count > 1024) throw UsageError("--threads: expected 1 to 1024, found {}", count);
    Case what =
        baseline_case(experiment, Scenario::threads, fmt::format("{} thread{}", count, count == 1 ? "" : "s"),
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

ExperimentResult run_for_varied_threads(const ExperimentContext& experiment, const ThreadsOptions& options) {
  const SweepResult swept = run_sweep(*experiment.sessions, std::string(name_of(Scenario::threads)),
                                      threads_cases(experiment, options), experiment.sweep);
  ExperimentResult result;
  result.is_interrupted = swept.is_interrupted;
  const CaseResult* best = nullptr;
  const auto time = [](const CaseResult& c) { return median(c.each(&Sample::total_latency_s)); };
  for (const CaseResult& c : swept.cases) {
    result.rows.push_back(row_of(c, experiment));
    if (c.status == RowStatus::ok && !c.samples.empty() && (best == nullptr || time(c) < time(*best)))
      best = &c;
  }
  if (best == nullptr) return result;
  const CaseResult* first = &swept.cases.front();
  for (const CaseResult& c : swept.cases) {
    if (&c == first) continue;
    if (auto comparison = compare_cases(c, *first, experiment, static_cast<int>(swept.cases.size()) - 1))
      result.comparisons.push_back(std::move(*comparison));
  }
  for (const CaseResult& c : swept.cases) {
    const auto against = &c == best ? std::nullopt : compare_cases(c, *best, experiment);
    if (&c != best && (!against || against->verdict != Verdict::no_difference)) continue;
    result.remarks.push_back(
        &c == first ? fmt::format("Use {}: no larger number is shown to be faster.", c.what.label)
                    : fmt::format("Use {}: {}, at {:.2f} times the speed of {}.", c.what.label,
                                  &c == best ? "it is the fastest measured"
                                             : "no larger number is shown to be faster",
                                  time(*first) / time(c), first->what.label));
    break;
  }
  return result;
}

}  // namespace assay
