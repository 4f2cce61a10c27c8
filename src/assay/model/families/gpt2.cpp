// GPT-2 (Radford et al. 2019), as Transformers configures it.
#include <utility>

#include "assay/base/format.h"
#include "assay/model/families/family.h"

namespace assay {

namespace {

// Conv1D keeps [in_features, out_features]; a file of another format may have turned all of them round. Codes
// of a quantized folder always lie as outputs, and say nothing of the matrices beside them. Most matrices
// decide: where one is wrong, the message about it says what the others agree on.
bool is_transposed(const ModelSource& source, const std::string& prefix, const ModelSpec& spec) {
  using Shape = std::vector<std::int64_t>;
  const std::pair<const char*, Shape> modules[] = {{"attn.c_attn", {3 * spec.hidden, spec.hidden}},
                                                   {"mlp.c_fc", {spec.mlp_hidden, spec.hidden}},
                                                   {"mlp.c_proj", {spec.hidden, spec.mlp_hidden}}};
  int turned = 0, as_conv1d = 0;
  for (int layer = 0; layer < spec.layers; ++layer)
    for (const auto& [module, shape] : modules) {
      const CheckpointTensor at = source.find(fmt::format("{}h.{}.{}.weight", prefix, layer, module));
      if (!at || shape.front() == shape.back()) continue;
      const bool are_codes = at->block_type.empty() && !info(at->dtype).is_weight;
      if (are_codes) continue;
      turned += at->shape == shape ? 1 : 0;
      as_conv1d += at->shape == Shape{shape.back(), shape.front()} ? 1 : 0;
    }
  return turned <= as_conv1d;
}

TensorNames gpt2_names(const ModelSource& source, const ModelSpec& spec) {
  // GPT2LMHeadModel writes `transformer.` before each name, the bare GPT2Model does not.
  const std::string prefix = source.find("transformer.wte.weight") ? "transformer." : "";
  return {.tokens = prefix + "wte.weight",
          .positions = prefix + "wpe.weight",
          .attention_norm = prefix + "h.{}.ln_1",
          .mlp_norm = prefix + "h.{}.ln_2",
          .final_norm = prefix + "ln_f",
          .qkv = {prefix + "h.{}.attn.c_attn"},
          .attention_out = prefix + "h.{}.attn.c_proj",
          .mlp_in = {prefix + "h.{}.mlp.c_fc"},
          .mlp_out = prefix + "h.{}.mlp.c_proj",
          .head = "lm_head.weight",
          .linear_is_transposed = is_transposed(source, prefix, spec),
          .buffers = {".attn.bias", ".attn.masked_bias"}};
}

}  // namespace

ModelSpec gpt2_spec(const JsonView& config, const ModelSource& source) {
  // Configurations of before Transformers 4 name the context n_ctx alone.
  const bool is_old = !config.has("n_positions") && config.has("n_ctx");
  config.integer(is_old ? "n_ctx" : "n_positions", 1, kMaxContext);
  ModelSpec spec = read_sizes(config, "gpt2",
                              {.context = is_old ? "n_ctx" : "n_positions",
                               .hidden = "n_embd",
                               .mlp_hidden = "n_inner",
                               .layers = "n_layer",
                               .heads = "n_head",
                               .kv_heads = "",
                               .head_dim = "",
                               .has_default_mlp = true});
  spec.epsilon = epsilon_from(config, "layer_norm_epsilon", 1e-5);
  spec.activation = activation_of(config, "activation_function", "gelu_new");
  spec.is_head_tied = config.boolean_or("tie_word_embeddings", true);
  spec.scales_attention = config.boolean_or("scale_attn_weights", true);
  spec.scales_attention_by_layer = config.boolean_or("scale_attn_by_inverse_layer_idx", false);
  // reorder_and_upcast_attn computes the scores in float32 whatever the model's type: they always are here.
  config.boolean_or("reorder_and_upcast_attn", false);
  spec.names = gpt2_names(source, spec);
  return spec;
}

}  // namespace assay
