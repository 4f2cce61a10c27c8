#include "assay/studies/precisions.h"

#include <algorithm>
#include <set>

#include "assay/base/error.h"
#include "assay/model/families/families.h"
#include "assay/model/stored_quantization.h"
#include "assay/session/resolve.h"
#include "assay/studies/precision_cases.h"

namespace assay {

std::vector<std::string> default_precisions(const Device& device) {
  std::vector<std::string> all = {"float32", "float16", "bfloat16"};
  if (baseline_preset(device) == Preset::float16) std::swap(all[0], all[1]);
  for (const char* scheme :
       {"int8-dynamic", "int8-static", "llm-int8", "nf4", "nf4-dq", "fp4", "fp4-dq", "int4-g128"}) {
    all.emplace_back(scheme);
    all.push_back(std::string(scheme) + "+head");
  }
  return all;
}

std::vector<std::string> precisions_or_default(const ExperimentContext& context,
                                               const std::vector<std::string>& asked) {
  if (!asked.empty()) return asked;
  const bool is_any_plain =
      std::any_of(context.models.begin(), context.models.end(),
                  [](const ContextModel& model) { return !model.is_quantized_already; });
  if (context.is_quantized_already && !is_any_plain) {
    if (!context.made_of_stored || context.common.recipe) return {std::string(kAutoPrecision)};
    std::vector<std::string> all = context.made_of_stored();
    all.insert(all.begin(), std::string(all.empty() ? kAutoPrecision : kStoredPrecision));
    return all;
  }
  std::vector<std::string> all = default_precisions(device_of(context.common));
  if (context.common.recipe) all.emplace_back(kAutoPrecision);  // which the recipe takes the place of
  return all;
}

namespace {

// "auto" of a model whose weights are plain numbers is the baseline's precision: the row says so, and takes
// what applies to it.
RunConfig with_baseline_precision(const ExperimentContext& context, RunConfig configuration) {
  if (configuration.precision || configuration.recipe || context.model_of(configuration).is_quantized_already)
    return configuration;
  return run_config_from_text(name_of(baseline_preset(device_of(configuration))), configuration);
}

}  // namespace

ChosenConfigurations choose_configurations(const ExperimentContext& context,
                                           const std::vector<std::string>& texts) {
  ChosenConfigurations chosen;
  for (const RunConfig& common : commons_of(context))
    for (const std::string& text : texts_for(context, common, texts)) {
      // float16 on a CPU becomes float32.
      RunConfig configuration = run_config_from_text(text, common);
      if (common.model) configuration = with_baseline_precision(context, std::move(configuration));
      configuration = context.with_origin(resolved_for_device(std::move(configuration)));
      const std::string label = configuration.label();
      const bool is_known = std::find(chosen.configurations.begin(), chosen.configurations.end(),
                                      configuration) != chosen.configurations.end();
      if (is_known)
        chosen.shown_as.emplace_back(text, label);
      else
        chosen.configurations.push_back(configuration);
    }
  if (context.named_baseline)
    if (const auto at =
            std::find(chosen.configurations.begin(), chosen.configurations.end(), *context.named_baseline);
        at != chosen.configurations.end())
      std::rotate(chosen.configurations.begin(), at, at + 1);
  return chosen;
}

std::vector<RunConfig> commons_of(const ExperimentContext& context) {
  std::vector<RunConfig> all;
  for (const ContextModel& model : context.models) {
    all.push_back(context.common);
    if (model.is_quantized_already)
      all.back() =
          as_stored(context.common, *stored_precision(*model.source, spec_from_source(*model.source)));
    all.back().model = model.name;
  }
  if (all.empty()) all.push_back(context.common);
  return all;
}

namespace {

// "stored" or "stored+activations:int8".
bool is_stored(std::string_view text) {
  return text.substr(0, text.find('+')) == kStoredPrecision;
}

}  // namespace

std::vector<std::string> texts_for(const ExperimentContext& context, const RunConfig& common,
                                   const std::vector<std::string>& texts) {
  if (common.model && context.model_of(common).is_quantized_already) return {std::string(kAutoPrecision)};
  const bool is_any_quantized =
      std::any_of(context.models.begin(), context.models.end(),
                  [](const ContextModel& model) { return model.is_quantized_already; });
  std::vector<std::string> own = texts;
  if (is_any_quantized) std::erase_if(own, is_stored);
  for (const std::string& text : own) require_stored(text, context.is_quantized_already && !common.model);
  return own;
}

void require_stored(const std::string& text, bool is_quantized_already) {
  if (is_stored(text) && !is_quantized_already)
    throw FieldError("precision",
                     "expected a precision such as float32 or bfloat16, found '{}': the model is not "
                     "quantized, its weights are plain numbers",
                     text);
}

std::vector<Case> precision_cases(const ExperimentContext& context, Scenario scenario,
                                  const std::vector<std::string>& precisions, const Prompt& prompt,
                                  std::int64_t new_tokens) {
  const std::vector<std::string> texts = precisions_or_default(context, precisions);
  std::vector<Case> cases;
  for (const RunConfig& configuration : choose_configurations(context, texts).configurations) {
    cases.push_back(baseline_case(context, scenario, configuration.label(), {prompt}, new_tokens));
    cases.back().configuration = configuration;
  }
  return cases;
}

std::vector<RunConfig> one_of_each_kind(const std::vector<RunConfig>& configurations) {
  constexpr Preset kFirst[] = {Preset::float32, Preset::bfloat16, Preset::int8_dynamic, Preset::nf4};
  std::vector<RunConfig> chosen;
  for (const RunConfig& own : configurations)
    if (chosen.empty() || !own.precision ||
        (!own.quantize_head && !own.is_dequantized &&
         std::find(std::begin(kFirst), std::end(kFirst), *own.precision) != std::end(kFirst)))
      chosen.push_back(own);
  return chosen;
}

void add_precisions(const ExperimentContext& context, const std::vector<std::string>& precisions,
                    const std::vector<RunConfig>& configurations, CostedStudy& costed) {
  const std::vector<RunConfig> essential = one_of_each_kind(configurations);
  for (std::size_t i = 0; i < configurations.size(); ++i)
    costed.cases[i].is_essential =
        std::find(essential.begin(), essential.end(), configurations[i]) != essential.end();
  // Each model was asked for by its name: without a row it would be compared with nothing.
  std::set<std::string> models;
  for (std::size_t i = 0; i < configurations.size(); ++i)
    if (configurations[i].model && models.insert(*configurations[i].model).second)
      costed.cases[i].is_asked |= costed.is_sweep;
  for (const std::string& text : precisions_or_default(context, precisions))
    for (const RunConfig& own : choose_configurations(context, {text}).configurations)
      for (CostedCase& c : costed.cases)
        if (c.value.empty() && c.configuration == own.key()) c.value = text;
}

void add_measured_once(const std::vector<RunConfig>& configurations, MeasuredOnce what, const CostOf& cost_of,
                       CostedStudy& costed) {
  costed.is_sweep = false;
  for (const RunConfig& configuration : configurations) {
    what.one.configuration = configuration;
    const CaseCost cost = cost_of(what.one);
    costed.cases.push_back({.key = what.key(configuration),
                            .label = configuration.label(),
                            .configuration = configuration.key(),
                            .need = what.need,
                            .load_s = cost.load_s,
                            .once_s = what.once_s(cost),
                            .memory_share = cost.memory_share});
  }
}

void add_equal_names(const ExperimentContext& context, const std::vector<std::string>& precisions,
                     std::vector<CaseOutcome>& outcomes) {
  if (precisions.empty()) return;  // names of our own list, which nobody typed
  const auto shown_as = choose_configurations(context, precisions_or_default(context, precisions)).shown_as;
  for (CaseOutcome& outcome : outcomes)
    for (const auto& [asked, runs_as] : shown_as)
      if (runs_as == outcome.result.spec.configuration.label())
        outcome.row.warnings.push_back(
            {WarningKind::duplicate_case,
             asked == runs_as
                 ? "asked for more than once (" + asked + "), measured once"
                 : "measured once for " + asked + " too, which resolves to the same configuration"});
}

Study precisions_study() {
  using Options = PrecisionsOptions;
  return to_study<Options>(
      {.name = "precisions",
       .title = "Precisions",
       .description = "Compare precisions on one prompt",
       .command = "sweep precisions",
       .example = "assay sweep precisions demo --precision float32,int8,nf4+head",
       .options = {option("precision", &Options::precisions, "Precisions to compare"),
                   option("prompt", &Options::prompt, "Prompt",
                          {.letter = 'p', .shown_default = "one that ships"}),
                   option("max-new-tokens", &Options::new_tokens, "New tokens", {.letter = 'n', .min = 1})},
       .takes_models = true,
       .cases =
           [](const ExperimentContext& context, const Options& options) {
             return precision_cases(context, Scenario::precisions, options.precisions, options.prompt,
                                    options.new_tokens);
           },
       .compared_with = ComparedWith::first_case,
       .finish = [](const ExperimentContext& context, const Options& options,
                    std::vector<CaseOutcome>& outcomes,
                    ExperimentResult&) { add_equal_names(context, options.precisions, outcomes); },
       .add_costs =
           [](const ExperimentContext& context, const Options& options, const CostOf&, CostedStudy& costed) {
             add_precisions(context, options.precisions,
                            choose_configurations(context, precisions_or_default(context, options.precisions))
                                .configurations,
                            costed);
           }});
}

ExperimentResult run_varied_precision(const ExperimentContext& context, const PrecisionsOptions& options) {
  return precisions_study().run(context, options);
}

}  // namespace assay
