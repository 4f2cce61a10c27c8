// Command R and Aya (Cohere 2024): attention and MLP side by side, neighbours turned together, scaled logits.
#include "assay/model/families/family.h"

namespace assay {

ModelSpec cohere_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec = llama_like_spec(config, "cohere", {.default_context = 8192}, {.base = 500000});
  require_boolean(config, "use_qk_norm", false, "queries and keys without norms");
  spec.norm = Norm::layer;
  spec.epsilon = epsilon_from(config, "layer_norm_eps", 1e-5);
  spec.rotary.pairing = RotaryPairing::neighbours;
  spec.has_qkv_bias = spec.has_attention_out_bias = config.boolean_or("attention_bias", false);
  spec.is_parallel = true;
  spec.logit_scale = factor_from(config, "logit_scale", 0.0625);
  spec.is_head_tied = config.boolean_or("tie_word_embeddings", true);
  spec.names = llama_like_names(source);
  spec.names.mlp_norm = "";
  return spec;
}

}  // namespace assay
