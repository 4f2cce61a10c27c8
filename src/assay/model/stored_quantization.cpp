#include "assay/model/stored_quantization.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "assay/base/error.h"
#include "assay/checkpoint/bitsandbytes.h"
#include "assay/checkpoint/int8_checkpoint.h"
#include "assay/model/forward.h"
#include "assay/quant/four_bit.h"

namespace assay {

namespace {

namespace bnb = bitsandbytes;
namespace int8 = int8_checkpoint;
using Location = ModelFolder::Location;

std::string where_of(const Location& at) {
  return fmt::format("{}: tensor '{}'", at.file->path().string(), at.tensor->name);
}

// The module of a weight: its name without ".weight".
std::string module_of(const std::string& weight) {
  return weight.substr(0, weight.rfind('.'));
}

std::string beside(const std::string& name, std::string_view suffix) {
  return name + std::string(suffix);
}

// A tensor that belongs to the weight.
Location need(const ModelFolder& folder, const std::string& weight, const std::string& name) {
  const Location at = folder.find(name);
  if (at.tensor != nullptr) return at;
  const Location owner = folder.find(weight);
  throw Error("{}: tensor '{}' is missing: the quantized '{}' needs it",
              (owner.file != nullptr ? owner.file->path() : folder.path()).string(), name, weight);
}

void expect_floats(const Location& at, std::int64_t count) {
  if (!info(at.tensor->dtype).is_weight)
    throw Error("{}: expected F32, F16 or BF16, found {}", where_of(at), info(at.tensor->dtype).safetensors);
  if (at.tensor->elements() != count)
    throw Error("{}: expected {} numbers, found shape {}", where_of(at), count, at.tensor->shape_text());
}

std::vector<float> floats_of(const Location& at) {
  std::vector<float> values(static_cast<std::size_t>(at.tensor->elements()));
  at.file->read_floats(*at.tensor, 0, at.tensor->elements(), values.data());
  if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); }))
    throw Error("{}: expected finite scales, found NaN or infinity", where_of(at));
  return values;
}

bool is_nested(const ModelFolder& folder, const std::string& weight) {
  const Location absmax = folder.find(beside(weight, bnb::kAbsmax));
  return (absmax.tensor != nullptr && absmax.tensor->dtype == DType::u8) ||
         folder.find(beside(weight, bnb::kNestedAbsmax)).tensor != nullptr ||
         folder.find(beside(weight, bnb::kNestedQuantMap)).tensor != nullptr;
}

// "nf4" or "fp4", by the name of the tensor that holds its state.
std::string four_bit_type(const ModelFolder& folder, const std::string& weight) {
  const std::string prefix = beside(weight, bnb::kQuantState);
  const Location nf4 = folder.find(prefix + "nf4"), fp4 = folder.find(prefix + "fp4");
  if (nf4.tensor != nullptr && fp4.tensor != nullptr)
    throw Error("{}: a second quant_state, beside that of nf4", where_of(fp4));
  if (nf4.tensor != nullptr) return "nf4";
  if (fp4.tensor != nullptr) return "fp4";
  for (const Location& at : folder.all())
    if (at.tensor->name.rfind(beside(weight, ".quant_state"), 0) == 0)
      throw Error("{}: unknown quant_type: expected the name to end with nf4 or fp4", where_of(at));
  need(folder, weight, prefix + "nf4");
  return {};
}

// How the file holds a weight; none where its elements are plain numbers (or it is missing, which
// check_weights() says).
std::optional<WeightFormat> format_of(const ModelFolder& folder, const std::string& weight) {
  const Location at = folder.find(weight);
  if (at.tensor == nullptr) return std::nullopt;
  if (at.tensor->dtype == DType::i8 || folder.find(beside(module_of(weight), bnb::kScb)).tensor != nullptr)
    return WeightFormat::llm_int8;
  constexpr std::string_view kSigns[] = {bnb::kAbsmax, bnb::kQuantMap, bnb::kNestedAbsmax};
  const bool has_state = std::any_of(std::begin(kSigns), std::end(kSigns), [&](std::string_view suffix) {
    return folder.find(beside(weight, suffix)).tensor != nullptr;
  });
  if (at.tensor->dtype != DType::u8 && !has_state) return std::nullopt;
  const bool is_double = is_nested(folder, weight);
  if (four_bit_type(folder, weight) == "nf4") return is_double ? WeightFormat::nf4_dq : WeightFormat::nf4;
  return is_double ? WeightFormat::fp4_dq : WeightFormat::fp4;
}

