// GPT-J (Wang and Komatsuzaki 2021): attention and MLP side by side, neighbours turned together.
#include "assay/base/error.h"
#include "assay/model/families/absent.h"
#include "assay/model/families/family.h"

namespace assay {

ModelSpec gptj_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec = read_sizes(config, "gptj",
                              {.context = "n_positions",
                               .hidden = "n_embd",
                               .mlp_hidden = "n_inner",
                               .layers = "n_layer",
                               .heads = "n_head",
                               .kv_heads = "",
                               .head_dim = "",
                               .has_default_mlp = true});
  spec.epsilon = epsilon_from(config, "layer_norm_epsilon", 1e-5);
  const std::int64_t turned = config.integer_or("rotary_dim", 64, 2, kMaxWidth);
  if (turned > spec.head_dim || turned % 2 != 0)
    throw Error("{}: rotary_dim: expected an even number up to the heads' {} elements, found {}",
                config.where(), spec.head_dim, turned);
  refuse_rope_scaling(config, "gptj");
  read_rotary(config, {.turned = static_cast<int>(turned)}, spec);
  spec.rotary.pairing = RotaryPairing::neighbours;
  spec.activation = activation_of(config, "activation_function", "gelu_new");
  spec.has_qkv_bias = spec.has_attention_out_bias = false;
  spec.is_parallel = true;
  spec.is_head_tied = config.boolean_or("tie_word_embeddings", false);
  spec.has_head_bias = true;
  const std::string prefix = prefix_of(source, "transformer.", "wte.weight"), layer = prefix + "h.{}.";
  spec.names = {.tokens = prefix + "wte.weight",
                .attention_norm = layer + "ln_1",
                .final_norm = prefix + "ln_f",
                .qkv = {layer + "attn.q_proj", layer + "attn.k_proj", layer + "attn.v_proj"},
                .attention_out = layer + "attn.out_proj",
                .mlp_in = {layer + "mlp.fc_in"},
                .mlp_out = layer + "mlp.fc_out",
                .head = head_of(source),
                .head_bias = "lm_head.bias",
                .buffers = {".attn.bias", ".attn.masked_bias"}};
  return spec;
}

}  // namespace assay
