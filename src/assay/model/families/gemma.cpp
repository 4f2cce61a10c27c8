// Gemma 1 to 3 (Gemma Team 2024, 2024, 2025): embeddings scaled by sqrt(hidden), norms that multiply by 1 +
// weight.
#include <cmath>

#include "assay/model/families/family.h"

namespace assay {

namespace {

ModelSpec gemma_like_spec(const JsonView& config, const char* family, const SizeKeys& keys,
                          const RotaryKeys& rotary = {}) {
  require_boolean(config, "use_bidirectional_attention", false, "causal attention");
  ModelSpec spec = llama_like_spec(config, family, keys, rotary);
  spec.activation = activation_of(config, "hidden_activation", "gelu_pytorch_tanh");
  spec.is_head_tied = config.boolean_or("tie_word_embeddings", true);
  spec.gain_offset = 1;
  spec.embed_scale = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden)));
  spec.has_qkv_bias = spec.has_attention_out_bias = config.boolean_or("attention_bias", false);
  return spec;
}

// What Gemma 2 and 3 have in common: windows, norms behind the blocks as well, an attention scale of their
// own.
void read_second_generation(const JsonView& config, const ModelSource& source, int period, ModelSpec& spec) {
  spec.attention_multiplier = 1 / std::sqrt(factor_from(config, "query_pre_attn_scalar", 256));
  spec.attention_window = window_from(config, "sliding_window", 4096);
  read_layer_types(config, spec, [&](int layer) { return (layer + 1) % period != 0; });
  spec.names = llama_like_names(source);
  const std::string layer = prefix_of(source, "model.", "embed_tokens.weight") + "layers.{}.";
  spec.names.attention_out_norm = layer + "post_attention_layernorm";
  spec.names.mlp_norm = layer + "pre_feedforward_layernorm";
  spec.names.mlp_out_norm = layer + "post_feedforward_layernorm";
}

}  // namespace

ModelSpec gemma_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec = gemma_like_spec(
      config, "gemma", {.default_context = 8192, .default_kv_heads = 16, .default_head_dim = 256});
  // The first files say gelu and mean its approximation.
  const std::string activation = config.text_or("hidden_act", "gelu_pytorch_tanh");
  spec.activation =
      activation == "gelu" ? Activation::gelu_tanh : activation_of(config, "hidden_act", "gelu_pytorch_tanh");
  spec.names = llama_like_names(source);
  return spec;
}

ModelSpec gemma2_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec = gemma_like_spec(
      config, "gemma2",
      {.default_heads = 8, .default_context = 8192, .default_kv_heads = 4, .default_head_dim = 256});
  spec.attention_cap = cap_from(config, "attn_logit_softcapping", 50);
  spec.logit_cap = cap_from(config, "final_logit_softcapping", 30);
  read_second_generation(config, source, 2, spec);
  return spec;
}

ModelSpec gemma3_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec = gemma_like_spec(config, "gemma3_text",
                                   {.default_vocab = 262208,
                                    .default_heads = 8,
                                    .default_context = 131072,
                                    .default_kv_heads = 4,
                                    .default_head_dim = 256},
                                   {.base = 1e6, .window_base = 1e4});
  spec.attention_cap = cap_from(config, "attn_logit_softcapping", 0);
  spec.logit_cap = cap_from(config, "final_logit_softcapping", 0);
  const auto period = static_cast<int>(config.integer_or("sliding_window_pattern", 6, 1, kMaxLayers));
  read_second_generation(config, source, period, spec);
  spec.qk_norm = QkNorm::by_head;
  const std::string layer = prefix_of(source, "model.", "embed_tokens.weight") + "layers.{}.";
  spec.names.query_norm = layer + "self_attn.q_norm";
  spec.names.key_norm = layer + "self_attn.k_norm";
  return spec;
}

}  // namespace assay
