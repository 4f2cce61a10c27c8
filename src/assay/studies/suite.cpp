#include "assay/studies/suite.h"

#include <algorithm>

#include "assay/base/error.h"
#include "assay/harness/sweep.h"
#include "assay/machine/machine.h"
#include "assay/studies/precision_cases.h"
#include "assay/studies/suite_plan.h"

namespace assay {

namespace {

void check_names(const SuiteOptions& options) {
  std::vector<std::string> parts, skippable;
  for (const Study& study : studies()) {
    if (!study.is_in_suite) continue;
    parts.push_back(study.name);
    if (study.can_be_skipped) skippable.push_back(study.name);
  }
  const auto check = [](const char* field, const std::string& name, const std::vector<std::string>& known) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw FieldError(field, "expected some of {}, found '{}'", fmt::join(known, ", "), name);
  };
  for (const std::string& name : options.skipped) check("skipped", name, skippable);
  for (const auto& [name, own] : options.studies) check("studies", name, parts);
}

// The first precision is what the others are compared with.
RunConfig first_configuration(const ExperimentContext& context, const SuiteOptions& options) {
  return choose_configurations(context, precisions_or_default(context, options.precisions))
      .configurations.front();
}

std::string methods_of(const SweepOptions& sweep, const ResultSet& results) {
  std::vector<std::string> models{results.model.id};
  for (const OtherModel& other : results.other_models) models.push_back(other.name);
  std::string text = fmt::format(
      "{} on {}. Each configuration is loaded in {} and warmed up; its cases then "
      "run in {}random order, interleaved with those of the others. ",
      fmt::join(models, ", "), results.machine.cpu,
      !sweep.processes        ? "one fresh process or several"
      : *sweep.processes == 1 ? "a fresh process"
                              : fmt::format("{} fresh processes", *sweep.processes),
      sweep.repeats ? fmt::format("{} rounds in ", *sweep.repeats) : "rounds in ");
  text +=
      "A figure is the geometric mean of the processes' medians, with a 95 % interval by Student's t over "
      "processes; a figure of one process says so and has no verdict. The comparisons of speed "
      "are corrected together (Holm), and so are those of quality: the chance of any false difference is 5 % "
      "in each. ";
  text += "Latency includes prefill and excludes tokenization.";
  return text;
}

ResultSet with_findings(ResultSet results, const ExperimentContext& context, ExperimentResult found) {
  results.add(std::move(found));
  results.caption = methods_of(context.sweep, results);
  return results;
}

}  // namespace

ResultSet new_results(const ExperimentContext& context) {
  ResultSet results;
  results.created = utc_now();
  results.run_id = new_run_id();
  results.configuration = configuration_of(context);
  results.build = build_facts();
  results.machine = read_machine();
  results.model = context.sessions->facts(context.baseline).model;
  return results;
}

ResultSet results_of(const ExperimentContext& context, ExperimentResult found) {
  return with_findings(new_results(context), context, std::move(found));
}

std::vector<PlannedStudy> suite_plan(const SuiteOptions& options) {
  check_names(options);
  SharedOptions shared = options;
  if (const auto own = options.studies.find("batches"); own != options.studies.end())
    if (const auto* batches = std::any_cast<BatchedOptions>(&own->second))
      for (const std::int64_t size : batches->batch_sizes)
        shared.largest_batch = std::max(size, shared.largest_batch.value_or(size));
  std::vector<PlannedStudy> plan;
  for (const Study& study : studies()) {
    if (!study.is_in_suite ||
        std::find(options.skipped.begin(), options.skipped.end(), study.name) != options.skipped.end())
      continue;
    const auto own = options.studies.find(study.name);
    PlannedStudy& planned =
        plan.emplace_back(PlannedStudy{&study, own == options.studies.end() ? study.defaults : own->second});
    study.share(shared, planned.options);
    planned.has_asked_cases = options.asked.count(study.name) > 0;
    planned.has_asked_tokens = options.has_asked_tokens;
  }
  return plan;
}

ResultSet run_quantization_exercise(ExperimentContext context, const SuiteOptions& options) {
  const std::vector<PlannedStudy> plan = suite_plan(options);
  context.baseline = first_configuration(context, options);
  cases_of(context, plan);  // whatever is wrong is known before hours of work, not after
  ResultSet results = new_results(context);
  return with_findings(std::move(results), context, run_studies(context, plan, options.predicted_seconds));
}

std::vector<Case> suite_cases(const ExperimentContext& original, const SuiteOptions& options) {
  const std::vector<PlannedStudy> plan = suite_plan(options);
  ExperimentContext context = original;
  context.baseline = first_configuration(context, options);
  return cases_of(context, plan);
}

}  // namespace assay
