#include "assay/checkpoint/gguf_keys.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "assay/base/error.h"
#include "assay/checkpoint/gguf_rotary.h"

namespace assay {

namespace {

// Keys behind "ARCHITECTURE.", and what a family calls them where that is not Llama's name.
struct GgufKey {
  std::string_view own, transformers;
};
constexpr GgufKey kSizeKeys[] = {{"context_length", "max_position_embeddings"},
                                 {"embedding_length", "hidden_size"},
                                 {"block_count", "num_hidden_layers"},
                                 {"feed_forward_length", "intermediate_size"},
                                 {"attention.head_count", "num_attention_heads"},
                                 {"attention.head_count_kv", "num_key_value_heads"}};
constexpr GgufKey kNumberKeys[] = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                   {"attention.layer_norm_epsilon", "layer_norm_eps"},
                                   {"attn_logit_softcapping", "attn_logit_softcapping"},
                                   {"final_logit_softcapping", "final_logit_softcapping"}};
// Keys of one architecture, or read in a way of their own.
constexpr GgufKey kOtherKeys[] = {
    {"attention.key_length", "head_dim"},
    {"attention.key_length", "query_pre_attn_scalar"},
    {"attention.sliding_window", "sliding_window"},
    {"attention.sliding_window_pattern", "layer_types"},
    {"attention.scale", "attention_multiplier"},
    {"embedding_scale", "embedding_multiplier"},
    {"residual_scale", "residual_multiplier"},
    {"logit_scale", "logits_scaling"},
    {"expert_count", "num_local_experts"},
    {"use_parallel_residual", "use_parallel_residual"},
    {"rope.freq_base", "rope_theta"},
    {"rope.freq_base", "rotary_emb_base"},
    {"rope.freq_base_swa", "rope_local_base_freq"},
    {"rope.dimension_count", "partial_rotary_factor"},
    {"rope.dimension_count", "rotary_pct"},
    {"rope.scaling.type", "rope_scaling.rope_type"},
    {"rope.scaling.factor", "rope_scaling.factor"},
    {"rope.scaling.attn_factor", "rope_scaling.attention_factor"},
    {"rope.scaling.yarn_beta_fast", "rope_scaling.beta_fast"},
    {"rope.scaling.yarn_beta_slow", "rope_scaling.beta_slow"},
    {"rope.scaling.original_context_length", "original_max_position_embeddings"},
    {"rope.scaling.original_context_length", "rope_scaling.original_max_position_embeddings"}};
constexpr GgufKey kTokenKeys[] = {{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                  {"tokenizer.ggml.eos_token_id", "eos_token_id"},
                                  {"tokenizer.ggml.padding_token_id", "pad_token_id"}};
constexpr const char* kEndKeys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                    "tokenizer.ggml.eom_token_id"};

struct KeysOfType {
  std::string_view model_type;
  std::vector<GgufKey> keys;
};

std::string_view transformers_key(std::string_view model_type, const GgufKey& key) {
  static const KeysOfType kOthers[] = {{"gpt2",
                                        {{"context_length", "n_positions"},
                                         {"embedding_length", "n_embd"},
                                         {"block_count", "n_layer"},
                                         {"feed_forward_length", "n_inner"},
                                         {"attention.head_count", "n_head"},
                                         {"attention.layer_norm_epsilon", "layer_norm_epsilon"}}},
                                       {"bloom",
                                        {{"context_length", "seq_length"},
                                         {"block_count", "n_layer"},
                                         {"attention.head_count", "n_head"},
                                         {"attention.layer_norm_epsilon", "layer_norm_epsilon"}}},
                                       {"falcon",
                                        {{"feed_forward_length", "ffn_hidden_size"},
                                         {"attention.head_count_kv", "num_kv_heads"},
                                         {"attention.layer_norm_epsilon", "layer_norm_epsilon"}}},
                                       {"starcoder2", {{"attention.layer_norm_epsilon", "norm_epsilon"}}}};
  for (const KeysOfType& other : kOthers)
    if (other.model_type == model_type)
      for (const GgufKey& each : other.keys)
        if (each.own == key.own) return each.transformers;
  return key.transformers;
}

// Reads the keys of one file, which begin with its architecture.
class Keys {
 public:
  explicit Keys(const GgufFile& file)
      : file_(file), prefix_(file.text("general.architecture").value_or("") + ".") {}
  std::string name(std::string_view key) const { return prefix_ + std::string(key); }
  std::optional<double> number(std::string_view key) const { return file_.number(name(key)); }
  std::optional<bool> boolean(std::string_view key) const { return file_.boolean(name(key)); }
  // A list of one value for each layer is the value where it is the same for all.
  std::optional<std::int64_t> size(std::string_view key) const {
    const GgufValue* value = file_.value(name(key));
    if (value == nullptr || !value->is_array()) return file_.integer(name(key));
    const GgufValue& list = *file_.array(name(key), "integers");
    const auto layers = file_.integer(name("block_count"));
    if (layers.value_or(0) > 0 && *layers != static_cast<std::int64_t>(list.size()))
      throw Error("{}: key '{}': expected {} numbers, one for each layer, found {}", file_.where(), name(key),
                  *layers, list.size());
    for (std::size_t i = 1; i < list.size(); ++i)
      if (list.integer(i) != list.integer(0))
        throw Error(
            "{}: key '{}': expected the same number for every layer, found {} for layer 0 and {} for "
            "layer {}",
            file_.where(), name(key), list.integer(0).value_or(-1), list.integer(i).value_or(-1), i);
    return list.integer(0);
  }
  std::int64_t needed_size(std::string_view key) const {
    const auto found = size(key);
    if (!found) throw Error("{}: the key '{}' is missing", file_.where(), name(key));
    return *found;
  }

