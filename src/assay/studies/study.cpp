#include "assay/studies/study.h"

#include <algorithm>

namespace assay {

namespace {

const ChosenStudy* chosen_of(const ExperimentContext& context, const std::string& study) {
  return context.choice == nullptr ? nullptr : context.choice->find(study);
}

Need need_of(Scenario scenario) {
  switch (scenario) {
    case Scenario::baseline:
      return Need::baseline;
    case Scenario::cache:
      return Need::cache;
    case Scenario::batches:
      return Need::batches;
    case Scenario::batched_precisions:
      return Need::batched_precisions;
    case Scenario::padding:
      return Need::padding;
    case Scenario::lengths:
      return Need::lengths;
    case Scenario::edge_prompts:
      return Need::edge_prompts;
    case Scenario::noise:
      return Need::noise;
    case Scenario::perplexity:
      return Need::perplexity;
    case Scenario::divergence:
      return Need::divergence;
    default:
      return Need::tradeoff;
  }
}

std::string value_of(const Case& spec, std::int64_t prompt_tokens) {
  switch (spec.scenario) {
    case Scenario::lengths:
    case Scenario::cache:
      return std::to_string(prompt_tokens);
    case Scenario::batches:
      return std::to_string(spec.batch_size);
    case Scenario::threads:
      return std::to_string(spec.configuration.threads.value_or(0));
    case Scenario::kv_cache:
      return spec.label;
    default:
      return "";
  }
}

}  // namespace

ExperimentContext chosen_context(const ExperimentContext& context, const std::string& study) {
  ExperimentContext own = context;
  if (const ChosenStudy* chosen = chosen_of(context, study)) {
    if (chosen->processes) own.sweep.processes = chosen->processes;
    if (chosen->repeats) own.sweep.repeats = chosen->repeats;
  }
  return own;
}

std::vector<Case> chosen_cases(const ExperimentContext& context, const std::string& study,
                               std::vector<Case> cases) {
  const ChosenStudy* chosen = chosen_of(context, study);
  if (chosen == nullptr) return cases;
  std::erase_if(cases, [&](const Case& spec) { return chosen->left_out.count(choice_key(spec)) > 0; });
  for (Case& spec : cases) {
    spec.new_tokens = std::min(spec.new_tokens, chosen->most_tokens.value_or(spec.new_tokens));
    spec.is_measured_once = chosen->once.count(choice_key(spec)) > 0;
  }
  return cases;
}

CostedStudy costs_of_cases(const ExperimentContext& context, const std::string& study,
                           const std::vector<Case>& cases, const CostOf& cost_of) {
  CostedStudy costed{.name = study, .cases = {}, .sweep = context.sweep};
  for (const Case& spec : cases) {
    const CaseCost cost = cost_of(spec);
    const bool is_long = cost.longest_prompt > kLongPrompt;
    costed.cases.push_back({.key = choice_key(spec),
                            .label = spec.label,
                            .value = value_of(spec, cost.longest_prompt),
                            .configuration = spec.configuration.key(),
                            .need = is_long ? Need::long_prompts : need_of(spec.scenario),
                            .is_long = is_long,
                            .load_s = cost.load_s,
                            .prefill_s = cost.prefill_s,
                            .decode_s = cost.decode_s,
                            .beside_run_s = cost.beside_run_s,
                            .new_tokens = spec.new_tokens,
                            .memory_share = cost.memory_share});
  }
  return costed;
}

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
  if (!swept.is_interrupted)
    for (const Case& spec : cases)
      if (swept.find(spec.key()) == nullptr)
        result.left_out.push_back({.study = name, .what = spec.label, .reason = std::string(kSlower)});
  return result;
}

ExperimentResult with_name(const std::string& study, ExperimentResult result) {
  for (LeftOut& one : result.left_out) one.study = study;
  return result;
}

void append_findings(const std::function<std::vector<Finding>(ExperimentResult&)>& conclude,
                     ExperimentResult& judged) {
  for (Finding& finding : conclude(judged)) judged.findings.push_back(std::move(finding));
}

}  // namespace assay
