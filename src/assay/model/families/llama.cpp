// Llama 1 to 3 (Touvron et al. 2023), TinyLlama and others of their shape, as Transformers configures them.
#include "assay/model/families/family.h"

namespace assay {

ModelSpec llama_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec = llama_like_spec(config, "llama");
  spec.has_qkv_bias = spec.has_attention_out_bias = config.boolean_or("attention_bias", false);
  spec.has_mlp_bias = config.boolean_or("mlp_bias", false);
  spec.names = llama_like_names(source);
  return spec;
}

}  // namespace assay