 private:
  const GgufFile& file_;
  const std::string prefix_;
};

std::int64_t layers_of(const Keys& keys) {
  constexpr std::int64_t kMost = 1 << 16;
  const std::int64_t layers = keys.needed_size("block_count");
  return std::clamp<std::int64_t>(layers, 0, kMost);
}

// Which layers have the window: a period, of which the last has none, or a flag for each layer.
struct DefaultWindow {
  int period = 0;
  std::int64_t tokens = 0;
};
void add_window(const GgufFile& file, const Keys& keys, DefaultWindow fallback, Json& config) {
  const std::int64_t window = keys.size("attention.sliding_window").value_or(fallback.tokens);
  if (window < 0)
    throw Error("{}: key '{}': expected the tokens of a window, or 0 for none, found {}", file.where(),
                keys.name("attention.sliding_window"), window);
  config["sliding_window"] = window > 0 ? Json(window) : Json(nullptr);
  if (window == 0) return;
  const std::string name = keys.name("attention.sliding_window_pattern");
  const GgufValue* pattern = file.value(name);
  std::vector<bool> has_window;
  const std::int64_t layers = layers_of(keys);
  if (pattern != nullptr && pattern->is_array()) {
    if (static_cast<std::int64_t>(pattern->size()) != layers)
      throw Error("{}: key '{}': expected {} flags, one for each layer, found {}", file.where(), name, layers,
                  pattern->size());
    for (std::size_t i = 0; i < pattern->size(); ++i) {
      const auto flag = pattern->boolean(i);
      const auto number = pattern->integer(i);
      if (!flag && !number)
        throw Error("{}: key '{}': expected an array of booleans, found {}", file.where(), name,
                    pattern->kind());
      has_window.push_back(flag ? *flag : *number != 0);
    }
  } else {
    const std::int64_t period = file.integer(name).value_or(fallback.period);
    for (std::int64_t i = 0; i < layers; ++i) has_window.push_back(period <= 0 || (i + 1) % period != 0);
  }
  config["layer_types"] = Json::array();
  for (const bool has : has_window)
    config["layer_types"].push_back(has ? "sliding_attention" : "full_attention");
}

void add_gemma(const GgufShards& shards, const Keys& keys, DefaultWindow window, int largest, Json& config) {
  const GgufHeads heads = heads_of(shards.first());
  // llama.cpp knows the 27B models by their layers: they scale by hidden / heads.
  const bool is_largest = layers_of(keys) == largest;
  config["query_pre_attn_scalar"] =
      is_largest ? keys.needed_size("embedding_length") / std::max<std::int64_t>(1, heads.heads)
                 : heads.head_dim;
  add_window(shards.first(), keys, window, config);
}

void add_factors(const Keys& keys, std::initializer_list<GgufKey> factors, Json& config) {
  for (const auto& [own, transformers] : factors)
    if (const auto factor = keys.number(own)) config[transformers] = *factor;
}

void add_falcon(const GgufShards& shards, Json& config) {
  const GgufHeads heads = heads_of(shards.first());
  const bool has_second_norm = shards.has("blk.0.attn_norm_2.weight");
  config["multi_query"] = heads.kv_heads == 1;
  config["new_decoder_architecture"] =
      has_second_norm || (heads.kv_heads > 1 && heads.kv_heads < heads.heads);
  config["num_ln_in_parallel_attn"] = has_second_norm ? 2 : 1;
  config["parallel_attn"] = !shards.has("blk.0.ffn_norm.weight");
  config["bias"] = shards.has("blk.0.attn_qkv.bias");
}

// The size of the MLP where it is not what the key says: some converters write four times the hidden size,
// whatever the model has. Of matrices that disagree the one behind the MLP is right where it has the hidden
// size and the key does not say what the one before has.
struct MlpSize {
  std::int64_t size;
  std::string_view where;
};
std::optional<MlpSize> other_mlp_size(const GgufShards& shards, const Keys& keys) {
  const GgufShards::Place up = shards.find("blk.0.ffn_up.weight"),
                          down = shards.find("blk.0.ffn_down.weight");
  const auto size = keys.size("feed_forward_length"), hidden = keys.size("embedding_length");
  if (up && size && (up.tensor->rows() == *size || up.tensor->rows() == 2 * *size)) return std::nullopt;
  if (down && (!up || down.tensor->rows() == hidden))
    return MlpSize{down.tensor->columns(), "columns of tensor 'blk.0.ffn_down.weight'"};
  if (up) return MlpSize{up.tensor->rows(), "rows of tensor 'blk.0.ffn_up.weight'"};
  return std::nullopt;
}

// What only tensors tell, or the architecture's name.
void add_own(const GgufShards& shards, const GgufArchitecture& architecture, const Keys& keys, Json& config) {
  const std::string_view type = architecture.model_type;
  const bool has_qkv_bias = shards.has("blk.0.attn_q.bias") || shards.has("blk.0.attn_qkv.bias"),
             has_mlp_norm = shards.has("blk.0.ffn_norm.weight");
  config["attention_bias"] = has_qkv_bias;
  config["mlp_bias"] = shards.has("blk.0.ffn_up.bias");
  if (type == "gpt_neox" || type == "stablelm")
    config["use_parallel_residual"] =
        keys.boolean("use_parallel_residual").value_or(true) && (type == "gpt_neox" || !has_mlp_norm);
  if (type == "stablelm") {
    config["use_qkv_bias"] = has_qkv_bias;
    config["qk_layernorm"] = shards.has("blk.0.attn_q_norm.weight");
  }
  if (type == "starcoder2") config["use_bias"] = has_qkv_bias;
  if (type == "falcon") add_falcon(shards, config);
  if (type == "gemma2") add_gemma(shards, keys, {.period = 2, .tokens = 4096}, 46, config);
  if (type == "gemma3_text") add_gemma(shards, keys, {.period = 6}, 62, config);
  if (type == "phi3") add_window(shards.first(), keys, {}, config);
  if (type == "cohere") {
    add_factors(keys, {{"logit_scale", "logit_scale"}}, config);
    config["use_qk_norm"] = shards.has("blk.0.attn_q_norm.weight");
  }
  if (type == "granite")
    add_factors(keys,
                {{"attention.scale", "attention_multiplier"},
                 {"embedding_scale", "embedding_multiplier"},
                 {"residual_scale", "residual_multiplier"},
                 {"logit_scale", "logits_scaling"}},
                config);
}

// What would be another model without a word.
void refuse_other_models(const GgufShards& shards, const GgufArchitecture& architecture, const Keys& keys) {
  const GgufFile& file = shards.first();
  if (architecture.name == "olmo2" && keys.size("attention.sliding_window").value_or(0) > 0)
    throw Error("{}: key '{}': expected none, as of OLMo 2, found {} (OLMo 3 is not supported)", file.where(),
                keys.name("attention.sliding_window"), *keys.size("attention.sliding_window"));
  if (keys.boolean("attention.causal").value_or(true)) return;
  throw Error("{}: key '{}': expected true, found false: a model that generates no text", file.where(),
              keys.name("attention.causal"));
}

}  // namespace

