// Phi 1 to 2 (Gunasekar et al. 2023): attention and MLP side by side, rotary positions of half a head, biases
// everywhere.
#include "assay/model/families/family.h"

namespace assay {

ModelSpec phi_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec = read_sizes(config, "phi");
  spec.epsilon = epsilon_from(config, "layer_norm_eps", 1e-5);
  read_rotary(config, {.share = 0.5}, spec);
  spec.activation = activation_of(config, "hidden_act", "gelu_new");
  spec.is_parallel = true;
  spec.is_head_tied = config.boolean_or("tie_word_embeddings", false);
  spec.has_head_bias = true;
  spec.names = llama_like_names(source);
  const std::string prefix = prefix_of(source, "model.", "embed_tokens.weight"),
                    layer = prefix + "layers.{}.";
  spec.names.mlp_norm = "";
  spec.names.final_norm = prefix + "final_layernorm";
  spec.names.attention_out = layer + "self_attn.dense";
  spec.names.mlp_in = {layer + "mlp.fc1"};
  spec.names.mlp_out = layer + "mlp.fc2";
  spec.names.head_bias = "lm_head.bias";
  if (config.boolean_or("qk_layernorm", false)) {
    spec.qk_norm = QkNorm::by_head;
    spec.has_qk_norm_bias = true;
    spec.names.query_norm = layer + "self_attn.q_layernorm";
    spec.names.key_norm = layer + "self_attn.k_layernorm";
  }
  return spec;
}

}  // namespace assay
