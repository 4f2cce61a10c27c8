#include "assay/model/families/family.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/json.h"

namespace assay {

ModelSpec read_sizes(const JsonView& config, const char* family, const SizeKeys& keys) {
  ModelSpec spec;
  spec.family = family;
  const auto size = [&](const char* key, std::int64_t fallback, std::int64_t max) {
    return fallback > 0 ? config.integer_or(key, fallback, 1, max) : config.integer(key, 1, max);
  };
  spec.vocab = size("vocab_size", keys.default_vocab, kMaxVocab);
  spec.context = config.integer_or(keys.context, keys.default_context, 1, kMaxContext);
  spec.hidden = config.integer(keys.hidden, 1, kMaxWidth);
  spec.mlp_hidden = size(keys.mlp_hidden, keys.has_default_mlp ? 4 * spec.hidden : 0, 4 * kMaxWidth);
  spec.layers = static_cast<int>(config.integer(keys.layers, 1, kMaxLayers));
  spec.heads = static_cast<int>(size(keys.heads, keys.default_heads, kMaxWidth));
  // Null means as many as heads, whatever the default is.
  const bool is_null = config.raw().contains(keys.kv_heads) || keys.default_kv_heads == 0;
  const std::int64_t kv_heads = is_null ? spec.heads : keys.default_kv_heads;
  spec.kv_heads = static_cast<int>(config.integer_or(keys.kv_heads, kv_heads, 1, kMaxWidth));
  if (spec.heads % spec.kv_heads != 0)
    throw Error("{} {} is not a multiple of {} {}", config.where(keys.heads), spec.heads,
                config.name_of(keys.kv_heads), spec.kv_heads);
  const bool has_head_dim = *keys.head_dim != '\0' && config.has(keys.head_dim);
  std::int64_t head_dim = keys.default_head_dim;
  if (head_dim == 0 && !has_head_dim && spec.hidden % spec.heads != 0)
    throw Error("{} {} is not a multiple of {} {}{}", config.where(keys.hidden), spec.hidden,
                config.name_of(keys.heads), spec.heads,
                *keys.head_dim != '\0' ? ", and there is no " + config.name_of(keys.head_dim) : "");
  if (head_dim == 0) head_dim = spec.hidden / spec.heads;
  spec.head_dim = static_cast<int>(has_head_dim ? config.integer(keys.head_dim, 1, kMaxWidth) : head_dim);
  return spec;
}

ModelSpec llama_like_spec(const JsonView& config, const char* family, const SizeKeys& keys,
                          const RotaryKeys& rotary) {
  ModelSpec spec = read_sizes(config, family, keys);
  spec.norm = Norm::rms;
  spec.has_norm_bias = false;
  spec.epsilon = epsilon_from(config, "rms_norm_eps", 1e-6);
  read_rotary(config, rotary, spec);
  spec.mlp = Mlp::gated;
  spec.activation = activation_of(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_attention_out_bias = spec.has_mlp_bias = false;
  spec.is_head_tied = config.boolean_or("tie_word_embeddings", false);
  return spec;
}

TensorNames llama_like_names(const ModelSource& source) {
  const std::string prefix = prefix_of(source, "model.", "embed_tokens.weight"),
                    layer = prefix + "layers.{}.";
  return {.tokens = prefix + "embed_tokens.weight",
          .attention_norm = layer + "input_layernorm",
          .mlp_norm = layer + "post_attention_layernorm",
          .final_norm = prefix + "norm",
          .qkv = {layer + "self_attn.q_proj", layer + "self_attn.k_proj", layer + "self_attn.v_proj"},
          .attention_out = layer + "self_attn.o_proj",
          .mlp_in = {layer + "mlp.gate_proj", layer + "mlp.up_proj"},
          .mlp_out = layer + "mlp.down_proj",
          .head = head_of(source),
          .buffers = {".rotary_emb.inv_freq"}};
}

const char* first_key(const JsonView& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (config.has(key)) return key;
  return *keys.begin();
}

std::string prefix_of(const ModelSource& source, const std::string& prefix, const std::string& probe) {
  const std::string places[] = {prefix, "", "language_model." + prefix, "model.language_model.",
                                "model.text_model."};
  for (const std::string& each : places)
    if (source.find(each + probe)) return each;
  return prefix;
}

std::string head_of(const ModelSource& source) {
  const std::string name = "lm_head.weight", inner = "language_model." + name;
  return source.find(inner) ? inner : name;
}

Activation activation_of(const JsonView& config, const char* key, const char* fallback) {
  return activation_from_name(config.text_or(key, fallback), config.where(key));
}

float epsilon_from(const JsonView& config, const char* key, double fallback) {
  const double value = config.number_or(key, fallback);
  const auto epsilon = static_cast<float>(value);
  if (!(epsilon >= 0) || !std::isfinite(epsilon))
    throw Error("{}: expected a number of at least 0 that float32 can hold, found {}", config.where(key),
                value);
  return epsilon;
}

float factor_from(const JsonView& config, const char* key, double fallback) {
  const double value = config.number_or(key, fallback);
  if (!(value >= 1e-9 && value <= 1e9))
    throw Error("{}: expected a number from 1e-9 to 1e9, found {}", config.where(key), value);
  return static_cast<float>(value);
}

float cap_from(const JsonView& config, const char* key, double fallback) {
  if (config.raw().contains(key) && !config.has(key)) return 0;  // null
  const double value = config.number_or(key, fallback);
  return value == 0 ? 0 : factor_from(config, key, value);
}

std::int64_t window_from(const JsonView& config, const char* key, std::int64_t fallback) {
  if (!config.has(key)) return config.raw().contains(key) ? 0 : fallback;
  return config.integer(key, 1, std::int64_t{1} << 30);
}

bool read_layer_types(const JsonView& config, ModelSpec& spec) {
  if (!config.has("layer_types")) return false;
  const Json& types = config.raw().at("layer_types");
  const auto layers = static_cast<std::size_t>(spec.layers);
  if (!types.is_array() || types.size() != layers)
    throw Error("{}: expected a list of types, one for each of the layers ({}), found {}",
                config.where("layer_types"), layers,
                types.is_array() ? fmt::format("{} of them", types.size()) : shown_value(types));
  for (const Json& type : types) {
    const bool is_full = type == "full_attention";
    if (!is_full && type != "sliding_attention")
      throw Error("{}: {} is not supported; expected full_attention or sliding_attention",
                  config.where("layer_types"), shown_value(type));
    spec.has_window.push_back(!is_full);
  }
  return true;
}

std::vector<float> alibi_slopes(int heads) {
  int power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<float> slopes;
  const auto add = [&](double base, int exponent) {
    slopes.push_back(std::pow(static_cast<float>(base), static_cast<float>(exponent)));
  };
  for (int i = 1; i <= power; ++i) add(std::exp2(-8.0 / power), i);
  for (int i = 1; static_cast<int>(slopes.size()) < heads; i += 2) add(std::exp2(-4.0 / power), i);
  return slopes;
}

void require_boolean(const JsonView& config, const char* key, bool expected, const char* why) {
  if (config.boolean_or(key, expected) != expected)
    throw Error("{} {} is not supported: expected {}, {}", config.where(key), !expected, expected, why);
}

void read_end_tokens(const JsonView& own, const ModelSource& source, ModelSpec& spec) {
  const JsonView config = source.generation_config().has("eos_token_id") ? source.generation_config() : own;
  if (!config.has("eos_token_id")) return;
  std::vector<bool> is_end(static_cast<std::size_t>(spec.vocab));
  std::size_t outside = 0;
  std::string first_outside;
  const auto add = [&](const Json& id) {
    if (!id.is_number_integer())
      throw Error("{}: expected a token id or a list of them, found {}", config.where("eos_token_id"),
                  shown_value(id));
    const auto limit = static_cast<std::uint64_t>(spec.vocab);
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= limit) {
      if (++outside == 1) first_outside = id.dump();
      return;
    }
    const auto token = id.get<std::size_t>();
    if (!is_end[token]) spec.end_tokens.push_back(static_cast<TokenId>(token));
    is_end[token] = true;
  };
  const Json& ids = config.raw().at("eos_token_id");
  if (!ids.is_array())
    add(ids);
  else
    for (const Json& id : ids) add(id);
  if (outside > 0)
    spec.warnings.push_back(
        fmt::format("{} {}{} is outside the vocabulary of {}: generation does not stop at it",
                    config.where("eos_token_id"), first_outside,
                    outside > 1 ? fmt::format(" (as {} others)", outside - 1) : "", spec.vocab));
}

}  // namespace assay