std::int64_t blocks_of(const WeightSpec& weight) {
  return (weight.elements() + kFourBitBlock - 1) / kFourBitBlock;
}
std::int64_t nested_blocks_of(const WeightSpec& weight) {
  return (blocks_of(weight) + kNestedBlock - 1) / kNestedBlock;
}

bnb::QuantState read_state(const ModelFolder& folder, const std::string& weight) {
  const Location at = need(folder, weight, beside(weight, bnb::kQuantState) + four_bit_type(folder, weight));
  constexpr std::uint64_t kLongest = 4096;
  if (at.tensor->dtype != DType::u8 || at.tensor->bytes > kLongest)
    throw Error("{}: expected at most {} bytes of JSON as U8, found {} {}", where_of(at), kLongest,
                info(at.tensor->dtype).safetensors, at.tensor->shape_text());
  std::string text(static_cast<std::size_t>(at.tensor->bytes), '\0');
  at.file->read_bytes(*at.tensor, 0, std::as_writable_bytes(std::span(text.data(), text.size())));
  return bnb::quant_state_from_text(text, where_of(at));
}

void check_state(const WeightSpec& weight, const ModelFolder& folder) {
  const std::string type = four_bit_type(folder, weight.name);
  const Location at = folder.find(beside(weight.name, bnb::kQuantState) + type);
  const bnb::QuantState state = read_state(folder, weight.name);
  if (state.type != type)
    throw Error("{}: quant_type: expected {}, as its name says, found '{}'", where_of(at), type, state.type);
  if (state.block != kFourBitBlock)
    throw Error("{}: blocksize: expected {}, found {}", where_of(at), kFourBitBlock, state.block);
  if (state.shape != std::vector<std::int64_t>{weight.rows, weight.columns})
    throw Error("{}: shape: expected [{}, {}] (by config.json), found [{}]", where_of(at), weight.rows,
                weight.columns, fmt::join(state.shape, ", "));
  if (is_nested(folder, weight.name) != state.nested.has_value())
    throw Error("{}: the nested state is incomplete: nested_blocksize and nested_offset {}", where_of(at),
                state.nested ? "without nested tensors" : "are missing");
  if (state.nested && state.nested->block != kNestedBlock)
    throw Error("{}: nested_blocksize: expected {}, found {}", where_of(at), kNestedBlock,
                state.nested->block);
}

void check_nested(const WeightSpec& weight, const ModelFolder& folder) {
  const Location absmax = folder.find(beside(weight.name, bnb::kAbsmax));
  if (absmax.tensor->dtype != DType::u8 || absmax.tensor->elements() != blocks_of(weight))
    throw Error("{}: expected {} codes of scales as U8, found {} {}", where_of(absmax), blocks_of(weight),
                info(absmax.tensor->dtype).safetensors, absmax.tensor->shape_text());
  expect_floats(need(folder, weight.name, beside(weight.name, bnb::kNestedAbsmax)), nested_blocks_of(weight));
  expect_floats(need(folder, weight.name, beside(weight.name, bnb::kNestedQuantMap)), 256);
}

