#include "assay/quantize/gguf_metadata.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "assay/base/error.h"
#include "assay/base/json.h"

namespace assay {

namespace {

// llama.cpp loads these only with an LM head of their own, and those never with one.
constexpr std::string_view kNeedHead[] = {"gptneox", "olmo2", "phi2", "stablelm"},
                           kHaveNoHead[] = {"gemma", "gemma2", "command-r"};
// It wants biases of attention's output and the MLP in these, takes them in those, and refuses a file that
// has them in any other.
constexpr std::string_view kNeedBiases[] = {"bloom", "gpt2", "gptneox", "phi2", "starcoder2"},
                           kTakeBiases[] = {"granite", "llama"};

bool is_among(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Writes the keys of one file, which begin with its architecture.
class MetadataKeys {
 public:
  MetadataKeys(const GgufArchitecture& architecture, GgufWriter& writer)
      : prefix_(std::string(architecture.name) + "."), writer_(writer) {}
  void size(std::string_view key, std::int64_t value) {
    writer_.add_u32(prefix_ + std::string(key), static_cast<std::uint32_t>(value));
  }
  void number(std::string_view key, double value) {
    writer_.add_f32(prefix_ + std::string(key), static_cast<float>(value));
  }
  void boolean(std::string_view key, bool value) { writer_.add_bool(prefix_ + std::string(key), value); }
  void text(std::string_view key, std::string_view value) {
    writer_.add_text(prefix_ + std::string(key), value);
  }
  void booleans(std::string_view key, const std::vector<bool>& values) {
    writer_.add_bools(prefix_ + std::string(key), values);
  }

 private:
  const std::string prefix_;
  GgufWriter& writer_;
};

std::optional<double> number_at(const Json& object, const char* key) {
  const auto at = object.is_object() ? object.find(key) : object.end();
  return at != object.end() && at->is_number() ? std::optional(at->get<double>()) : std::nullopt;
}

// The part of a configuration that says how positions are scaled: of all layers, or of those without a
// window.
Json rotary_section(const Json& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto at = config.find(key);
    if (at == config.end() || !at->is_object()) continue;
    const auto full = at->find("full_attention");
    return full != at->end() ? *full : *at;
  }
  return Json::object();
}

// base^(-2 i / turned), in float32 as model/rotary.h has them.
std::vector<float> plain_frequencies(double base, std::size_t pairs) {
  std::vector<float> all;
  for (std::size_t i = 0; i < pairs; ++i)
    all.push_back(
        1.0F / std::pow(static_cast<float>(base), static_cast<float>(2 * i) / static_cast<float>(2 * pairs)));
  return all;
}

// What frequencies were divided by.
std::vector<float> factors_between(const std::vector<float>& plain, const std::vector<float>& scaled) {
  std::vector<float> factors;
  for (std::size_t i = 0; i < plain.size(); ++i) factors.push_back(plain[i] / scaled[i]);
  return factors;
}

// The base that frequencies without a scaling follow from, where the configuration leaves it to its family:
// those are whole numbers.
double base_behind(const std::vector<float>& frequencies) {
  const std::size_t pairs = frequencies.size();
  if (pairs < 2) return 10000;
  const double exponent = -static_cast<double>(pairs) / static_cast<double>(pairs - 1);
  return std::round(std::pow(static_cast<double>(frequencies.back()), exponent));
}

class RotaryMetadata {
 public:
  RotaryMetadata(const ModelSpec& spec, const ModelSource& source, MetadataKeys& keys)
      : spec_(spec), config_(source.config().raw()), section_(rotary_section(config_)), keys_(keys) {}

  GgufFactors add() {
    const std::vector<float>& frequencies = spec_.rotary.frequencies;
    keys_.size("rope.dimension_count", 2 * static_cast<std::int64_t>(frequencies.size()));
    const auto said = said_base();
    const double base = said ? *said : base_behind(frequencies);
    keys_.number("rope.freq_base", base);
    if (spec_.window_rotary) keys_.number("rope.freq_base_swa", window_base());
    const std::string type = scaling_type();
    if (type == "linear") {
      keys_.text("rope.scaling.type", "linear");
      add_where_said("factor", "rope.scaling.factor");
    } else if (type == "yarn") {
      add_yarn();
    } else if (type == "llama3") {
      return {
          {"rope_freqs.weight", factors_between(plain_frequencies(base, frequencies.size()), frequencies)}};
    } else if (type == "longrope" || type == "su") {
      return add_longrope(plain_frequencies(base, frequencies.size()));
    }
    return {};
  }

