// GPT-NeoX and Pythia (Black et al. 2022, Biderman et al. 2023).
#include "assay/model/families/family.h"

namespace assay {

ModelSpec gpt_neox_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec = read_sizes(config, "gpt_neox", {.kv_heads = "", .head_dim = ""});
  spec.epsilon = epsilon_from(config, "layer_norm_eps", 1e-5);
  read_rotary(config, {.base_key = "rotary_emb_base", .share = 0.25, .share_key = "rotary_pct"}, spec);
  spec.activation = activation_of(config, "hidden_act", "gelu");
  spec.has_qkv_bias = spec.has_attention_out_bias = config.boolean_or("attention_bias", true);
  spec.is_parallel = config.boolean_or("use_parallel_residual", true);
  spec.is_head_tied = config.boolean_or("tie_word_embeddings", false);
  spec.qkv_order = QkvOrder::by_key_head;
  const std::string prefix = prefix_of(source, "gpt_neox.", "embed_in.weight"), layer = prefix + "layers.{}.";
  spec.names = {.tokens = prefix + "embed_in.weight",
                .attention_norm = layer + "input_layernorm",
                .mlp_norm = layer + "post_attention_layernorm",
                .final_norm = prefix + "final_layer_norm",
                .qkv = {layer + "attention.query_key_value"},
                .attention_out = layer + "attention.dense",
                .mlp_in = {layer + "mlp.dense_h_to_4h"},
                .mlp_out = layer + "mlp.dense_4h_to_h",
                .head = source.find("lm_head.weight") ? head_of(source) : "embed_out.weight",
                .buffers = {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"}};
  return spec;
}

}  // namespace assay