void check_four_bit(const WeightSpec& weight, const ModelFolder& folder) {
  const Location codes = folder.find(weight.name);
  const auto bytes = static_cast<std::uint64_t>((weight.elements() + 1) / 2);
  if (codes.tensor->bytes != bytes)
    throw Error("{}: expected {} bytes of codes for [{}, {}] (by config.json), found {}", where_of(codes),
                bytes, weight.rows, weight.columns, codes.tensor->bytes);
  const Location absmax = need(folder, weight.name, beside(weight.name, bnb::kAbsmax));
  check_state(weight, folder);
  if (is_nested(folder, weight.name))
    check_nested(weight, folder);
  else
    expect_floats(absmax, blocks_of(weight));
  const Location map = need(folder, weight.name, beside(weight.name, bnb::kQuantMap));
  expect_floats(map, 16);
  const std::vector<float> values = floats_of(map);
  const bool is_nf4 = weight.format == WeightFormat::nf4 || weight.format == WeightFormat::nf4_dq;
  const auto& book = code_book(is_nf4 ? FourBit::nf4 : FourBit::fp4);
  // bitsandbytes itself reads its own table, not the file's: a file with another one is not what it says.
  constexpr float kTolerance = 1e-6F;
  for (std::size_t i = 0; i < book.size(); ++i)
    if (!(std::fabs(values[i] - book[i]) <= kTolerance))
      throw Error("{}: code {} stands for {}: that is not the {} table, where it is {}", where_of(map), i,
                  values[i], is_nf4 ? "nf4" : "fp4", book[i]);
}

// The largest magnitude of each output, of int8 codes.
std::string absmax_name(const WeightSpec& weight) {
  return beside(module_of(weight.name), weight.format == WeightFormat::int8 ? int8::kAbsmax : bnb::kScb);
}

void check_int8(const WeightSpec& weight, const ModelFolder& folder) {
  const Location codes = folder.find(weight.name);
  StoredTensor expected;
  expected.shape = {weight.rows, weight.columns};
  if (codes.tensor->dtype != DType::i8 || codes.tensor->shape != expected.shape)
    throw Error("{}: expected I8 {} (by config.json), found {} {}", where_of(codes), expected.shape_text(),
                info(codes.tensor->dtype).safetensors, codes.tensor->shape_text());
  const Location absmax = need(folder, weight.name, absmax_name(weight));
  expect_floats(absmax, weight.rows);
  const std::vector<float> largest = floats_of(absmax);
  if (std::any_of(largest.begin(), largest.end(), [](float x) { return x < 0; }))
    throw Error("{}: expected magnitudes, 0 or more, found a negative number", where_of(absmax));
  if (weight.format == WeightFormat::int8) return;
  const Location format = folder.find(beside(module_of(weight.name), bnb::kWeightFormat));
  if (format.tensor == nullptr) return;  // files of before it existed are rows too
  std::uint8_t value = 0;
  if (format.tensor->dtype == DType::u8 && format.tensor->elements() == 1)
    format.file->read_bytes(*format.tensor, 0, std::as_writable_bytes(std::span(&value, 1)));
  else
    value = 255;
  if (value != 0)
    throw Error("{}: expected one U8 of 0 (rows as they are): other layouts are of GPUs of old",
                where_of(format));
}

std::vector<float> nested_scales(const ModelFolder& folder, const WeightSpec& weight) {
  const Location at = folder.find(beside(weight.name, bnb::kAbsmax));
  NestedScales nested;
  nested.codes.resize(static_cast<std::size_t>(at.tensor->elements()));
  at.file->read_bytes(*at.tensor, 0, std::as_writable_bytes(std::span(nested.codes)));
  nested.absmax = floats_of(folder.find(beside(weight.name, bnb::kNestedAbsmax)));
  nested.offset = read_state(folder, weight.name).nested->offset;
  const Location map_at = folder.find(beside(weight.name, bnb::kNestedQuantMap));
  const std::vector<float> values = floats_of(map_at);
  std::array<float, 256> map;
  std::copy(values.begin(), values.end(), map.begin());
  std::vector<float> scales(nested.codes.size());
  unnest_scales(nested, scales.data(), map);
  if (!std::all_of(scales.begin(), scales.end(), [](float x) { return std::isfinite(x); }))
    throw Error("{}: the scales that it gives are not finite", where_of(at));
  return scales;
}

