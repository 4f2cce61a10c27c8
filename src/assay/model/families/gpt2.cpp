// GPT-2 (Radford et al. 2019), as Transformers configures it.
#include <cmath>

#include "assay/base/error.h"
#include "assay/base/json.h"
#include "assay/model/families/families.h"

namespace assay {

namespace {

constexpr std::int64_t kMaxWidth = 1 << 16, kMaxLayers = 1024, kMaxVocab = 1 << 24, kMaxContext = 1 << 22;

TensorNames gpt2_names(const ModelFolder& folder, bool is_head_tied) {
  // GPT2LMHeadModel writes `transformer.` before each name, the bare GPT2Model does not.
  const std::string prefix = folder.find("transformer.wte.weight").tensor != nullptr ? "transformer." : "";
  return {.tokens = prefix + "wte.weight",
          .positions = prefix + "wpe.weight",
          .attention_norm = prefix + "h.{}.ln_1",
          .qkv = prefix + "h.{}.attn.c_attn",
          .attention_out = prefix + "h.{}.attn.c_proj",
          .mlp_norm = prefix + "h.{}.ln_2",
          .mlp_in = prefix + "h.{}.mlp.c_fc",
          .mlp_out = prefix + "h.{}.mlp.c_proj",
          .final_norm = prefix + "ln_f",
          .head = is_head_tied ? "" : "lm_head.weight",
          .linear_is_transposed = true};  // Conv1D keeps [inputs, outputs]
}

void read_end_tokens(JsonView view, ModelSpec& spec) {
  const auto add = [&](const Json& id) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() >= spec.vocab) return;
    spec.end_tokens.push_back(id.get<TokenId>());
  };
  if (!view.has("eos_token_id")) return;
  const Json& ids = view.raw().at("eos_token_id");
  if (ids.is_array()) {
    for (const Json& id : ids) add(id);
  } else {
    add(ids);  // GPT-2's default 50256 stands in configs of smaller vocabularies too: ids beyond it are no
               // tokens
  }
}

}  // namespace

ModelSpec gpt2_spec(const ModelFolder& folder) {
  const JsonView config = folder.config();
  ModelSpec spec;
  spec.family = "gpt2";
  spec.vocab = config.integer("vocab_size", 1, kMaxVocab);
  // Configurations of before Transformers 4 name the context n_ctx alone.
  const bool is_old = !config.has("n_positions") && config.has("n_ctx");
  spec.context = config.integer(is_old ? "n_ctx" : "n_positions", 1, kMaxContext);
  spec.hidden = config.integer("n_embd", 1, kMaxWidth);
  spec.layers = static_cast<int>(config.integer("n_layer", 1, kMaxLayers));
  spec.heads = spec.kv_heads = static_cast<int>(config.integer("n_head", 1, kMaxWidth));
  if (spec.hidden % spec.heads != 0)
    throw Error("{}: n_embd {} is not a multiple of n_head {}", config.where(), spec.hidden, spec.heads);
  spec.head_dim = static_cast<int>(spec.hidden / spec.heads);
  if (spec.head_dim > 512)
    throw Error("{}: heads of {} numbers; at most 512 are supported", config.where(), spec.head_dim);
  spec.mlp_hidden = config.integer_or("n_inner", 4 * spec.hidden, 1, 4 * kMaxWidth);
  spec.epsilon = static_cast<float>(config.number_or("layer_norm_epsilon", 1e-5));
  if (spec.epsilon < 0)
    throw Error("{}: layer_norm_epsilon: expected no negative number, found {}", config.where(),
                spec.epsilon);
  spec.activation = activation_from_name(config.text_or("activation_function", "gelu_new"), config.where());
  spec.is_head_tied = config.boolean_or("tie_word_embeddings", true);
  spec.scales_attention = config.boolean_or("scale_attn_weights", true);
  spec.scales_attention_by_layer = config.boolean_or("scale_attn_by_inverse_layer_idx", false);
  // reorder_and_upcast_attn computes the scores in float32 whatever the model's type: they always are here.
  config.boolean_or("reorder_and_upcast_attn", false);
  if (config.boolean_or("add_cross_attention", false))
    throw Error("{}: add_cross_attention is not supported: expected a decoder alone", config.where());
  read_end_tokens(folder.generation_config().has("eos_token_id") ? folder.generation_config() : config, spec);
  spec.names = gpt2_names(folder, spec.is_head_tied);
  return spec;
}

}  // namespace assay
