#include "assay/model/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "assay/base/error.h"
#include "assay/base/json.h"

namespace assay {

namespace {

// Beyond these bounds angles would leave float32.
double positive(const JsonView& view, std::string_view key, double value) {
  if (!(value >= 1e-6 && value <= 1e9))
    throw Error("{}: expected a number from 1e-6 to 1e9, found {}", view.where(key),
                std::isfinite(value) ? fmt::to_string(value) : shown_value(value));
  return value;
}
double positive(const JsonView& view, std::string_view key) {
  return positive(view, key, view.number(key));
}
double positive_or(const JsonView& view, std::string_view key, double fallback) {
  return view.has(key) ? positive(view, key) : fallback;
}

// Reads one rotary embedding: of all layers, or of a layer type.
class RotaryReader {
 public:
  RotaryReader(const JsonView& config, const RotaryKeys& keys, ModelSpec& spec)
      : config_(config), keys_(keys), spec_(spec) {}

  RotarySpec read(const JsonView& section, double base, const char* base_key) {
    scaling_ = &section;
    const JsonView& said_base = section.has("rope_theta") ? section : config_;
    const char* said_key = section.has("rope_theta") ? "rope_theta" : base_key;
    base_ = positive_or(said_base, said_key, base);
    said_base_ = said_base.where(said_key);
    set_turned();
    rotary_ = {};
    for (int i = 0; i < turned_; i += 2)
      rotary_.frequencies.push_back(
          1.0F / std::pow(static_cast<float>(base_), static_cast<float>(i) / static_cast<float>(turned_)));
    scale(section.text_or(section.has("rope_type") ? "rope_type" : "type", "default"));
    return std::move(rotary_);
  }

 private:
  // Elements of a head that are turned: of an odd number, Transformers turns one more.
  void set_turned() {
    turned_ = keys_.turned;
    if (turned_ > 0) return;
    const bool is_inside = scaling_->has("partial_rotary_factor");
    const JsonView& view = is_inside ? *scaling_ : config_;
    const char* key = is_inside ? "partial_rotary_factor" : keys_.share_key;
    const double share = view.number_or(key, keys_.share);
    turned_ = share >= 0 && share <= 1 ? static_cast<int>(spec_.head_dim * share) : 0;
    if (turned_ < 1)
      throw Error("{}: expected a share from one element of a head ({}) to 1, found {}", view.where(key),
                  spec_.head_dim, share);
    if (turned_ == spec_.head_dim && turned_ % 2 != 0)
      throw Error("{}: expected an even number, as rotary pairs need, found {}", config_.where("head_dim"),
                  spec_.head_dim);
  }

  void scale(const std::string& type) {
    if (type == "linear") {
      const auto factor = static_cast<float>(positive(*scaling_, "factor"));
      for (float& frequency : rotary_.frequencies) frequency /= factor;
    } else if (type == "llama3") {
      scale_as_llama3();
    } else if (type == "yarn") {
      scale_as_yarn();
    } else if (type == "longrope" || type == "su") {  // the name of before Transformers 4.40
      scale_as_longrope();
    } else if (type == "dynamic") {
      positive(*scaling_, "factor");
    } else if (type != "default") {
      throw Error(
          "{}: rope_type '{}' is not supported; expected one of: default, linear, dynamic, yarn, longrope, "
          "llama3",
          scaling_->where(), type.substr(0, 64));
    }
  }

  std::int64_t original_context() const {
    constexpr const char* kKey = "original_max_position_embeddings";
    constexpr std::int64_t kLongest = std::int64_t{1} << 30;
    if (config_.has(kKey)) return config_.integer(kKey, 1, kLongest);
    if (keys_.original_context > 0) return keys_.original_context;
    return scaling_->integer_or(kKey, spec_.context, 1, kLongest);
  }
  // By how much the context was stretched, where the configuration does not say it.
  double stretch(std::int64_t original) const {
    return positive_or(*scaling_, "factor",
                       static_cast<double>(spec_.context) / static_cast<double>(original));
  }

  // Long waves are stretched, short ones stay, those between change over smoothly.
  void scale_as_llama3() {
    const auto factor = static_cast<float>(positive(*scaling_, "factor")),
               low = static_cast<float>(positive(*scaling_, "low_freq_factor")),
               high = static_cast<float>(positive(*scaling_, "high_freq_factor")),
               context = static_cast<float>(original_context());
    if (!(high > low))
      throw Error("{}: expected more than low_freq_factor ({}), found {}",
                  scaling_->where("high_freq_factor"), low, high);
    for (float& frequency : rotary_.frequencies) {
      const float wavelength = 2 * std::numbers::pi_v<float> / frequency;
      if (wavelength < context / high) continue;
      if (wavelength > context / low) {
        frequency /= factor;
        continue;
      }
      const float smooth = (context / wavelength - low) / (high - low);
      frequency = (1 - smooth) * frequency / factor + smooth * frequency;
    }
  }