 private:
  std::string scaling_type() const {
    for (const char* key : {"rope_type", "type"})
      if (const auto at = section_.find(key); at != section_.end() && at->is_string())
        return at->get<std::string>();
    return "default";
  }
  std::optional<double> said_base() const {
    for (const Json* object : {&section_, &config_})
      for (const char* key : {"rope_theta", "rotary_emb_base"})
        if (const auto base = number_at(*object, key)) return base;
    return std::nullopt;
  }
  double window_base() const {
    if (const auto base = number_at(config_, "rope_local_base_freq")) return *base;
    if (const auto at = config_.find("rope_parameters"); at != config_.end() && at->is_object())
      if (const auto window = at->find("sliding_attention"); window != at->end())
        if (const auto base = number_at(*window, "rope_theta")) return *base;
    return base_behind(spec_.window_rotary->frequencies);
  }
  void add_where_said(const char* key, const char* own) {
    if (const auto number = number_at(section_, key)) keys_.number(own, *number);
  }
  std::int64_t original_context() const {
    for (const Json* object : {&config_, &section_})
      if (const auto number = number_at(*object, "original_max_position_embeddings"))
        return static_cast<std::int64_t>(*number);
    return spec_.context;
  }

  void add_yarn() {
    const std::int64_t original = original_context();
    const double stretch = static_cast<double>(spec_.context) / static_cast<double>(original);
    keys_.text("rope.scaling.type", "yarn");
    keys_.number("rope.scaling.factor", number_at(section_, "factor").value_or(stretch));
    keys_.size("rope.scaling.original_context_length", original);
    if (section_.contains("attention_factor") || section_.contains("mscale"))
      keys_.number("rope.scaling.yarn_attn_factor", static_cast<double>(spec_.rotary.amplitude));
    add_where_said("beta_fast", "rope.scaling.yarn_beta_fast");
    add_where_said("beta_slow", "rope.scaling.yarn_beta_slow");
  }

  GgufFactors add_longrope(const std::vector<float>& plain) {
    const RotarySpec& rotary = spec_.rotary;
    keys_.text("rope.scaling.type", "longrope");
    keys_.size("rope.scaling.original_context_length", original_context());
    keys_.number("rope.scaling.attn_factor", static_cast<double>(rotary.amplitude));
    const std::vector<float> factors = factors_between(plain, rotary.frequencies);
    return {{"rope_factors_short.weight", factors},
            {"rope_factors_long.weight",
             rotary.long_frequencies.empty() ? factors : factors_between(plain, rotary.long_frequencies)}};
  }

