#include "assay/model/families/families.h"

#include <optional>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/json.h"
#include "assay/model/families/absent.h"
#include "assay/model/families/family.h"

namespace assay {

namespace {

constexpr std::pair<const char*, ModelSpec (*)(const JsonView&, const ModelSource&)> kFamilies[] = {
    {"bloom", bloom_spec},       {"cohere", cohere_spec},
    {"falcon", falcon_spec},     {"gemma", gemma_spec},
    {"gemma2", gemma2_spec},     {"gemma3_text", gemma3_spec},
    {"gpt2", gpt2_spec},         {"gpt_neo", gpt_neo_spec},
    {"gpt_neox", gpt_neox_spec}, {"gptj", gptj_spec},
    {"granite", granite_spec},   {"llama", llama_spec},
    {"mistral", mistral_spec},   {"olmo2", olmo2_spec},
    {"opt", opt_spec},           {"phi", phi_spec},
    {"phi3", phi3_spec},         {"qwen2", qwen2_spec},
    {"qwen3", qwen3_spec},       {"smollm3", smollm3_spec},
    {"stablelm", stablelm_spec}, {"starcoder2", starcoder2_spec}};

// Beyond this, heads that a plan holds one by one are taken for an error of the file.
constexpr std::int64_t kMaxHeadsOfAllLayers = 1 << 17;

void check_heads(const JsonView& config, const ModelSpec& spec) {
  const std::int64_t heads = std::int64_t{spec.heads} * spec.layers;
  const bool are_single = spec.qkv_order == QkvOrder::by_key_head || spec.qk_norm == QkNorm::each_head ||
                          spec.position == Position::alibi;
  if (are_single && heads > kMaxHeadsOfAllLayers)
    throw Error("{}: {} attention heads in {} layers: expected at most {} heads in all of them",
                config.where(), spec.heads, spec.layers, kMaxHeadsOfAllLayers);
}

// The text part of a model that also sees or hears; what its configuration leaves out may stand in the whole.
std::optional<Json> text_config_of(const JsonView& config) {
  if (!config.has("text_config")) return std::nullopt;
  Json text = config.object("text_config").raw();
  for (const char* key : {"tie_word_embeddings", "eos_token_id"})
    if (!text.contains(key) && config.has(key)) text[key] = config.raw().at(key);
  return text;
}

}  // namespace

std::vector<std::string> supported_families() {
  std::vector<std::string> names;
  for (const auto& [name, read] : kFamilies) names.emplace_back(name);
  return names;
}

namespace {

// All matrices of the file, and there are some.
bool holds_bfloat16(const ModelSource& source) {
  std::size_t matrices = 0, found = 0;
  for (const CheckpointTensor& tensor : source.all()) {
    if (tensor->shape.size() < 2) continue;
    ++matrices;
    found += tensor->dtype == DType::bf16 ? 1 : 0;
  }
  return matrices > 0 && found == matrices;
}

}  // namespace

ModelSpec spec_from_source(const ModelSource& source) {
  const JsonView whole = source.config();
  const std::optional<Json> text = text_config_of(whole);
  const JsonView config = text ? JsonView(*text, whole.where() + ": text_config") : whole;
  const std::string type = config.text("model_type").substr(0, 64);
  refuse_what_is_absent(config, text.has_value());
  for (const auto& [name, read] : kFamilies) {
    if (type != name) continue;
    ModelSpec spec = read(config, source);
    refuse_other_layers(config);
    if (spec.position != Position::rotary) refuse_rope_scaling(config, spec.family);
    check_heads(config, spec);
    spec.has_bfloat16_weights = holds_bfloat16(source);
    read_end_tokens(config, source, spec);
    if (text)
      spec.names.other_modalities = {
          "vision_",          "audio_",       "visual.",       "multi_modal_projector.",
          "model.vision_",    "model.audio_", "model.visual.", "model.multi_modal_projector.",
          "model.connector.", "connector."};
    return spec;
  }
  throw Error("{}: model_type '{}' is not supported, the nearest is '{}'; expected one of: {}",
              config.where(), type, nearest_name(type, supported_families()),
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

}  // namespace assay