  void scale_as_yarn() {
    const std::int64_t original = original_context();
    const double factor = stretch(original), fast = rotations("beta_fast", 32),
                 slow = rotations("beta_slow", 1);
    rotary_.amplitude = static_cast<float>(yarn_amplitude(factor));
    if (!(base_ > 1)) throw Error("{}: yarn expects more than 1, found {}", said_base_, base_);
    double low = pair_of(fast, original), high = pair_of(slow, original);
    if (scaling_->boolean_or("truncate", true)) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(turned_ - 1));
    if (low == high) high += 0.001;  // a step, not a division by zero
    for (std::size_t i = 0; i < rotary_.frequencies.size(); ++i) {
      const float ramp = std::clamp(
          static_cast<float>(static_cast<double>(i) - low) / static_cast<float>(high - low), 0.0F, 1.0F);
      const float wave =
          std::pow(static_cast<float>(base_), static_cast<float>(2 * i) / static_cast<float>(turned_));
      const float kept = 1 - ramp;
      rotary_.frequencies[i] = 1.0F / (static_cast<float>(factor) * wave) * (1 - kept) + 1.0F / wave * kept;
    }
  }
  // Zero means the default, as Transformers reads it.
  double rotations(const char* key, double fallback) const {
    const double value = scaling_->number_or(key, 0);
    return value == 0 ? fallback : positive(*scaling_, key, value);
  }
  // The pair that turns as often over the original context.
  double pair_of(double rotations, std::int64_t context) const {
    return turned_ * std::log(static_cast<double>(context) / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(base_));
  }
  double yarn_amplitude(double factor) const {
    if (scaling_->has("attention_factor")) return positive(*scaling_, "attention_factor");
    const auto scale = [&](double share) { return factor <= 1 ? 1.0 : 0.1 * share * std::log(factor) + 1; };
    const double one = scaling_->number_or("mscale", 0), all = scaling_->number_or("mscale_all_dim", 0);
    return one != 0 && all != 0 ? positive(*scaling_, "mscale", scale(one) / scale(all)) : scale(1);
  }

  void scale_as_longrope() {
    const std::int64_t original = original_context();
    const double factor = stretch(original);
    const std::vector<float> shorts = factors("short_factor"), longs = factors("long_factor");
    const bool has_long = original < spec_.context && shorts != longs;
    for (std::size_t i = 0; i < rotary_.frequencies.size(); ++i) {
      const float exponent = static_cast<float>(2 * i) / static_cast<float>(turned_),
                  wave = std::pow(static_cast<float>(base_), exponent);
      rotary_.frequencies[i] = 1.0F / (shorts[i] * wave);
      if (has_long) rotary_.long_frequencies.push_back(1.0F / (longs[i] * wave));
    }
    if (has_long) rotary_.original_context = original;
    const double amplitude = factor <= 1 || original == 1
                                 ? 1
                                 : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original)));
    rotary_.amplitude = static_cast<float>(positive_or(*scaling_, "attention_factor", amplitude));
  }
  std::vector<float> factors(const char* key) const {
    const std::size_t pairs = rotary_.frequencies.size();
    if (!scaling_->has(key))
      throw Error("{}: the key '{}' is missing", scaling_->where(), scaling_->name_of(key));
    const Json& list = scaling_->raw().at(key);
    if (!list.is_array() || list.size() != pairs)
      throw Error("{}: expected {} numbers, one of each rotary pair, found {}", scaling_->where(key), pairs,
                  list.is_array() ? fmt::to_string(list.size()) : std::string(list.type_name()));
    std::vector<float> values;
    for (const Json& value : list)
      values.push_back(
          static_cast<float>(positive(*scaling_, key, value.is_number() ? value.get<double>() : 0)));
    return values;
  }

  const JsonView& config_;
  const RotaryKeys& keys_;
  ModelSpec& spec_;
  const JsonView* scaling_ = nullptr;  // the object that is read
  double base_ = 0;
  std::string said_base_;  // where it stands, for messages
  int turned_ = 0;
  RotarySpec rotary_;
};

bool is_by_layer_type(const JsonView& section) {
  return section.has("full_attention") || section.has("sliding_attention");
}

}  // namespace

void read_rotary(const JsonView& config, const RotaryKeys& keys, ModelSpec& spec) {
  spec.position = Position::rotary;
  const bool is_old = config.has("rope_scaling");
  const JsonView section = is_old                          ? config.object("rope_scaling")
                           : config.has("rope_parameters") ? config.object("rope_parameters")
                                                           : JsonView(config);
  RotaryReader reader(config, keys, spec);
  const double window_base = keys.window_base > 0 ? keys.window_base : keys.base;
  const char* window_key = keys.window_base > 0 ? keys.window_base_key : keys.base_key;
  if (!is_by_layer_type(section)) {
    const Json none = Json::object();
    const JsonView unscaled(none, config.where());
    // A whole configuration may have a `type` of its own.
    const bool has_section = is_old || config.has("rope_parameters");
    spec.rotary = reader.read(has_section ? section : unscaled, keys.base, keys.base_key);
    if (keys.window_base > 0) spec.window_rotary = reader.read(unscaled, window_base, window_key);
    return;
  }
  for (const auto& [key, value] : section.raw().items())
    if (value.is_object() && key != "full_attention" && key != "sliding_attention")
      throw Error("{}: layer type '{}' is not supported; expected full_attention or sliding_attention",
                  section.where(), printable(key.substr(0, 64)));
  const JsonView full =
      section.object(section.has("full_attention") ? "full_attention" : "sliding_attention");
  spec.rotary = reader.read(full, keys.base, keys.base_key);
  if (section.has("sliding_attention"))
    spec.window_rotary = reader.read(section.object("sliding_attention"), window_base, window_key);
}

}  // namespace assay
