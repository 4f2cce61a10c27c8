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

namespace {

// All matrices of the file, and there are some.
bool holds_bfloat16(const ModelFolder& folder) {
  std::size_t matrices = 0, found = 0;
  for (const CheckpointTensor& tensor : folder.all()) {
    if (tensor->shape.size() < 2) continue;
    ++matrices;
    found += tensor->dtype == DType::bf16 ? 1 : 0;
  }
  return matrices > 0 && found == matrices;
}

}  // namespace

ModelSpec spec_from_folder(const ModelFolder& folder) {
  const JsonView config = folder.config();
  const std::string type = config.text("model_type");
  for (const auto& [name, read] : kFamilies)
    if (type == name) {
      ModelSpec spec = read(folder);
      spec.has_bfloat16_weights = holds_bfloat16(folder);
      return spec;
    }
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
      {"relu2", Activation::relu2},
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
  std::vector<bool> is_end(static_cast<std::size_t>(spec.vocab));
  std::size_t outside = 0;
  std::string first_outside;
  const auto add = [&](const Json& id) {
    if (!id.is_number_integer())
      throw Error("{}: eos_token_id: expected a token id or a list of them, found {}", config.where(),
                  printable(id.dump()));
    const auto limit = static_cast<std::uint64_t>(spec.vocab);
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= limit) {
      if (++outside == 1) first_outside = id.dump();
      return;
    }
    const auto token = id.get<std::size_t>();
    if (!is_end[token]) spec.end_tokens.push_back(static_cast<TokenId>(token));
    is_end[token] = true;
  };
  const Json& ids = config.raw().at("eos_token_id");
  if (!ids.is_array())
    add(ids);
  else
    for (const Json& id : ids) add(id);
  if (outside > 0)
    spec.warnings.push_back(
        fmt::format("{}: eos_token_id {}{} is outside the vocabulary of {}: generation does not stop at it",
                    config.where(), first_outside,
                    outside > 1 ? fmt::format(" (as {} others)", outside - 1) : "", spec.vocab));
}

}  // namespace assay
