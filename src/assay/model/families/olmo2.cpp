// OLMo 2 (OLMo Team 2024): norms of what blocks add alone, and of all queries and all keys.
#include "assay/model/families/family.h"

namespace assay {

ModelSpec olmo2_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec = llama_like_spec(config, "olmo2");
  spec.epsilon = epsilon_from(config, "rms_norm_eps", 1e-5);
  spec.has_qkv_bias = spec.has_attention_out_bias = config.boolean_or("attention_bias", false);
  spec.qk_norm = QkNorm::whole;
  spec.names = llama_like_names(source);
  const std::string layer = prefix_of(source, "model.", "embed_tokens.weight") + "layers.{}.";
  spec.names.attention_norm = spec.names.mlp_norm = "";
  spec.names.attention_out_norm = layer + "post_attention_layernorm";
  spec.names.mlp_out_norm = layer + "post_feedforward_layernorm";
  spec.names.query_norm = layer + "self_attn.q_norm";
  spec.names.key_norm = layer + "self_attn.k_norm";
  return spec;
}

}  // namespace assay
