// BLOOM (BigScience 2022): ALiBi, and a norm of the embeddings.
#include "assay/model/families/family.h"

namespace assay {

ModelSpec bloom_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec = read_sizes(config, "bloom",
                              {.context = "seq_length",
                               .hidden = first_key(config, {"hidden_size", "n_embed"}),
                               .mlp_hidden = "",
                               .layers = first_key(config, {"n_layer", "num_hidden_layers"}),
                               .heads = first_key(config, {"n_head", "num_attention_heads"}),
                               .kv_heads = "",
                               .head_dim = "",
                               .has_default_mlp = true});
  require_boolean(config, "apply_residual_connection_post_layernorm", false, "residuals of what norms read");
  spec.epsilon = epsilon_from(config, "layer_norm_epsilon", 1e-5);
  spec.activation = Activation::gelu_tanh;
  spec.is_head_tied = config.boolean_or("tie_word_embeddings", true);
  spec.position = Position::alibi;
  spec.alibi_slopes = alibi_slopes(spec.heads);
  spec.qkv_order = QkvOrder::by_key_head;
  const std::string prefix = prefix_of(source, "transformer.", "word_embeddings.weight"),
                    layer = prefix + "h.{}.";
  spec.names = {.tokens = prefix + "word_embeddings.weight",
                .embedding_norm = prefix + "word_embeddings_layernorm",
                .attention_norm = layer + "input_layernorm",
                .mlp_norm = layer + "post_attention_layernorm",
                .final_norm = prefix + "ln_f",
                .qkv = {layer + "self_attention.query_key_value"},
                .attention_out = layer + "self_attention.dense",
                .mlp_in = {layer + "mlp.dense_h_to_4h"},
                .mlp_out = layer + "mlp.dense_4h_to_h",
                .head = head_of(source)};
  return spec;
}

}  // namespace assay
