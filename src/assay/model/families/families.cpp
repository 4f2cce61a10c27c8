#include "assay/model/families/families.h"

#include <utility>

#include "assay/base/error.h"

namespace assay {

namespace {
constexpr std::pair<const char*, ModelSpec (*)(const ModelFolder&)> kFamilies[] = {{"gpt2", gpt2_spec}};
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
  throw Error("{}: model_type '{}' is not supported; expected one of: {}", config.where(), type,
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

}  // namespace assay
