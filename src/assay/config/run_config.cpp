#include "assay/config/run_config.h"

#include <algorithm>

#include "assay/base/error.h"
#include "assay/config/fields.h"

namespace assay {

namespace {

// So that no value can be taken for the end of it.
std::string in_quotes(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}

// "+head:int8 of dequantized weights, dtype bfloat16": first what users type behind the name of a precision,
// then what goes on without a comma.
std::string labels(const RunConfig& config, bool is_about_numbers_alone) {
  std::string typed, going_on, others;
  for (const Field& field : fields()) {
    if (!field.label || !field.is_set(config) || (is_about_numbers_alone && !field.is_about_numbers))
      continue;
    const std::string own = field.label(config);
    if (own.starts_with('+'))
      typed += own;
    else if (own.starts_with(' '))
      going_on += own;
    else if (!own.empty())
      others += ", " + own;
  }
  return typed + going_on + others;
}

// "+head:nf4" of "nf4+head:nf4". "+head" is int8, or beside nf4, fp4 and GGUF's block types the same.
WeightFormat head_from_text(std::string_view suffix, Preset preset, std::string_view text) {
  constexpr std::string_view kHead = "head", kHeadFormat = "head:";
  const std::string name(name_of(preset));
  const std::vector<WeightFormat> all = lm_head_formats();
  const auto is_one = [&](const WeightFormat& format) {
    return std::find(all.begin(), all.end(), format) != all.end();
  };
  const auto named = suffix.starts_with(kHeadFormat)
                         ? weight_format_from_name(suffix.substr(kHeadFormat.size()))
                         : std::nullopt;
  if (suffix != kHead && !(named && is_one(*named)))
    throw FieldError("precision", "expected {0}+head or {0}+head:FORMAT with one of {1}, found '{2}'", name,
                     names_of(all), text.substr(0, 64));
  const Precision precision = precision_of(preset);
  if (!precision.is_quantized())
    throw FieldError("precision", "expected a quantized precision before +head, found '{}'",
                     text.substr(0, 64));
  if (named) return *named;
  if (preset == Preset::nf4_dq) return formats::kNf4;
  if (preset == Preset::fp4_dq) return formats::kFp4;
  return is_one(precision.weights) ? precision.weights : formats::kInt8;
}

constexpr std::string_view kActivations = "activations:";
constexpr std::string_view kReplica = "replica:";
constexpr std::string_view kRecipe = "recipe:";

// Without the fields that do not apply to the precision.
RunConfig with_what_applies(RunConfig config) {
  Precision precision = config.precision ? precision_of(*config.precision) : precision_of(*config.recipe);
  for (const Field& each : fields()) {
    if (!each.is_set(config)) continue;
    if (each.applies && !each.applies(precision))
      each.clear(config);
    else if (each.apply)
      each.apply(precision, config);
  }
  return config;
}

// `text` is the FILE of "recipe:FILE", perhaps with "+replica:1" behind it.
RunConfig recipe_from_text(std::string_view text, RunConfig config) {
  config.precision.reset();
  const std::size_t plus = text.rfind("+replica:");
  if (plus != std::string_view::npos) field("replica").parse(config, text.substr(plus + 1 + kReplica.size()));
  field("recipe").parse(config, text.substr(0, plus));
  return with_what_applies(std::move(config));
}

}  // namespace

std::string RunConfig::label() const {
  const std::string name = precision ? std::string(name_of(*precision))
                           : recipe  ? recipe->label()
                                     : "as stored";
  return (model ? *model + ": " : "") + name + labels(*this, false);
}

std::string RunConfig::label_of_numbers() const {
  return labels(*this, true);
}

std::string RunConfig::key() const {
  std::string text;
  for (const Field& field : fields()) {
    std::vector<std::string> values = field.print(*this);
    if (field.identity && !values.empty()) values = {field.identity(*this)};
    for (std::size_t i = 0; i < values.size(); ++i) {
      text += i > 0 ? "," : fmt::format("{}{}=", text.empty() ? "" : " ", field.key);
      text += in_quotes(values[i]);
    }
  }
  return text;
}

RunConfig run_config_from_text(std::string_view text, const RunConfig& common) {
  RunConfig config = common;
  // "nf4@cuda:0": on a device of its own.
  // A recipe's file may have an @ in its name too.
  const std::size_t at = text.rfind('@');
  const bool is_device = at != std::string_view::npos && text.substr(at).find('.') == std::string_view::npos;
  if (is_device || (at != std::string_view::npos && !text.starts_with(kRecipe))) {
    field("device").parse(config, text.substr(at + 1));
    text = text.substr(0, at);
  }
  if (text.starts_with(kRecipe)) return recipe_from_text(text.substr(kRecipe.size()), std::move(config));
  const std::size_t plus = text.find('+');
  if (plus == 0)
    throw FieldError("precision", "expected a name before +head, found '{}'", text.substr(0, 64));
  const std::string_view name = text.substr(0, plus);
  field("precision").parse(config, name == kStoredPrecision ? kAutoPrecision : name);
  if (!config.precision) {
    // What multiplies weights as they are stored; loading tells whether it goes with them.
    if (const std::string_view rest = plus == std::string_view::npos ? "" : text.substr(plus + 1);
        rest.starts_with(kActivations))
      field("activations").parse(config, rest.substr(kActivations.size()));
    else if (plus != std::string_view::npos)
      throw FieldError("precision", "expected a quantized precision before +head, found '{}'",
                       text.substr(0, 64));
    return config;
  }
  for (std::string_view rest = plus == std::string_view::npos ? std::string_view() : text.substr(plus + 1);
       ;) {
    const std::size_t end = rest.find('+');
    const std::string_view part = rest.substr(0, end);
    if (part.starts_with(kActivations)) {
      if (!takes_activations(precision_of(*config.precision)))
        throw FieldError("precision", "expected 4-bit weights before +activations, found '{}'",
                         text.substr(0, 64));
      field("activations").parse(config, part.substr(kActivations.size()));
    } else if (part.starts_with(kReplica)) {
      field("replica").parse(config, part.substr(kReplica.size()));
    } else if (plus != std::string_view::npos) {
      config.quantize_head = head_from_text(part, *config.precision, text);
    }
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return with_what_applies(std::move(config));
}

RunConfig run_config_to_load(std::string_view text, const RunConfig& common) {
  if (text.find('+') != std::string_view::npos || text.starts_with(kRecipe)) {
    RunConfig config = run_config_from_text(text, common);
    require_used(common, {&config, 1});
    return config;
  }
  RunConfig config = common;
  field("precision").parse(config, text);
  return config;
}

void require_used(const RunConfig& common, std::span<const RunConfig> made) {
  std::vector<std::string> labels;
  for (const RunConfig& config : made) labels.push_back(config.label());
  for (const Field& field : fields())
    if (field.applies && field.is_set(common) &&
        std::none_of(made.begin(), made.end(), [&](const RunConfig& each) { return field.is_set(each); }))
      throw FieldError(field.key, "expected a precision that it applies to, found {}",
                       fmt::join(labels, "; "));
}

void check_values(const RunConfig& config) {
  for (const Field& field : fields()) field.check(config);
}

void apply_to(Precision& precision, const RunConfig& config) {
  for (const Field& field : fields())
    if (field.apply && field.is_set(config)) field.apply(precision, config);
}

}  // namespace assay
