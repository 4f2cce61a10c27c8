#include "assay/model/stored_quantization.h"

#include <algorithm>

#include "assay/base/error.h"
#include "assay/model/forward.h"

namespace assay {

namespace {

// Modules that are stored quantized, and their formats.
using StoredFormats = std::vector<std::pair<std::string, WeightFormat>>;

// Each once, that of most modules first.
std::vector<WeightFormat> formats_by_count(const StoredFormats& stored) {
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
  std::vector<WeightFormat> formats;
  for (const auto& [format, count] : counts) formats.push_back(format);
  return formats;
}

// What the method says beside the formats, and its part of the name.
void apply_method(const StoredMethod& method, Precision& precision) {
  precision.outlier_threshold = method.outlier_threshold;
  if (precision.input_scale == InputScale::calibrated) {
    set_calibrator(precision, method.calibrator);
    precision.name += fmt::format(", {} calibration", name_of(precision.calibrator));
  }
  if (method.smoothing >= 0) {
    set_smoothing(precision, method.smoothing);
    precision.name += fmt::format(", SmoothQuant {}", method.smoothing);
  }
}

// Modules may have several formats: that of most is the precision's own.
Precision precision_of_stored(const StoredFormats& stored, const StoredMethod& method) {
  const std::vector<WeightFormat> formats = formats_by_count(stored);
  Precision precision = method.preset     ? precision_of(*method.preset)
                        : formats.empty() ? precision_of(Preset::float32)
                                          : precision_of(formats.front());
  for (std::size_t i = 1; i < formats.size(); ++i) precision.name += " + " + precision_of(formats[i]).name;
  apply_method(method, precision);
  precision.is_stored = true;
  for (const auto& [module, format] : stored)
    if (format != precision.weights) precision.stored_formats.emplace(module, format);
  return precision;
}

}  // namespace

StoredCodes quantized_tensor(const WeightSpec& weight) {
  return {weight.name, weight.rows, weight.columns, weight.format};
}

Calibration stored_calibration(const Plan& plan, const ModelSource& source) {
  Calibration found;
  const auto weights = source.quantized_weights();
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
                    source.find(part.spec.name).where(), parts.front().spec.name);
    }
  }
  return found;
}

std::string stored_calibration_sha256(const ModelSource& source) {
  const auto weights = source.quantized_weights();
  return weights == nullptr ? std::string() : weights->method().calibration_sha256;
}

std::optional<Precision> stored_precision(const ModelSource& source, const ModelSpec& spec) {
  const auto weights = source.quantized_weights();
  if (weights == nullptr) return std::nullopt;
  std::vector<std::string> kept;
  StoredFormats stored;
  for (const std::string& module : modules_of(plan_forward(spec, Precision{}))) {
    if (const auto format = weights->format_of(module + ".weight"))
      stored.emplace_back(module, *format);
    else
      kept.push_back(module);
  }
  const StoredMethod method = weights->method();
  if (stored.empty() && !method.declared_by.empty())
    throw Error(
        "{}: {} is there, but no weight of the blocks is stored quantized: if the weights are plain numbers, "
        "as "
        "of a merged model, delete {} from this file",
        source.config().where(), method.declared_by, method.declared_by);
  auto head = weights->format_of(spec.is_head_tied ? spec.names.tokens : spec.names.head);
  // Embeddings are looked up by rows, which other formats are not.
  const auto is_looked_up = [](const std::optional<WeightFormat>& format) {
    return format && holds_stored_scales(*format);
  };
  if (spec.is_head_tied && !is_looked_up(head)) head.reset();
  if (stored.empty() && !head) return std::nullopt;
  Precision precision = precision_of_stored(stored, method);
  if (stored.empty()) precision.name += ", LM head " + precision_of(*head).name;
  precision.name += " (as stored)";
  precision.skipped_modules = std::move(kept);
  precision.is_lm_head_stored = head.has_value();
  if (head) precision.lm_head = *head;
  for (const std::string& table :
       {spec.is_head_tied ? std::string() : spec.names.tokens, spec.names.positions})
    if (const auto format = table.empty() ? std::nullopt : weights->format_of(table); is_looked_up(format))
      precision.stored_tables.emplace(table, *format);
  return precision;
}

bool can_be_dequantized(const ModelSource& source) {
  const auto weights = source.quantized_weights();
  return weights != nullptr && weights->method().can_be_read_as_numbers;
}

}  // namespace assay
