#include "assay/studies/study.h"

namespace assay {

ExperimentResult run_cases(const ExperimentContext& context, const std::string& name,
                           const std::vector<Case>& cases, ComparedWith compared_with, const Finish& finish) {
  const SweepResult swept = run_sweep(*context.sessions, name, cases, context.sweep);
  std::vector<CaseOutcome> outcomes;
  for (const CaseResult& c : swept.cases) {
    CaseOutcome& outcome = outcomes.emplace_back(CaseOutcome{c, row_of(c, context), std::nullopt});
    if (compared_with == ComparedWith::first_case && outcomes.size() > 1)
      outcome.comparison = compare_cases(c, swept.cases.front(), context);
  }
  ExperimentResult found;  // its rows come after those of the cases
  found.is_interrupted = swept.is_interrupted;
  finish(outcomes, found);
  ExperimentResult result;
  for (CaseOutcome& outcome : outcomes) {
    result.rows.push_back(std::move(outcome.row));
    if (outcome.comparison) result.comparisons.push_back(std::move(*outcome.comparison));
  }
  result.add(std::move(found));
  return result;
}

void append_findings(const std::function<std::vector<Finding>(ExperimentResult&)>& conclude,
                     ExperimentResult& judged) {
  for (Finding& finding : conclude(judged)) judged.findings.push_back(std::move(finding));
}

}  // namespace assay
