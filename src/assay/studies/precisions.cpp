#include "assay/studies/precisions.h"

#include <algorithm>

#include "assay/base/error.h"

namespace assay {

std::vector<std::string> default_precisions() {
  std::vector<std::string> all = {"float32", "float16", "bfloat16"};
  for (const char* scheme :
       {"int8-dynamic", "int8-static", "llm-int8", "nf4", "nf4-dq", "fp4", "fp4-dq", "int4-g128"}) {
    all.emplace_back(scheme);
    all.push_back(std::string(scheme) + "+head");
  }
  return all;
}

std::vector<std::string> precisions_or_default(const ExperimentContext& experiment,
                                               const std::vector<std::string>& asked) {
  if (!asked.empty()) return asked;
  if (experiment.is_quantized_already) return {std::string(kAutoPrecision)};
  return default_precisions();
}

ChosenConfigurations choose_configurations(const ExperimentContext& experiment,
                                           const std::vector<std::string>& texts) {
  ChosenConfigurations chosen;
  for (const std::string& text : texts) {
    Configuration configuration = configuration_from_text(text, experiment.common);
    const Device device = device_from_name(configuration.device);
    // float16 on a CPU becomes float32.
    if (configuration.precision != kAutoPrecision)
      configuration.precision = resolve_dtype(configuration.precision, device).precision.name;
    const std::string label = configuration.label();
    const bool is_known = std::any_of(chosen.configurations.begin(), chosen.configurations.end(),
                                      [&](const Configuration& c) { return c.label() == label; });
    if (is_known)
      chosen.shown_as.emplace_back(text, label);
    else
      chosen.configurations.push_back(configuration);
  }
  return chosen;
}

std::vector<Case> precisions_cases(const ExperimentContext& experiment, const PrecisionsOptions& options) {
  const std::vector<std::string> texts = precisions_or_default(experiment, options.precisions);
  std::vector<Case> cases;
  for (const Configuration& configuration : choose_configurations(experiment, texts).configurations) {
    Case what = baseline_case(experiment, Scenario::precisions, configuration.label(), {options.prompt},
                              options.new_tokens);
    what.configuration = configuration;
    cases.push_back(std::move(what));
  }
  return cases;
}

ExperimentResult run_varied_precision(const ExperimentContext& experiment, const PrecisionsOptions& options) {
  const std::vector<std::string> texts = precisions_or_default(experiment, options.precisions);
  const ChosenConfigurations chosen = choose_configurations(experiment, texts);
  const SweepResult swept = run_sweep(*experiment.sessions, std::string(name_of(Scenario::precisions)),
                                      precisions_cases(experiment, options), experiment.sweep);
  ExperimentResult result;
  result.is_interrupted = swept.is_interrupted;
  for (const CaseResult& c : swept.cases) {
    Row row = row_of(c, experiment);
    for (const auto& [asked, runs_as] : chosen.shown_as)
      if (runs_as == c.what.configuration.label())
        row.warnings.push_back(
            {WarningKind::duplicate_case,
             asked == runs_as
                 ? asked + " was asked for more than once and is measured once"
                 : fmt::format("{} resolves to the same configuration and is measured once", asked)});
    result.rows.push_back(std::move(row));
    if (&c == &swept.cases.front()) continue;
    if (auto comparison =
            compare_cases(c, swept.cases.front(), experiment, static_cast<int>(swept.cases.size()) - 1))
      result.comparisons.push_back(std::move(*comparison));
  }
  return result;
}

}  // namespace assay
