#include "assay/model/rotary.h"

#include <cmath>
#include <numbers>
#include <string>

#include "assay/base/error.h"

namespace assay {

namespace {

std::vector<float> unscaled(float base, int head_dim) {
  std::vector<float> frequencies;
  for (int i = 0; i < head_dim; i += 2)
    frequencies.push_back(1.0F / std::pow(base, static_cast<float>(i) / static_cast<float>(head_dim)));
  return frequencies;
}

// Beyond these bounds angles would leave float32.
float positive(const JsonView& view, std::string_view key, double fallback) {
  const double value = view.number_or(key, fallback);
  if (!(value >= 1e-6 && value <= 1e9))
    throw Error("{}: {}: expected a number from 1e-6 to 1e9, found {}", view.where(), key, value);
  return static_cast<float>(value);
}

// Long waves are stretched, short ones stay, those between change over smoothly.
void scale_as_llama3(const JsonView& scaling, std::vector<float>& frequencies) {
  const float factor = positive(scaling, "factor", scaling.number("factor"));
  const float low = positive(scaling, "low_freq_factor", scaling.number("low_freq_factor"));
  const float high = positive(scaling, "high_freq_factor", scaling.number("high_freq_factor"));
  const auto context =
      static_cast<float>(scaling.integer("original_max_position_embeddings", 1, std::int64_t{1} << 30));
  if (!(high > low))
    throw Error("{}: high_freq_factor: expected more than low_freq_factor ({}), found {}", scaling.where(),
                low, high);
  for (float& frequency : frequencies) {
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

}  // namespace

std::vector<float> rotary_frequencies(const JsonView& config, int head_dim, double default_base) {
  const bool is_new = config.has("rope_parameters"), is_scaled = is_new || config.has("rope_scaling");
  const JsonView scaling = is_new      ? config.object("rope_parameters")
                           : is_scaled ? config.object("rope_scaling")
                                       : config;
  const float base = positive(scaling.has("rope_theta") ? scaling : config, "rope_theta", default_base);
  std::vector<float> frequencies = unscaled(base, head_dim);
  if (!is_scaled) return frequencies;
  const std::string type = scaling.text_or(scaling.has("rope_type") ? "rope_type" : "type", "default");
  if (type == "linear") {
    const float factor = positive(scaling, "factor", scaling.number("factor"));
    for (float& frequency : frequencies) frequency /= factor;
  } else if (type == "llama3") {
    scale_as_llama3(scaling, frequencies);
  } else if (type != "default") {
    throw Error("{}: rope_type '{}' is not supported; expected one of: default, linear, llama3",
                scaling.where(), type.substr(0, 64));
  }
  return frequencies;
}

}  // namespace assay
