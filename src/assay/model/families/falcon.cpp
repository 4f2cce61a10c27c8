// Falcon (Almazrouei et al. 2023): 1B with ALiBi, 7B with one key head, 40B and later with several and two
// norms.
#include <cmath>

#include "assay/model/families/family.h"

namespace assay {

ModelSpec falcon_spec(const JsonView& config, const ModelSource& source) {
  const bool is_new = config.boolean_or("new_decoder_architecture", false),
             is_multi_query = config.boolean_or("multi_query", true);
  ModelSpec spec = read_sizes(config, "falcon",
                              {.hidden = first_key(config, {"hidden_size", "n_embed"}),
                               .mlp_hidden = "ffn_hidden_size",
                               .layers = first_key(config, {"num_hidden_layers", "n_layer"}),
                               .heads = first_key(config, {"num_attention_heads", "n_head"}),
                               .kv_heads = is_new ? first_key(config, {"num_kv_heads", "n_head_kv"}) : "",
                               .head_dim = "",
                               .has_default_mlp = true});
  if (!is_new && is_multi_query) spec.kv_heads = 1;
  spec.qkv_order = QkvOrder::by_key_head;
  spec.epsilon = epsilon_from(config, "layer_norm_epsilon", 1e-5);
  spec.activation = activation_of(config, "activation", "gelu");
  spec.has_qkv_bias = spec.has_attention_out_bias = spec.has_mlp_bias = config.boolean_or("bias", false);
  spec.is_head_tied = config.boolean_or("tie_word_embeddings", true);
  spec.is_parallel = is_new || config.boolean_or("parallel_attn", true);
  if (config.boolean_or("alibi", false)) {
    // Scaled as the scores are. Transformers rounds slope * position to bfloat16; here it is exact.
    spec.position = Position::alibi;
    spec.alibi_slopes = alibi_slopes(spec.heads);
    for (float& slope : spec.alibi_slopes) slope /= std::sqrt(static_cast<float>(spec.head_dim));
  } else {
    read_rotary(config, {}, spec);
  }
  const bool has_two_norms = is_new && config.integer_or("num_ln_in_parallel_attn", 2, 1, 2) == 2;
  const std::string prefix = prefix_of(source, "transformer.", "word_embeddings.weight"),
                    layer = prefix + "h.{}.";
  spec.names = {.tokens = prefix + "word_embeddings.weight",
                .attention_norm = layer + (has_two_norms ? "ln_attn" : "input_layernorm"),
                .final_norm = prefix + "ln_f",
                .qkv = {layer + "self_attention.query_key_value"},
                .attention_out = layer + "self_attention.dense",
                .mlp_in = {layer + "mlp.dense_h_to_4h"},
                .mlp_out = layer + "mlp.dense_4h_to_h",
                .head = head_of(source),
                .buffers = {".rotary_emb.inv_freq", ".maybe_rotary.inv_freq"}};
  if (has_two_norms) spec.names.mlp_norm = layer + "ln_mlp";
  if (!spec.is_parallel) spec.names.mlp_norm = layer + "post_attention_layernorm";
  return spec;
}

}  // namespace assay
