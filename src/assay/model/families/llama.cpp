// Llama 1 to 3 (Touvron et al. 2023), TinyLlama and others of their shape, as Transformers configures them.
#include "assay/base/error.h"
#include "assay/model/families/families.h"
#include "assay/model/rotary.h"

namespace assay {

namespace {

TensorNames llama_names(const ModelFolder& folder) {
  // LlamaForCausalLM writes `model.` before each name, the bare LlamaModel does not.
  const std::string prefix =
      folder.find("model.embed_tokens.weight") || !folder.find("embed_tokens.weight") ? "model." : "";
  const std::string layer = prefix + "layers.{}.";
  return {.tokens = prefix + "embed_tokens.weight",
          .positions = "",
          .attention_norm = layer + "input_layernorm",
          .mlp_norm = layer + "post_attention_layernorm",
          .final_norm = prefix + "norm",
          .qkv = {layer + "self_attn.q_proj", layer + "self_attn.k_proj", layer + "self_attn.v_proj"},
          .attention_out = layer + "self_attn.o_proj",
          .mlp_in = {layer + "mlp.gate_proj", layer + "mlp.up_proj"},
          .mlp_out = layer + "mlp.down_proj",
          .head = "lm_head.weight",
          .linear_is_transposed = false,
          .buffers = {".rotary_emb.inv_freq"}};
}

}  // namespace

ModelSpec llama_spec(const ModelFolder& folder) {
  const JsonView config = folder.config();
  ModelSpec spec;
  spec.family = "llama";
  spec.vocab = config.integer("vocab_size", 1, kMaxVocab);
  spec.context = config.integer_or("max_position_embeddings", 2048, 1, kMaxContext);
  spec.hidden = config.integer("hidden_size", 1, kMaxWidth);
  spec.mlp_hidden = config.integer("intermediate_size", 1, 4 * kMaxWidth);
  spec.layers = static_cast<int>(config.integer("num_hidden_layers", 1, kMaxLayers));
  spec.heads = static_cast<int>(config.integer("num_attention_heads", 1, kMaxWidth));
  spec.kv_heads = static_cast<int>(config.integer_or("num_key_value_heads", spec.heads, 1, kMaxWidth));
  if (spec.heads % spec.kv_heads != 0)
    throw Error("{}: num_attention_heads {} is not a multiple of num_key_value_heads {}", config.where(),
                spec.heads, spec.kv_heads);
  if (!config.has("head_dim") && spec.hidden % spec.heads != 0)
    throw Error("{}: hidden_size {} is not a multiple of num_attention_heads {}, and there is no head_dim",
                config.where(), spec.hidden, spec.heads);
  spec.head_dim = static_cast<int>(config.integer_or("head_dim", spec.hidden / spec.heads, 1, kMaxWidth));
  if (spec.head_dim % 2 != 0)
    throw Error("{}: head_dim: expected an even number, as rotary pairs need, found {}", config.where(),
                spec.head_dim);
  spec.norm = Norm::rms;
  spec.has_norm_bias = false;
  spec.epsilon = epsilon_from(config, "rms_norm_eps", 1e-6);
  spec.position = Position::rotary;
  spec.rotary.frequencies = rotary_frequencies(config, spec.head_dim, 10000);
  spec.mlp = Mlp::gated;
  spec.activation = activation_from_name(config.text_or("hidden_act", "silu"), config.where());
  spec.has_qkv_bias = spec.has_attention_out_bias = config.boolean_or("attention_bias", false);
  spec.has_mlp_bias = config.boolean_or("mlp_bias", false);
  spec.is_head_tied = config.boolean_or("tie_word_embeddings", false);
  read_end_tokens(folder, spec);
  spec.names = llama_names(folder);
  return spec;
}

}  // namespace assay
