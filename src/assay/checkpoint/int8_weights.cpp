#include "assay/checkpoint/int8_weights.h"

#include "assay/checkpoint/companion_tensors.h"

namespace assay {

namespace {

namespace int8 = int8_checkpoint;

std::string absmax_of(const StoredCodes& tensor) {
  return beside(module_of(tensor.name), int8::kAbsmax);
}

// The tensor's one number.
float float_of(const CheckpointTensor& at) {
  expect_floats(at, 1);
  return floats_of(at).front();
}

UniformCode input_code(const Checkpoint& checkpoint, const std::string& weight) {
  const CheckpointTensor scale_at = need(checkpoint, weight, beside(module_of(weight), int8::kInputScale));
  const CheckpointTensor zero_at = need(checkpoint, weight, beside(module_of(weight), int8::kInputZeroPoint));
  UniformCode code{.scale = float_of(scale_at)};
  // A smaller one has no inverse.
  if (!(code.scale > 1e-38F))
    throw Error("{}: expected a scale above 0, found {}", scale_at.where(), code.scale);
  if (zero_at->dtype != DType::u8 || zero_at->elements() != 1)
    throw Error("{}: expected one U8, found {} {}", zero_at.where(), info(zero_at->dtype).safetensors,
                zero_at->shape_text());
  std::uint8_t zero_point = 0;
  zero_at.read_bytes(0, std::as_writable_bytes(std::span(&zero_point, 1)));
  code.zero_point = zero_point;
  return code;
}

double clipped_share(const Checkpoint& checkpoint, const std::string& weight) {
  const CheckpointTensor at = need(checkpoint, weight, beside(module_of(weight), int8::kInputClippedShare));
  const float share = float_of(at);
  if (!(share >= 0 && share <= 1))
    throw Error("{}: expected a share from 0 to 1, found {}", at.where(), share);
  return static_cast<double>(share);
}

std::vector<float> input_smoothing(const Checkpoint& checkpoint, const StoredCodes& weight) {
  const CheckpointTensor at =
      need(checkpoint, weight.name, beside(module_of(weight.name), int8::kInputSmoothing));
  expect_floats(at, weight.columns);
  std::vector<float> factors = floats_of(at);
  if (!std::all_of(factors.begin(), factors.end(), [](float x) { return x > 1e-38F; }))
    throw Error("{}: expected factors above 0", at.where());
  return factors;
}

}  // namespace

Int8Weights::Int8Weights(const Checkpoint& checkpoint, const int8_checkpoint::Config& config)
    : checkpoint_(checkpoint),
      config_(config),
      has_input_codes_(config.precision == "int8-static"),
      has_smoothing_(config.smoothing >= 0) {}

StoredMethod Int8Weights::method() const {
  StoredMethod method{.declared_by = "quantization_config",
                      .preset = preset_from_name(config_.precision),
                      .smoothing = config_.smoothing,
                      .calibration_sha256 = config_.calibration_sha256};
  if (has_input_codes_) method.calibrator = calibrator_from_name(config_.calibrator);
  return method;
}

std::optional<WeightFormat> Int8Weights::format_of(const std::string& weight) const {
  const CheckpointTensor at = checkpoint_.find(weight);
  if (at && (at->dtype == DType::i8 || checkpoint_.find(beside(module_of(weight), int8::kAbsmax))))
    return formats::kInt8;
  return std::nullopt;
}

std::vector<std::string> Int8Weights::names_beside(const StoredCodes& tensor) const {
  const std::string module = module_of(tensor.name);
  std::vector<std::string> names{absmax_of(tensor)};
  if (has_input_codes_)
    for (const std::string_view suffix : {int8::kInputScale, int8::kInputZeroPoint, int8::kInputClippedShare})
      names.push_back(beside(module, suffix));
  if (has_smoothing_) names.push_back(beside(module, int8::kInputSmoothing));
  return names;
}

void Int8Weights::check(const StoredCodes& tensor) const {
  check_int8_codes(checkpoint_, tensor, absmax_of(tensor));
}

void Int8Weights::read_codes(const StoredCodes& tensor, std::int64_t first_row, std::int64_t row_count,
                             std::uint8_t* out) const {
  read_int8_codes(checkpoint_, tensor, first_row, row_count, out);
}

std::vector<float> Int8Weights::read_scales(const StoredCodes& tensor) const {
  return floats_of(checkpoint_.find(absmax_of(tensor)));
}

InputCalibration Int8Weights::calibration_of(const StoredCodes& tensor) const {
  InputCalibration input;
  if (has_input_codes_) {
    input.code = input_code(checkpoint_, tensor.name);
    input.clipped_share = clipped_share(checkpoint_, tensor.name);
  }
  if (has_smoothing_) input.smoothing = input_smoothing(checkpoint_, tensor);
  return input;
}

}  // namespace assay
