// StableLM (Bellagente et al. 2024): Llama with LayerNorm and rotary positions of a part of each head.
#include "assay/model/families/family.h"

namespace assay {

ModelSpec stablelm_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec =
      llama_like_spec(config, "stablelm", {.default_context = 4096, .default_kv_heads = 32}, {.share = 0.25});
  spec.norm = Norm::layer;
  spec.has_norm_bias = true;
  spec.epsilon = epsilon_from(config, "layer_norm_eps", 1e-5);
  spec.has_qkv_bias = config.boolean_or("use_qkv_bias", false);
  spec.is_parallel = config.boolean_or("use_parallel_residual", false);
  spec.names = llama_like_names(source);
  if (spec.is_parallel) spec.names.mlp_norm = "";
  if (config.boolean_or("qk_layernorm", false)) {
    const std::string layer = prefix_of(source, "model.", "embed_tokens.weight") + "layers.{}.";
    spec.qk_norm = QkNorm::each_head;
    spec.names.query_norm = layer + "self_attn.q_layernorm.norms.{}";
    spec.names.key_norm = layer + "self_attn.k_layernorm.norms.{}";
  }
  return spec;
}

}  // namespace assay
