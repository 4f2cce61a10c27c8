// StarCoder2 (Lozhkov et al. 2024): Llama with LayerNorm, a plain MLP and biases.
#include "assay/model/families/family.h"

namespace assay {

ModelSpec starcoder2_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec = llama_like_spec(config, "starcoder2", {.default_context = 4096, .default_kv_heads = 2});
  spec.norm = Norm::layer;
  spec.has_norm_bias = true;
  spec.epsilon = epsilon_from(config, "norm_epsilon", 1e-5);
  spec.mlp = Mlp::plain;
  spec.activation = activation_of(config, "hidden_act", "gelu_pytorch_tanh");
  spec.has_qkv_bias = spec.has_attention_out_bias = spec.has_mlp_bias = config.boolean_or("use_bias", true);
  spec.attention_window = window_from(config, "sliding_window", 0);
  spec.is_head_tied = config.boolean_or("tie_word_embeddings", true);
  spec.names = llama_like_names(source);
  const std::string layer = prefix_of(source, "model.", "embed_tokens.weight") + "layers.{}.";
  spec.names.mlp_in = {layer + "mlp.c_fc"};
  spec.names.mlp_out = layer + "mlp.c_proj";
  return spec;
}

}  // namespace assay
