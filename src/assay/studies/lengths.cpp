#include "assay/studies/lengths.h"

#include <algorithm>

#include "assay/base/error.h"

namespace assay {

namespace {

// A longer prompt is more work: latency must not fall from one length to the next.
std::string trend_of(const std::vector<const CaseResult*>& cases, const ExperimentContext& experiment) {
  std::string against;
  for (std::size_t i = 1; i < cases.size(); ++i) {
    const auto comparison =
        compare_cases(*cases[i], *cases[i - 1], experiment, static_cast<int>(cases.size()) - 1);
    if (comparison && comparison->verdict == Verdict::lower)
      against += (against.empty() ? "" : "; ") + comparison->sentence;
  }
  return against.empty() ? "As expected, latency does not fall from one prompt length to the next."
                         : "Against expectation, a longer prompt takes less time: " + against;
}

}  // namespace

std::vector<Case> lengths_cases(const ExperimentContext& experiment, const LengthsOptions& options) {
  const std::int64_t longest = experiment.context - options.new_tokens;
  if (longest < 1)
    throw Error("{} new tokens leave no room for a prompt in the model's context of {}", options.new_tokens,
                experiment.context);
  std::vector<std::int64_t> lengths = options.lengths;
  for (std::int64_t& length : lengths) {
    if (length < 0) throw UsageError("--lengths: expected whole numbers from 1, found {}", length);
    if (length == 0) length = longest;
  }
  std::sort(lengths.begin(), lengths.end());
  std::vector<Case> cases;
  for (const std::int64_t wanted : lengths) {
    const std::int64_t length = std::min(wanted, longest);
    Case what = baseline_case(experiment, Scenario::lengths, fmt::format("{} tokens", length),
                              {ids_of_length(experiment, options.base, length)}, options.new_tokens);
    what.uses_cache = options.uses_cache;
    if (length < wanted)
      what.warnings.push_back(
          {WarningKind::length_reduced,
           fmt::format("{} prompt tokens were asked for, but {} and {} new tokens fill the context of {}",
                       wanted, length, options.new_tokens, experiment.context)});
    cases.push_back(std::move(what));
  }
  return cases;
}

ExperimentResult run_for_varied_lengths(const ExperimentContext& experiment, const LengthsOptions& options) {
  const SweepResult swept = run_sweep(*experiment.sessions, std::string(name_of(Scenario::lengths)),
                                      lengths_cases(experiment, options), experiment.sweep);
  ExperimentResult result;
  result.is_interrupted = swept.is_interrupted;
  std::vector<const CaseResult*> finished;
  for (const CaseResult& c : swept.cases) {
    result.rows.push_back(row_of(c, experiment));
    if (c.status == RowStatus::ok && !c.samples.empty()) finished.push_back(&c);
  }
  if (finished.size() > 1) result.remarks.push_back(trend_of(finished, experiment));
  return result;
}

}  // namespace assay
