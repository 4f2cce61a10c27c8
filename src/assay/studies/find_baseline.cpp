#include "assay/studies/find_baseline.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "assay/base/error.h"
#include "assay/checkpoint/source.h"
#include "assay/studies/precision_cases.h"

namespace assay {

namespace {

bool names_model(const std::string& name, const ContextModel& model) {
  if (name == model.name) return true;
  std::error_code code;
  return model.source != nullptr && std::filesystem::equivalent(name, model.source->path(), code);
}

// The text itself, or another spelling of a configuration that was asked for: "int8" of "int8-dynamic".
std::optional<RunConfig> by_precision(const ExperimentContext& context, const std::vector<RunConfig>& all,
                                      const std::string& name) try {
  for (const RunConfig& configuration : choose_configurations(context, {name}).configurations)
    if (std::find(all.begin(), all.end(), configuration) != all.end()) return configuration;
  return {};
} catch (const UsageError&) {
  return {};  // no precision
}

}  // namespace

RunConfig find_baseline(const ExperimentContext& context, const std::vector<std::string>& precisions,
                        const std::string& name) {
  const std::vector<std::string> texts = precisions_or_default(context, precisions);
  const std::vector<RunConfig> all = choose_configurations(context, texts).configurations;
  for (const RunConfig& configuration : all)
    if (configuration.label() == name) return configuration;
  for (const ContextModel& model : context.models)
    if (names_model(name, model))
      for (const RunConfig& configuration : all)
        if (configuration.model == model.name) return configuration;
  if (const auto found = by_precision(context, all, name)) return *found;
  std::vector<std::string> names;
  for (const ContextModel& model : context.models) names.push_back(model.name);
  for (const RunConfig& configuration : all)
    if (std::find(names.begin(), names.end(), configuration.label()) == names.end())
      names.push_back(configuration.label());
  throw FieldError("baseline", "expected one of {}, found '{}'", fmt::join(names, ", "), name);
}

}  // namespace assay