const GgufArchitecture& architecture_of(const GgufShards& shards) {
  const GgufFile& file = shards.first();
  const std::string kind = file.text("general.type").value_or("model");
  const auto name = file.text("general.architecture");
  if (kind == "mmproj" || name == "clip" || name == "mmproj")
    throw Error(
        "{}: expected a language model, found the projector (mmproj) of one that sees or hears: give the "
        "GGUF file of the language model, which runs without it",
        file.where());
  if (kind != "model")
    throw Error("{}: key 'general.type': expected a model, found '{}'", file.where(), printable(kind));
  if (!name) throw Error("{}: the key 'general.architecture' is missing", file.where());
  const GgufArchitecture* found = gguf_architecture(*name, shards.has("blk.0.attn_norm_2.weight"));
  if (found != nullptr) return *found;
  const std::string shown = printable(name->substr(0, 64));
  throw Error(
      "{}: key 'general.architecture': '{}' is not supported, the nearest is '{}'; expected one of: {}",
      file.where(), shown, nearest_name(shown, gguf_architectures()), fmt::join(gguf_architectures(), ", "));
}

GgufHeads heads_of(const GgufFile& file) {
  const Keys keys(file);
  GgufHeads heads;
  heads.heads = keys.needed_size("attention.head_count");
  heads.kv_heads = keys.size("attention.head_count_kv").value_or(heads.heads);
  if (heads.heads < 1 || heads.kv_heads < 1)
    throw Error("{}: key '{}': expected heads, found {} and {} of keys and values", file.where(),
                keys.name("attention.head_count"), heads.heads, heads.kv_heads);
  const auto key = keys.size("attention.key_length"), value = keys.size("attention.value_length");
  heads.head_dim = key ? *key : keys.needed_size("embedding_length") / heads.heads;
  if (heads.head_dim < 1)
    throw Error("{}: key '{}': expected at least one element for each of the {} heads, found {}",
                file.where(), keys.name(key ? "attention.key_length" : "embedding_length"), heads.heads,
                key ? *key : keys.needed_size("embedding_length"));
  if (value.value_or(heads.head_dim) != heads.head_dim)
    throw Error("{}: key '{}': expected as many elements as a key has ({}), found {}", file.where(),
                keys.name("attention.value_length"), heads.head_dim, value.value_or(0));
  return heads;
}

