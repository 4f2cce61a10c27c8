#include "assay/model/stored_quantization.h"

#include <algorithm>

#include "assay/base/error.h"
#include "assay/checkpoint/bitsandbytes.h"
#include "assay/checkpoint/int8_checkpoint.h"
#include "assay/model/forward.h"

namespace assay {

namespace {

namespace bnb = bitsandbytes;
namespace int8 = int8_checkpoint;

// The precision of a checkpoint of our own.
Precision int8_precision(const int8::Config& config, const QuantizedWeights& weights,
                         const ModelFolder& folder, const ModelSpec& spec) {
  Precision precision = precision_from_name(config.precision);
  if (precision.input_scale == InputScale::calibrated) {
    constexpr Calibrator kCalibrators[] = {Calibrator::minmax, Calibrator::percentile, Calibrator::entropy};
    if (std::none_of(std::begin(kCalibrators), std::end(kCalibrators),
                     [&](Calibrator each) { return name_of(each) == config.calibrator; }))
      throw Error("{}: quantization_config: calibrator: expected minmax, percentile or entropy, found '{}'",
                  folder.config().where(), config.calibrator);
    set_calibrator(precision, calibrator_from_name(config.calibrator));
    precision.name += fmt::format(", {} calibration", name_of(precision.calibrator));
  }
  if (config.smoothing >= 0) {
    set_smoothing(precision, config.smoothing);
    precision.name += fmt::format(", SmoothQuant {}", config.smoothing);
  }
  precision.name += " (as stored)";
  precision.is_stored = true;
  const Plan plan = plan_forward(spec, Precision{});
  const std::vector<std::string> modules = modules_of(plan);
  for (const std::string& module : modules) {
    if (!weights.format_of(module + ".weight")) precision.skipped_modules.push_back(module);
  }
  if (precision.skipped_modules.size() == modules.size())
    throw Error("{}: quantization_config is there, but no weight of the blocks is stored quantized",
                folder.config().where());
  return precision;
}

// Modules may have several formats: that of most is the precision's own.
Precision precision_of_stored(const std::vector<std::pair<std::string, WeightFormat>>& stored) {
  std::vector<std::pair<WeightFormat, std::size_t>> counts;
  for (const auto& [module, format] : stored) {
    const auto at = std::find_if(counts.begin(), counts.end(),
                                 [&format = format](const auto& each) { return each.first == format; });
    if (at == counts.end())
      counts.emplace_back(format, 1);
    else
      ++at->second;
  }
  std::stable_sort(counts.begin(), counts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Precision precision = precision_of(counts.front().first);
  for (std::size_t i = 1; i < counts.size(); ++i)
    precision.name += " + " + precision_of(counts[i].first).name;
  precision.name += " (as stored)";
  precision.is_stored = true;
  for (const auto& [module, format] : stored)
    if (format != precision.weights) precision.stored_formats.emplace(module, format);
  return precision;
}

}  // namespace

StoredCodes quantized_tensor(const WeightSpec& weight) {
  return {weight.name, weight.rows, weight.columns, weight.format};
}

Calibration stored_calibration(const Plan& plan, const ModelFolder& folder) {
  Calibration found;
  const auto weights = quantized_weights(folder);
  for (const WeightSpec& whole : plan.weights) {
    if (!whole.is_stored_quantized) continue;
    const std::vector<TensorPart> parts = tensors_of(whole);
    for (const TensorPart& part : parts) {
      const InputCalibration input = weights->calibration_of(quantized_tensor(part.spec));
      // Modules that share their activations share what was calibrated of them.
      found[part.spec.name] = input;
      const InputCalibration& first = found[parts.front().spec.name];
      if (first.code.scale != input.code.scale || first.code.zero_point != input.code.zero_point ||
          first.smoothing != input.smoothing)
        throw Error("{}: expected the input scale and factors of '{}', whose activations it shares",
                    folder.find(part.spec.name).where(), parts.front().spec.name);
    }
  }
  return found;
}

std::string stored_calibration_sha256(const ModelFolder& folder) {
  const std::optional<int8::Config> config = int8::config_from(folder.config());
  return config ? config->calibration_sha256 : std::string();
}

std::optional<Precision> stored_precision(const ModelFolder& folder, const ModelSpec& spec) {
  if (const auto own = int8::config_from(folder.config()))
    return int8_precision(*own, *quantized_weights(folder), folder, spec);
  const std::optional<bnb::Config> config = bnb::config_from(folder.config());
  if (!config) return std::nullopt;
  const auto weights = quantized_weights(folder);
  const Plan plan = plan_forward(spec, Precision{});
  std::vector<std::string> kept;
  std::vector<std::pair<std::string, WeightFormat>> stored;  // by module
  for (const std::string& module : modules_of(plan)) {
    if (const auto format = weights->format_of(module + ".weight"))
      stored.emplace_back(module, *format);
    else
      kept.push_back(module);
  }
  if (stored.empty())
    throw Error("{}: quantization_config is there, but no weight of the blocks is stored quantized",
                folder.config().where());
  Precision precision = precision_of_stored(stored);
  precision.skipped_modules = std::move(kept);
  precision.outlier_threshold = static_cast<float>(config->threshold);
  const auto head = spec.is_head_tied ? std::nullopt : weights->format_of(spec.names.head);
  precision.is_lm_head_stored = head.has_value();
  if (head) precision.lm_head = *head;
  return precision;
}

}  // namespace assay
