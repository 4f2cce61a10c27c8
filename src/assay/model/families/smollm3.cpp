// SmolLM3 (Bakouch et al. 2025): every fourth layer has no rotary positions.
#include "assay/base/error.h"
#include "assay/base/json.h"
#include "assay/model/families/family.h"

namespace assay {

namespace {

// `no_rope_layers` says the opposite of its name: 1 for a layer with rotary positions.
std::vector<bool> rotary_layers(const JsonView& config, int layers) {
  std::vector<bool> has_rotary;
  if (!config.has("no_rope_layers")) {
    const std::int64_t interval = config.integer_or("no_rope_layer_interval", 4, 1, kMaxLayers);
    for (int layer = 0; layer < layers; ++layer) has_rotary.push_back((layer + 1) % interval != 0);
    return has_rotary;
  }
  const Json& list = config.raw().at("no_rope_layers");
  if (!list.is_array() || list.size() != static_cast<std::size_t>(layers))
    throw Error("{}: no_rope_layers: expected a list of {} zeros and ones, one a layer, found {}",
                config.where(), layers, shown_value(list));
  for (const Json& value : list) {
    if (value != 0 && value != 1)
      throw Error("{}: no_rope_layers: expected 0 or 1, found {}", config.where(), shown_value(value));
    has_rotary.push_back(value == 1);
  }
  return has_rotary;
}

}  // namespace

ModelSpec smollm3_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec =
      llama_like_spec(config, "smollm3", {.default_context = 32768, .default_kv_heads = 4}, {.base = 2e6});
  spec.is_head_tied = config.boolean_or("tie_word_embeddings", true);
  spec.has_qkv_bias = spec.has_attention_out_bias = config.boolean_or("attention_bias", false);
  spec.has_mlp_bias = config.boolean_or("mlp_bias", false);
  spec.has_rotary = rotary_layers(config, spec.layers);
  if (config.boolean_or("use_sliding_window", false)) {
    spec.attention_window = window_from(config, "sliding_window", 0);
    read_layer_types(config, spec,
                     [&](int layer) { return !spec.has_rotary[static_cast<std::size_t>(layer)]; });
  }
  spec.names = llama_like_names(source);
  return spec;
}

}  // namespace assay
