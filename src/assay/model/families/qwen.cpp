// Qwen 2, 2.5 (Yang et al. 2024) and 3 (Yang et al. 2025).
#include "assay/model/families/family.h"

namespace assay {

namespace {

// The last layers may have a window.
void read_window(const JsonView& config, ModelSpec& spec) {
  if (!config.boolean_or("use_sliding_window", false)) return;
  spec.attention_window = window_from(config, "sliding_window", 4096);
  const std::int64_t first = config.integer_or("max_window_layers", 28, 0, kMaxLayers);
  read_layer_types(config, spec, [&](int layer) { return layer >= first; });
}

}  // namespace

ModelSpec qwen2_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec = llama_like_spec(config, "qwen2", {.default_context = 32768, .default_kv_heads = 32});
  spec.has_qkv_bias = true;
  read_window(config, spec);
  spec.names = llama_like_names(source);
  return spec;
}

ModelSpec qwen3_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec = llama_like_spec(
      config, "qwen3", {.default_context = 32768, .default_kv_heads = 32, .default_head_dim = 128});
  spec.has_qkv_bias = spec.has_attention_out_bias = config.boolean_or("attention_bias", false);
  spec.qk_norm = QkNorm::by_head;
  read_window(config, spec);
  spec.names = llama_like_names(source);
  spec.names.query_norm = prefix_of(source, "model.", "embed_tokens.weight") + "layers.{}.self_attn.q_norm";
  spec.names.key_norm = prefix_of(source, "model.", "embed_tokens.weight") + "layers.{}.self_attn.k_norm";
  return spec;
}

}  // namespace assay