  const ModelSpec& spec_;
  const Json& config_;
  const Json section_;
  MetadataKeys& keys_;
};

void add_sizes(const ModelSpec& spec, MetadataKeys& keys) {
  keys.size("vocab_size", spec.vocab);
  keys.size("context_length", spec.context);
  keys.size("embedding_length", spec.hidden);
  keys.size("block_count", spec.layers);
  keys.size("feed_forward_length", spec.mlp_hidden);
  keys.size("attention.head_count", spec.heads);
  keys.size("attention.head_count_kv", spec.kv_heads);
  if (spec.position == Position::rotary) {
    keys.size("attention.key_length", spec.head_dim);
    keys.size("attention.value_length", spec.head_dim);
  }
  keys.number(spec.norm == Norm::layer ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
              static_cast<double>(spec.epsilon));
}

// Which layers have the window, where that is not what the architecture's name says: the last of a period has
// none.
void add_window_pattern(const ModelSpec& spec, int period, MetadataKeys& keys) {
  if (spec.attention_window <= 0) {
    if (period == 0) keys.size("attention.sliding_window", 0);  // as converters write it for Phi-3
    return;
  }
  keys.size("attention.sliding_window", spec.attention_window);
  std::vector<bool> has_window;
  bool is_usual = true;
  for (int layer = 0; layer < spec.layers; ++layer) {
    has_window.push_back(spec.window_of(layer) > 0);
    is_usual &= has_window.back() == (period == 0 || (layer + 1) % period != 0);
  }
  if (!is_usual) keys.booleans("attention.sliding_window_pattern", has_window);
}

// What only some architectures have.
void add_own_keys(std::string_view name, const ModelSpec& spec, const Json& config, MetadataKeys& keys) {
  if (name == "falcon") keys.text("tensor_data_layout", "jploski");
  if (name == "gptneox" || name == "stablelm") keys.boolean("use_parallel_residual", spec.is_parallel);
  if (name == "gemma2") {
    keys.number("attn_logit_softcapping", static_cast<double>(spec.attention_cap));
    keys.number("final_logit_softcapping", static_cast<double>(spec.logit_cap));
  }
  if (name == "gemma3" && spec.logit_cap != 0)
    keys.number("final_logit_softcapping", static_cast<double>(spec.logit_cap));
  if (name == "gemma2" || name == "gemma3") add_window_pattern(spec, name == "gemma2" ? 2 : 6, keys);
  if (name == "phi3") add_window_pattern(spec, 0, keys);
  if (name == "command-r") keys.number("logit_scale", static_cast<double>(spec.logit_scale));
  if (name == "granite") {
    keys.number("attention.scale", static_cast<double>(spec.attention_scale(0)));
    keys.number("embedding_scale", static_cast<double>(spec.embed_scale));
    keys.number("residual_scale", static_cast<double>(spec.residual_scale));
    keys.number("logit_scale", number_at(config, "logits_scaling").value_or(1));
  }
}

bool are_close(const std::vector<float>& a, const std::vector<float>& b) {
  constexpr float kRounding = 2e-6F;  // a few roundings of float32
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return std::abs(x - y) <= kRounding * std::abs(x); });
}
bool are_close(float a, float b) {
  return are_close(std::vector{a}, std::vector{b});
}

bool same_rotary(const RotarySpec* a, const RotarySpec* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->pairing == b->pairing && are_close(a->frequencies, b->frequencies) &&
         are_close(a->long_frequencies, b->long_frequencies) && are_close(a->amplitude, b->amplitude) &&
         a->original_context == b->original_context;
}

bool same_layers(const ModelSpec& a, const ModelSpec& b) {
  for (int layer = 0; layer < std::min(a.layers, b.layers); ++layer)
    if (!are_close(a.attention_scale(layer), b.attention_scale(layer))) return false;
  return true;
}

void check_biases(std::string_view name, const ModelSpec& spec, const ModelSource& source) {
  const bool has_any =
                 spec.has_attention_out_bias || spec.has_mlp_bias || (name == "falcon" && spec.has_qkv_bias),
             has_all = spec.has_attention_out_bias && spec.has_mlp_bias && spec.has_qkv_bias;
  if (is_among(name, kNeedBiases) && !has_all)
    throw Error(
        "{}: llama.cpp loads '{}' only with biases of attention and of the MLP, found a model without",
        source.config().where(), name);
  if (!is_among(name, kNeedBiases) && !is_among(name, kTakeBiases) && has_any)
    throw Error(
        "{}: llama.cpp loads '{}' only without biases of attention's output and of the MLP, found some",
        source.config().where(), name);
}

}  // namespace

std::vector<std::string> gguf_warnings(const GgufArchitecture& architecture, const ModelSpec& spec) {
  if (architecture.name != "phi3" || spec.attention_window <= 0 || spec.attention_window >= spec.context)
    return {};
  return {
      fmt::format("llama.cpp leaves out the attention window of 'phi3': from {} tokens on it computes "
                  "something else",
                  spec.attention_window)};
}