Json config_of(const GgufShards& shards, const GgufArchitecture& architecture) {
  const GgufFile& file = shards.first();
  const Keys keys(file);
  refuse_other_models(shards, architecture, keys);
  const std::string_view type = architecture.model_type;
  Json config = {{"model_type", type}};
  for (const GgufKey& key : kSizeKeys)
    if (const auto size = keys.size(key.own)) config[transformers_key(type, key)] = *size;
  const GgufHeads heads = heads_of(file);
  config[transformers_key(type, kSizeKeys[5])] = heads.kv_heads;
  config["head_dim"] = heads.head_dim;
  if (const auto mlp = other_mlp_size(shards, keys)) config[transformers_key(type, kSizeKeys[3])] = mlp->size;
  keys.needed_size("context_length");
  if (!keys.number(kNumberKeys[0].own) && !keys.number(kNumberKeys[1].own))
    throw Error("{}: expected the key '{}' or '{}', found neither", file.where(),
                keys.name(kNumberKeys[0].own), keys.name(kNumberKeys[1].own));
  for (const GgufKey& key : kNumberKeys)
    if (const auto number = keys.number(key.own)) config[transformers_key(type, key)] = *number;
  if (keys.size("expert_count").value_or(0) > 0) config["num_local_experts"] = *keys.size("expert_count");
  const GgufShards::Place tokens = shards.find("token_embd.weight");
  if (!tokens) throw Error("{}: tensor 'token_embd.weight' is missing", file.where());
  if (const auto hidden = keys.size("embedding_length"); hidden && tokens.tensor->columns() != *hidden)
    throw Error("{}: tensor 'token_embd.weight': expected rows of {} elements (by {}), found {}",
                shards.files()[tokens.file]->where(), *hidden, keys.name("embedding_length"),
                tokens.tensor->columns());
  config["vocab_size"] = tokens.tensor->rows();
  config["tie_word_embeddings"] = !shards.has("output.weight");
  add_own(shards, architecture, keys, config);
  if (type != "gpt2" && type != "bloom") add_rotary(shards, architecture, heads.head_dim, config);
  for (const auto& [own, transformers] : kTokenKeys)
    if (const auto id = file.integer(own); id && *id >= 0 && *id < tokens.tensor->rows())
      config[transformers] = static_cast<std::uint64_t>(*id);
  return config;
}

