// GPT-Neo and TinyStories (Black et al. 2021, Eldan and Li 2023): every other layer sees a window, and scores
// are not scaled.
#include "assay/base/error.h"
#include "assay/base/json.h"
#include "assay/model/families/family.h"

namespace assay {

namespace {

// `attention_types`: [[["global", "local"], 12]] is twelve times the two.
std::vector<bool> local_layers(const JsonView& config, std::size_t layers) {
  std::vector<bool> is_local;
  const auto refuse = [&](const std::string& found) {
    throw Error(
        "{}: attention_types: expected pairs of a list of 'global' and 'local' and how often it repeats, "
        "for {} layers, found {}",
        config.where(), layers, printable(found.substr(0, 64)));
  };
  Json standard = Json::array({Json::array({Json::array({"global", "local"}), 12})});
  const Json& types = config.has("attention_types") ? config.raw().at("attention_types") : standard;
  if (!types.is_array()) refuse(shown_value(types));
  for (const Json& pair : types) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_array() || !pair[1].is_number_unsigned() ||
        pair[1].get<std::uint64_t>() > layers)
      refuse(shown_value(pair));
    for (auto times = pair[1].get<std::uint64_t>(); times > 0; --times)
      for (const Json& type : pair[0]) {
        if ((type != "global" && type != "local") || is_local.size() == layers) refuse(shown_value(pair));
        is_local.push_back(type == "local");
      }
  }
  if (is_local.size() != layers) refuse(fmt::format("{} of them", is_local.size()));
  return is_local;
}

}  // namespace

ModelSpec gpt_neo_spec(const JsonView& config, const ModelSource& source) {
  ModelSpec spec = read_sizes(config, "gpt_neo",
                              {.layers = first_key(config, {"num_layers", "num_hidden_layers"}),
                               .heads = first_key(config, {"num_heads", "num_attention_heads"}),
                               .kv_heads = "",
                               .head_dim = "",
                               .has_default_mlp = true});
  spec.epsilon = epsilon_from(config, "layer_norm_epsilon", 1e-5);
  spec.activation = activation_of(config, "activation_function", "gelu_new");
  spec.is_head_tied = config.boolean_or("tie_word_embeddings", true);
  spec.has_qkv_bias = false;
  spec.scales_attention = false;
  spec.attention_window = config.integer_or("window_size", 256, 1, kMaxContext);
  spec.has_window = local_layers(config, static_cast<std::size_t>(spec.layers));
  const std::string prefix = prefix_of(source, "transformer.", "wte.weight"), layer = prefix + "h.{}.",
                    attention = layer + "attn.attention.";
  spec.names = {.tokens = prefix + "wte.weight",
                .positions = prefix + "wpe.weight",
                .attention_norm = layer + "ln_1",
                .mlp_norm = layer + "ln_2",
                .final_norm = prefix + "ln_f",
                .qkv = {attention + "q_proj", attention + "k_proj", attention + "v_proj"},
                .attention_out = attention + "out_proj",
                .mlp_in = {layer + "mlp.c_fc"},
                .mlp_out = layer + "mlp.c_proj",
                .head = head_of(source),
                .buffers = {".attn.attention.bias", ".attn.attention.masked_bias"}};
  return spec;
}

}  // namespace assay