const GgufArchitecture& gguf_architecture_of(const ModelSpec& spec, const ModelSource& source) {
  const std::string type = source.config().text_or("model_type", spec.family);
  const bool has_second_norm = type == "falcon" && spec.names.mlp_norm.ends_with(".ln_mlp");
  const GgufArchitecture* found = gguf_architecture_of_model(type, has_second_norm);
  if (found == nullptr)
    throw Error("{}: model_type: GGUF files have no architecture for '{}' here; expected one of: {}",
                source.config().where(), printable(type.substr(0, 64)),
                fmt::join(gguf_architectures(), ", "));
  if (spec.is_head_tied && is_among(found->name, kNeedHead))
    throw Error(
        "{}: tie_word_embeddings: llama.cpp loads '{}' only with an LM head of its own, found a tied one",
        source.config().where(), found->name);
  if (!spec.is_head_tied && is_among(found->name, kHaveNoHead))
    throw Error("{}: tie_word_embeddings: llama.cpp takes the LM head of '{}' for tied, found one of its own",
                source.config().where(), found->name);
  if (found->name == "gemma2" && (spec.attention_cap == 0 || spec.logit_cap == 0))
    throw Error(
        "{}: attn_logit_softcapping, final_logit_softcapping: llama.cpp caps both of 'gemma2' always, found "
        "a "
        "model without one",
        source.config().where());
  check_biases(found->name, spec, source);
  return *found;
}

GgufFactors add_gguf_metadata(const GgufArchitecture& architecture, const ModelSpec& spec,
                              const ModelSource& source, GgufWriter& writer) {
  writer.add_text("general.architecture", architecture.name);
  writer.add_text("general.type", "model");
  const std::filesystem::path& path = source.path();
  writer.add_text("general.name", (path.has_filename() ? path : path.parent_path()).stem().string());
  MetadataKeys keys(architecture, writer);
  add_sizes(spec, keys);
  add_own_keys(architecture.name, spec, source.config().raw(), keys);
  if (spec.position != Position::rotary) return {};
  return RotaryMetadata(spec, source, keys).add();
}

void check_gguf_model(const ModelSpec& spec, const ModelSpec& written, const ModelSource& source) {
  const auto require = [&](bool is_same, std::string_view what) {
    if (!is_same)
      throw Error("{}: a GGUF file cannot say the model's {}: read back, it would be another",
                  source.config().where(), what);
  };
  require(spec.vocab == written.vocab && spec.context == written.context && spec.hidden == written.hidden &&
              spec.mlp_hidden == written.mlp_hidden && spec.layers == written.layers,
          "sizes");
  require(
      spec.heads == written.heads && spec.kv_heads == written.kv_heads && spec.head_dim == written.head_dim,
      "attention heads");
  require(spec.activation == written.activation && spec.mlp == written.mlp, "activation");
  require(spec.norm == written.norm && spec.has_norm_bias == written.has_norm_bias &&
              spec.gain_offset == written.gain_offset && are_close(spec.epsilon, written.epsilon) &&
              spec.is_post_norm == written.is_post_norm && spec.qk_norm == written.qk_norm &&
              spec.has_qk_norm_bias == written.has_qk_norm_bias,
          "norms");
  require(spec.is_parallel == written.is_parallel, "parallel residual");
  require(are_close(spec.embed_scale, written.embed_scale) &&
              are_close(spec.residual_scale, written.residual_scale) &&
              are_close(spec.logit_scale, written.logit_scale) &&
              are_close(spec.logit_cap, written.logit_cap) &&
              are_close(spec.attention_cap, written.attention_cap) && same_layers(spec, written),
          "scales and soft caps");
  require(spec.position == written.position && spec.position_offset == written.position_offset &&
              are_close(spec.alibi_slopes, written.alibi_slopes),
          "positions");
  for (int layer = 0; layer < spec.layers; ++layer) {
    require(same_rotary(spec.rotary_of(layer), written.rotary_of(layer)), "rotary positions");
    require(spec.window_of(layer) == written.window_of(layer), "attention window");
  }
  require(spec.qkv_order == written.qkv_order && spec.has_qkv_bias == written.has_qkv_bias &&
              spec.has_attention_out_bias == written.has_attention_out_bias &&
              spec.has_mlp_bias == written.has_mlp_bias && spec.has_head_bias == written.has_head_bias,
          "biases");
  require(spec.is_head_tied == written.is_head_tied, "LM head");
}

}  // namespace assay
