// Granite 3 (Granite Team 2024): Llama with multipliers.
#include "assay/model/families/family.h"

namespace assay {

ModelSpec granite_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec = llama_like_spec(config, "granite");
  spec.has_qkv_bias = spec.has_attention_out_bias = config.boolean_or("attention_bias", false);
  spec.has_mlp_bias = config.boolean_or("mlp_bias", false);
  spec.embed_scale = factor_from(config, "embedding_multiplier", 1);
  spec.residual_scale = factor_from(config, "residual_multiplier", 1);
  spec.attention_multiplier = factor_from(config, "attention_multiplier", 1);
  spec.logit_scale = 1 / factor_from(config, "logits_scaling", 1);
  spec.names = llama_like_names(source);
  return spec;
}

}  // namespace assay
