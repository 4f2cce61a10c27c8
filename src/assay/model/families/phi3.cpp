// Phi 3 and 4 (Abdin et al. 2024): Llama with fused projections.
#include "assay/model/families/family.h"

namespace assay {

ModelSpec phi3_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec =
      llama_like_spec(config, "phi3", {.head_dim = "", .default_context = 4096}, {.original_context = 4096});
  spec.epsilon = epsilon_from(config, "rms_norm_eps", 1e-5);
  spec.attention_window = window_from(config, "sliding_window", 0);
  spec.names = llama_like_names(source);
  const std::string layer = prefix_of(source, "model.", "embed_tokens.weight") + "layers.{}.";
  spec.names.qkv = {layer + "self_attn.qkv_proj"};
  spec.names.mlp_in = {layer + "mlp.gate_up_proj"};
  return spec;
}

}  // namespace assay