// The precision of a checkpoint of our own.
Precision int8_precision(const int8::Config& config, const ModelFolder& folder, const ModelSpec& spec) {
  Precision precision = precision_from_name(config.precision);
  if (precision.inputs == InputScale::calibrated) {
    constexpr Calibrator kCalibrators[] = {Calibrator::minmax, Calibrator::percentile, Calibrator::entropy};
    if (std::none_of(std::begin(kCalibrators), std::end(kCalibrators),
                     [&](Calibrator each) { return name_of(each) == config.calibrator; }))
      throw Error("{}: quantization_config: calibrator: expected minmax, percentile or entropy, found '{}'",
                  folder.config().where(), config.calibrator);
    set_calibrator(precision, config.calibrator);
  }
  if (config.smoothing >= 0) set_smoothing(precision, config.smoothing);
  precision.name += " (as stored)";
  precision.is_stored = true;
  const Plan plan = plan_forward(spec, Precision{});
  const std::vector<std::string> modules = modules_of(plan);
  for (const std::string& module : modules) {
    const Location at = folder.find(module + ".weight");
    const bool is_in = at.tensor != nullptr &&
                       (at.tensor->dtype == DType::i8 || folder.find(beside(module, int8::kAbsmax)).tensor);
    if (!is_in) precision.kept.push_back(module);
  }
  if (precision.kept.size() == modules.size())
    throw Error("{}: quantization_config is there, but no weight of the blocks is stored quantized",
                folder.config().where());
  return precision;
}

// The tensor's one number.
float float_of(const Location& at) {
  expect_floats(at, 1);
  return floats_of(at).front();
}

UniformCode input_code(const ModelFolder& folder, const std::string& weight) {
  const Location scale_at = need(folder, weight, beside(module_of(weight), int8::kInputScale));
  const Location zero_at = need(folder, weight, beside(module_of(weight), int8::kInputZeroPoint));
  UniformCode code{.scale = float_of(scale_at)};
  // A smaller one has no inverse.
  if (!(code.scale > 1e-38F))
    throw Error("{}: expected a scale above 0, found {}", where_of(scale_at), code.scale);
  if (zero_at.tensor->dtype != DType::u8 || zero_at.tensor->elements() != 1)
    throw Error("{}: expected one U8, found {} {}", where_of(zero_at),
                info(zero_at.tensor->dtype).safetensors, zero_at.tensor->shape_text());
  std::uint8_t zero_point = 0;
  zero_at.file->read_bytes(*zero_at.tensor, 0, std::as_writable_bytes(std::span(&zero_point, 1)));
  code.zero_point = zero_point;
  return code;
}

double clipped_share(const ModelFolder& folder, const std::string& weight) {
  const Location at = need(folder, weight, beside(module_of(weight), int8::kInputClippedShare));
  const float share = float_of(at);
  if (!(share >= 0 && share <= 1))
    throw Error("{}: expected a share from 0 to 1, found {}", where_of(at), share);
  return static_cast<double>(share);
}

std::vector<float> input_smoothing(const ModelFolder& folder, const WeightSpec& weight) {
  const Location at = need(folder, weight.name, beside(module_of(weight.name), int8::kInputSmoothing));
  expect_floats(at, weight.columns);
  std::vector<float> factors = floats_of(at);
  if (!std::all_of(factors.begin(), factors.end(), [](float x) { return x > 1e-38F; }))
    throw Error("{}: expected factors above 0", where_of(at));
  return factors;
}

}  // namespace

Calibration stored_calibration(const Plan& plan, const Precision& precision, const ModelFolder& folder) {
  Calibration found;
  for (const WeightSpec& whole : plan.weights) {
    if (!whole.is_stored_quantized) continue;
    const std::vector<TensorPart> parts = tensors_of(whole);
    for (const TensorPart& part : parts) {
      InputCalibration input;
      if (precision.inputs == InputScale::calibrated) {
        input.code = input_code(folder, part.spec.name);
        input.clipped_share = clipped_share(folder, part.spec.name);
      }
      if (precision.smoothing >= 0) input.smoothing = input_smoothing(folder, part.spec);
      // Modules that share their activations share what was calibrated of them.
      found[part.spec.name] = input;
      const InputCalibration& first = found[parts.front().spec.name];
      if (first.code.scale != input.code.scale || first.code.zero_point != input.code.zero_point ||
          first.smoothing != input.smoothing)
        throw Error("{}: expected the input scale and factors of '{}', whose activations it shares",
                    where_of(folder.find(part.spec.name)), parts.front().spec.name);
    }
  }
  return found;
}

std::string stored_calibration_sha256(const ModelFolder& folder) {
  const std::optional<int8::Config> config = int8::config_from(folder.config());
  return config ? config->calibration_sha256 : std::string();
}

