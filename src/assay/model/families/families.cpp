#include "assay/model/families/families.h"

#include <cmath>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/json.h"

namespace assay {

namespace {
constexpr std::pair<const char*, ModelSpec (*)(const ModelFolder&)> kFamilies[] = {{"gpt2", gpt2_spec},
                                                                                   {"llama", llama_spec}};
}

std::vector<std::string> supported_families() {
  std::vector<std::string> names;
  for (const auto& [name, read] : kFamilies) names.emplace_back(name);
  return names;
}

ModelSpec spec_from_folder(const ModelFolder& folder) {
  const JsonView config = folder.config();
  const std::string type = config.text("model_type");
  for (const auto& [name, read] : kFamilies)
    if (type == name) return read(folder);
  throw Error("{}: model_type '{}' is not supported; expected one of: {}", config.where(), type.substr(0, 64),
              fmt::join(supported_families(), ", "));
}

Activation activation_from_name(const std::string& text, const std::string& where) {
  static constexpr std::pair<const char*, Activation> kNames[] = {
      {"gelu_new", Activation::gelu_tanh},
      {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu_fast", Activation::gelu_tanh},
      {"gelu_python_tanh", Activation::gelu_tanh},
      {"gelu", Activation::gelu_erf},
      {"gelu_python", Activation::gelu_erf},
      {"quick_gelu", Activation::gelu_quick},
      {"relu", Activation::relu},
      {"silu", Activation::silu},
      {"swish", Activation::silu},
      {"tanh", Activation::tanh}};
  std::string known;
  for (const auto& [name, activation] : kNames) {
    if (text == name) return activation;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
  }
  throw Error("{}: activation '{}' is not supported; expected one of: {}", where, text, known);
}

float epsilon_from(const JsonView& config, const char* key, double fallback) {
  const double value = config.number_or(key, fallback);
  const auto epsilon = static_cast<float>(value);
  if (!(epsilon >= 0) || !std::isfinite(epsilon))
    throw Error("{}: {}: expected a number of at least 0 that float32 can hold, found {}", config.where(),
                key, value);
  return epsilon;
}

void read_end_tokens(const ModelFolder& folder, ModelSpec& spec) {
  const JsonView config =
      folder.generation_config().has("eos_token_id") ? folder.generation_config() : folder.config();
  if (!config.has("eos_token_id")) return;
  const auto add = [&](const Json& id) {
    if (!id.is_number_integer())
      throw Error("{}: eos_token_id: expected a token id or a list of them, found {}", config.where(),
                  id.type_name());
    const auto value = id.get<std::int64_t>();
    if (value >= 0 && value < spec.vocab)
      spec.end_tokens.push_back(static_cast<TokenId>(value));
    else
      spec.warnings.push_back(
          fmt::format("{}: eos_token_id {} is outside the vocabulary of {}: generation does not stop at it",
                      config.where(), value, spec.vocab));
  };
  const Json& ids = config.raw().at("eos_token_id");
  if (!ids.is_array()) return add(ids);
  for (const Json& id : ids) add(id);
}

}  // namespace assay