std::string gguf_file_type(const GgufFile& file) {
  // enum llama_ftype; 4, 5, 6 and 33 to 35 were removed.
  static constexpr std::pair<std::int64_t, std::string_view> kTypes[] = {
      {0, "F32"},     {1, "F16"},     {2, "Q4_0"},     {3, "Q4_1"},    {7, "Q8_0"},     {8, "Q5_0"},
      {9, "Q5_1"},    {10, "Q2_K"},   {11, "Q3_K_S"},  {12, "Q3_K_M"}, {13, "Q3_K_L"},  {14, "Q4_K_S"},
      {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},  {18, "Q6_K"},   {19, "IQ2_XXS"}, {20, "IQ2_XS"},
      {21, "Q2_K_S"}, {22, "IQ3_XS"}, {23, "IQ3_XXS"}, {24, "IQ1_S"},  {25, "IQ4_NL"},  {26, "IQ3_S"},
      {27, "IQ3_M"},  {28, "IQ2_S"},  {29, "IQ2_M"},   {30, "IQ4_XS"}, {31, "IQ1_M"},   {32, "BF16"},
      {36, "TQ1_0"},  {37, "TQ2_0"},  {38, "MXFP4"}};
  constexpr std::int64_t kIsGuessed = 1024;
  const auto number = file.integer("general.file_type");
  for (const auto& [known, name] : kTypes)
    if (number && (*number == known || *number == known + kIsGuessed)) return std::string(name);
  return "";
}

JsonView::KeyNames config_key_names(const GgufShards& shards, const GgufArchitecture& architecture) {
  const std::string prefix = std::string(architecture.name) + ".";
  JsonView::KeyNames names;
  for (const std::span<const GgufKey> keys : {std::span<const GgufKey>(kSizeKeys), {kNumberKeys}})
    for (const GgufKey& key : keys)
      names[std::string(transformers_key(architecture.model_type, key))] = prefix + std::string(key.own);
  for (const auto& [own, transformers] : kOtherKeys)
    names[std::string(transformers)] = prefix + std::string(own);
  if (architecture.name == "command-r") names["logit_scale"] = prefix + "logit_scale";
  names["model_type"] = "general.architecture";
  names["vocab_size"] = "rows of tensor 'token_embd.weight'";
  if (const auto mlp = other_mlp_size(shards, Keys(shards.first())))
    names[std::string(transformers_key(architecture.model_type, kSizeKeys[3]))] = mlp->where;
  add_rotary_names(shards, names);
  for (const auto& [own, transformers] : kTokenKeys) names[std::string(transformers)] = std::string(own);
  std::vector<std::string> ends;
  for (const char* key : kEndKeys)
    if (shards.first().value(key) != nullptr) ends.emplace_back(key);
  if (!ends.empty()) names["eos_token_id"] = fmt::format("{}", fmt::join(ends, " or "));
  return names;
}

Json generation_config_of(const GgufFile& file) {
  std::vector<std::uint64_t> ends;
  const auto add = [&](std::int64_t number) {
    const auto id = static_cast<std::uint64_t>(number);
    constexpr std::int64_t kNone = 0xFFFF'FFFF;  // -1 of 32 bits
    if (number >= 0 && number != kNone && std::find(ends.begin(), ends.end(), id) == ends.end())
      ends.push_back(id);
  };
  for (const char* key : kEndKeys)
    if (const auto id = file.integer(key)) add(*id);
  constexpr std::string_view kEnds[] = {"<|eot_id|>", "<|im_end|>",    "<|end|>",        "<end_of_turn>",
                                        "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>"};
  constexpr std::int64_t kControl = 3;
  const GgufValue* tokens = file.array("tokenizer.ggml.tokens", "texts");
  const GgufValue* types = file.array("tokenizer.ggml.token_type", "integers");
  for (std::size_t i = 0; tokens != nullptr && types != nullptr && i < tokens->size(); ++i)
    if (types->integer(i) == kControl &&
        std::find(std::begin(kEnds), std::end(kEnds), *tokens->text(i)) != std::end(kEnds))
      add(static_cast<std::int64_t>(i));
  return ends.empty() ? Json::object() : Json{{"eos_token_id", ends}};
}

}  // namespace assay
