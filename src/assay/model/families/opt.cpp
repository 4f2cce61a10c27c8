// OPT (Zhang et al. 2022). The positions begin at 2; of 350m, embeddings are narrower and norms follow the
// blocks.
#include "assay/model/families/family.h"

namespace assay {

ModelSpec opt_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec = read_sizes(config, "opt", {.mlp_hidden = "ffn_dim", .kv_heads = "", .head_dim = ""});
  require_boolean(config, "layer_norm_elementwise_affine", true, "norms with weights");
  spec.position_offset = 2;
  spec.activation = activation_of(config, "activation_function", "relu");
  spec.has_qkv_bias = spec.has_attention_out_bias = spec.has_mlp_bias =
      config.boolean_or("enable_bias", true);
  spec.is_head_tied = config.boolean_or("tie_word_embeddings", true);
  spec.is_post_norm = !config.boolean_or("do_layer_norm_before", true);
  const bool has_final_norm = !spec.is_post_norm && !config.boolean_or("_remove_final_layer_norm", false);
  spec.embed_width = config.integer_or("word_embed_proj_dim", spec.hidden, 1, kMaxWidth);
  std::string prefix = prefix_of(source, "model.decoder.", "embed_tokens.weight");
  if (source.find("decoder.embed_tokens.weight")) prefix = "decoder.";  // the bare model's
  const std::string layer = prefix + "layers.{}.", attention = layer + "self_attn.";
  spec.names = {.tokens = prefix + "embed_tokens.weight",
                .positions = prefix + "embed_positions.weight",
                .attention_norm = layer + "self_attn_layer_norm",
                .mlp_norm = layer + "final_layer_norm",
                .final_norm = has_final_norm ? prefix + "final_layer_norm" : "",
                .qkv = {attention + "q_proj", attention + "k_proj", attention + "v_proj"},
                .attention_out = attention + "out_proj",
                .mlp_in = {layer + "fc1"},
                .mlp_out = layer + "fc2",
                .head = head_of(source)};
  if (spec.embed_width != spec.hidden) {
    spec.names.project_in = prefix + "project_in";
    spec.names.project_out = prefix + "project_out";
  }
  return spec;
}

}  // namespace assay
