// A study is an experiment as data: what it is called, the options it takes, the cases it measures, and what
// it makes of them. registry.h lists all studies; one runner runs them.
#pragma once

#include <any>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "assay/base/error.h"
#include "assay/harness/budget.h"
#include "assay/harness/make_case.h"
#include "assay/harness/predict.h"
#include "assay/harness/rows.h"
#include "assay/harness/time_left.h"
#include "assay/studies/option.h"
#include "assay/studies/shared_options.h"

namespace assay {

// `options` is always a struct of the study's own, such as LengthsOptions; the functions throw UsageError for
// any other.
struct Study {
  std::string name;         // what its part of a run is called: "lengths"
  std::string title;        // "Prompt lengths"
  std::string description;  // one sentence
  std::string command;      // "sweep lengths"; empty: it has none
  std::string example;      // a command line
  std::vector<StudyOption> options;
  std::vector<std::string> followers;  // studies that its command runs after it
  bool is_in_suite = false;            // a part of `assay run`
  bool can_be_skipped = true;
  bool has_own_command = false;  // written by hand, because it prints its results in formats of its own
  bool takes_models = false;     // it compares configurations, which may be of several models

  std::any defaults;
  // Throws UsageError and Error for what cannot be measured; loads nothing.
  std::function<std::vector<Case>(const ExperimentContext&, const std::any& options)> cases;
  // What was measured; ExperimentResult::judge_all() is still to be called on it, or on what it is added to.
  std::function<ExperimentResult(const ExperimentContext&, const std::any& options)> measure;
  // What its rows say together once all comparisons have their verdicts. It may give rows values that rest on
  // one.
  std::function<std::vector<Finding>(ExperimentResult& judged)> conclude;
  // The study alone, judged and with its findings.
  std::function<ExperimentResult(const ExperimentContext&, const std::any& options)> run;
  std::function<double(const ExperimentContext&, const std::any& options, const PredictedSeconds&)> predict_s;
  // What its cases cost, for the choice within a budget.
  std::function<CostedStudy(const ExperimentContext&, const std::any& options, const CostOf&)> costs;
  std::function<bool(const ExperimentContext&, const std::any& options)> applies;  // false: nothing to do
  std::function<void(const SharedOptions&, std::any& options)> share;  // writes them into the options
};

// A case after its runs, with the row that will be reported.
struct CaseOutcome {
  const CaseResult& result;
  Row row;
  std::optional<Comparison> comparison;
};

// What each case of a study is compared with.
enum class ComparedWith { nothing, first_case };

// A study over a struct of options, as its file writes it down.
template <typename Options>
struct StudyOf {
  std::string name, title, description;
  std::string command = {}, example = {};
  std::vector<StudyOption> options = {};
  std::vector<std::string> followers = {};
  bool is_in_suite = false, can_be_skipped = true, has_own_command = false, takes_models = false;
  std::function<std::vector<Case>(const ExperimentContext&, const Options&)> cases = {};
  ComparedWith compared_with = ComparedWith::nothing;
  // Adds what only this study knows to the rows and comparisons of its cases: values, texts, more rows.
  std::function<void(const ExperimentContext&, const Options&, std::vector<CaseOutcome>&, ExperimentResult&)>
      finish = {};
  std::function<std::vector<Finding>(ExperimentResult& judged)> conclude = {};
  // In place of a sweep over the cases, and of the time that is predicted for one.
  std::function<ExperimentResult(const ExperimentContext&, const Options&)> run = {};
  std::function<double(const ExperimentContext&, const Options&, const PredictedSeconds&)> predict_s = {};
  // Changes what a sweep over the cases would cost: work beside it, cases that not every reader needs.
  std::function<void(const ExperimentContext&, const Options&, const CostOf&, CostedStudy&)> add_costs = {};
  std::function<bool(const ExperimentContext&, const Options&)> applies = {};
  std::function<void(const SharedOptions&, Options&)> share = {};
};

// `result` says already whether the sweep was interrupted.
using Finish = std::function<void(std::vector<CaseOutcome>& outcomes, ExperimentResult& result)>;
// The runner: measures the cases side by side, makes a row of each and compares it. Failed cases are rows
// with their reason; after an interruption, cases that never began are left out.
ExperimentResult run_cases(const ExperimentContext& context, const std::string& name,
                           const std::vector<Case>& cases, ComparedWith compared_with, const Finish& finish);
// The result with the study's name in what was left out.
ExperimentResult with_name(const std::string& study, ExperimentResult result);
// The context with the processes and runs that its choice gives a study.
ExperimentContext chosen_context(const ExperimentContext& context, const std::string& study);
// The cases that it gives it, with their new tokens.
std::vector<Case> chosen_cases(const ExperimentContext& context, const std::string& study,
                               std::vector<Case> cases);
// What a sweep over the cases costs.
CostedStudy costs_of_cases(const ExperimentContext& context, const std::string& study,
                           const std::vector<Case>& cases, const CostOf& cost_of);

// Appends what a judged result says to its findings.
void append_findings(const std::function<std::vector<Finding>(ExperimentResult&)>& conclude,
                     ExperimentResult& judged);

template <typename Options>
Study to_study(StudyOf<Options> of) {
  const auto own = [name = of.name](auto& options) -> auto& {
    auto* typed = std::any_cast<Options>(&options);
    if (typed == nullptr) throw UsageError("study '{}': expected its own options, found others", name);
    return *typed;
  };
  Study study;
  study.name = of.name;
  study.title = of.title;
  study.description = of.description;
  study.command = of.command;
  study.example = of.example;
  study.options = of.options;
  study.followers = of.followers;
  study.is_in_suite = of.is_in_suite;
  study.can_be_skipped = of.can_be_skipped;
  study.has_own_command = of.has_own_command;
  study.takes_models = of.takes_models;
  study.defaults = Options{};
  study.cases = [=](const ExperimentContext& context, const std::any& options) {
    return of.cases(context, own(options));
  };
  study.measure = [=](const ExperimentContext& context, const std::any& options) {
    const Options& typed = own(options);
    const ExperimentContext chosen = chosen_context(context, of.name);
    if (of.run) return of.run(chosen, typed);
    ExperimentResult result =
        run_cases(chosen, of.title, chosen_cases(context, of.name, of.cases(context, typed)),
                  of.compared_with, [&](std::vector<CaseOutcome>& outcomes, ExperimentResult& found) {
                    if (of.finish) of.finish(chosen, typed, outcomes, found);
                  });
    return with_name(of.name, std::move(result));
  };
  study.conclude = of.conclude ? of.conclude : [](ExperimentResult&) { return std::vector<Finding>(); };
  study.run = [measure = study.measure, conclude = study.conclude](const ExperimentContext& context,
                                                                   const std::any& options) {
    ExperimentResult result = measure(context, options);
    result.judge_all(context.margin);
    append_findings(conclude, result);
    return result;
  };
  study.predict_s = [=](const ExperimentContext& context, const std::any& options,
                        const PredictedSeconds& seconds_of) {
    return of.predict_s ? of.predict_s(context, own(options), seconds_of)
                        : predicted_sweep_s(of.cases(context, own(options)), context.sweep, seconds_of);
  };
  study.costs = [=](const ExperimentContext& context, const std::any& options, const CostOf& cost_of) {
    CostedStudy costed = costs_of_cases(context, of.name, of.cases(context, own(options)), cost_of);
    if (of.add_costs) of.add_costs(context, own(options), cost_of, costed);
    return costed;
  };
  study.applies = [=](const ExperimentContext& context, const std::any& options) {
    return !of.applies || of.applies(context, own(options));
  };
  study.share = [=](const SharedOptions& shared, std::any& options) {
    if (of.share) of.share(shared, own(options));
  };
  return study;
}

}  // namespace assay