std::optional<Precision> stored_precision(const ModelFolder& folder, const ModelSpec& spec) {
  if (const auto own = int8::config_from(folder.config())) return int8_precision(*own, folder, spec);
  const std::optional<bnb::Config> config = bnb::config_from(folder.config());
  if (!config) return std::nullopt;
  const Plan plan = plan_forward(spec, Precision{});
  std::vector<std::string> kept;
  std::optional<WeightFormat> format;
  std::string first;  // the weight that decided
  const auto look_at = [&](const std::string& weight) {
    const std::optional<WeightFormat> found = format_of(folder, weight);
    if (!found) return false;
    if (format && *found != *format)
      throw Error("{}: it is stored as {}, '{}' as {}: expected one format", where_of(folder.find(weight)),
                  precision_of(*found).name, first, precision_of(*format).name);
    if (!format) first = weight;
    format = found;
    return true;
  };
  for (const std::string& module : modules_of(plan))
    if (!look_at(module + ".weight")) kept.push_back(module);
  const bool is_head_stored = !spec.is_head_tied && look_at(spec.names.head);
  if (!format || kept.size() == modules_of(plan).size())
    throw Error("{}: quantization_config is there, but no weight of the blocks is stored quantized",
                folder.config().where());
  Precision precision = precision_of(*format);
  precision.name += " (as stored)";
  precision.is_stored = true;
  precision.kept = std::move(kept);
  precision.outlier_threshold = static_cast<float>(config->threshold);
  precision.is_head_stored = is_head_stored;
  if (is_head_stored) precision.head = *format;
  return precision;
}

bool is_companion(std::string_view suffix) {
  constexpr std::string_view kSuffixes[] = {bnb::kAbsmax,
                                            bnb::kQuantMap,
                                            bnb::kNestedAbsmax,
                                            bnb::kNestedQuantMap,
                                            bnb::kScb,
                                            bnb::kWeightFormat,
                                            int8::kAbsmax,
                                            int8::kInputScale,
                                            int8::kInputZeroPoint,
                                            int8::kInputClippedShare,
                                            int8::kInputSmoothing};
  return std::find(std::begin(kSuffixes), std::end(kSuffixes), suffix) != std::end(kSuffixes) ||
         suffix.starts_with(bnb::kQuantState);
}

void check_stored(const WeightSpec& weight, const ModelFolder& folder) {
  if (is_int8(weight.format))
    check_int8(weight, folder);
  else
    check_four_bit(weight, folder);
}

void read_stored_codes(const ModelFolder& folder, const WeightSpec& weight, std::int64_t first_row,
                       std::int64_t row_count, std::uint8_t* out) {
  const Location at = folder.find(weight.name);
  const auto first = static_cast<std::uint64_t>(first_row * weight.columns);
  const auto count = static_cast<std::size_t>(row_count * weight.columns);
  if (is_int8(weight.format)) {
    at.file->read_bytes(*at.tensor, first, std::as_writable_bytes(std::span(out, count)));
    constexpr std::uint8_t kBeyond = 0x80;  // -128: quantizing gives -127 to 127
    if (std::find(out, out + count, kBeyond) != out + count)
      throw Error("{}: the code -128 is beyond the table: expected -127 to 127", where_of(at));
    return;
  }
  const std::size_t bytes = (count + 1) / 2;
  const auto packed = std::make_unique_for_overwrite<std::uint8_t[]>(bytes);
  at.file->read_bytes(*at.tensor, first / 2, std::as_writable_bytes(std::span(packed.get(), bytes)));
  for (std::size_t i = 0; i < count; ++i)
    out[i] = static_cast<std::uint8_t>(i % 2 == 0 ? packed[i / 2] >> 4 : packed[i / 2] & 15);
}

std::vector<float> read_stored_scales(const ModelFolder& folder, const WeightSpec& weight) {
  if (is_int8(weight.format)) return floats_of(folder.find(absmax_name(weight)));
  if (is_nested(folder, weight.name)) return nested_scales(folder, weight);
  return floats_of(folder.find(beside(weight.name, bnb::kAbsmax)));
}

}  // namespace assay
