#include "assay/quant/precision.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "assay/base/error.h"
#include "assay/quant/ggml_quantize.h"

namespace assay {

namespace {

struct PresetEntry {
  std::string_view name;
  std::array<std::string_view, 2> aliases;
  WeightFormat weights;
};

// In the order of the enum.
constexpr PresetEntry kPresets[] = {
    {"float32", {"fp32", "f32"}, formats::kFloat32},
    {"float16", {"fp16", "f16"}, formats::kFloat32},
    {"bfloat16", {"bf16", ""}, formats::kBfloat16},
    {"int8-dynamic", {"int8", ""}, formats::kInt8},
    {"int8-static", {"", ""}, formats::kInt8},
    {"llm-int8", {"llm.int8", ""}, formats::kLlmInt8},
    {"nf4", {"", ""}, formats::kNf4},
    {"fp4", {"", ""}, formats::kFp4},
    {"nf4-dq", {"", ""}, formats::kNf4Dq},
    {"fp4-dq", {"", ""}, formats::kFp4Dq},
    {"int4-g128", {"int4", ""}, formats::kInt4G128},
    {"q8_0", {"", ""}, formats::kQ8_0},
    {"q6_k", {"", ""}, formats::kQ6K},
    {"q5_k", {"", ""}, formats::kQ5K},
    {"q5_0", {"", ""}, formats::kQ5_0},
    {"q4_k", {"", ""}, formats::kQ4K},
    {"q4_0", {"", ""}, formats::kQ4_0},
    {"iq4_nl", {"", ""}, formats::kIq4Nl},
    {"q3_k", {"", ""}, formats::kQ3K},
    {"q2_k", {"", ""}, formats::kQ2K},
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

namespace {

Multiply multiply_of(Float32Matmul how) {
  switch (how) {
    case Float32Matmul::float32:
      return Multiply::float32;
    case Float32Matmul::bf16x3:
      return Multiply::bfloat16_x2;
    case Float32Matmul::bf16x6:
      return Multiply::bfloat16_x3;
    case Float32Matmul::tf32:
      return Multiply::tf32;
  }
  return Multiply::float32;
}

Multiply multiply_of(const WeightFormat& dtype) {
  return dtype == formats::kBfloat16  ? Multiply::bfloat16
         : dtype == formats::kFloat16 ? Multiply::float16
                                      : Multiply::float32;
}

ActivationType int8_activations(InputScale scale) {
  switch (scale) {
    case InputScale::per_token:
      return ActivationType::int8_per_token;
    case InputScale::per_tensor:
      return ActivationType::int8_per_tensor;
    case InputScale::calibrated:
      return ActivationType::int8_calibrated;
  }
  return ActivationType::int8_per_token;
}

}  // namespace

MatmulArithmetic Precision::arithmetic_of(const WeightFormat& format) const {
  if (format == formats::kFloat32) return {multiply_of(float32_matmul), ActivationType::as_multiplied};
  if (!assay::is_quantized(format)) return {multiply_of(format), ActivationType::as_multiplied};
  if (is_int8(format))
    return {Multiply::int8,
            format.rounds_to_float16 ? ActivationType::int8_symmetric : int8_activations(input_scale)};
  return {multiply_of(dtype),
          has_int8_activations ? ActivationType::int8_per_group : ActivationType::as_multiplied};
}

MatmulArithmetic Precision::lm_head_arithmetic() const {
  MatmulArithmetic arithmetic = arithmetic_of(lm_head);
  if (is_int8(lm_head) && !lm_head.rounds_to_float16) arithmetic.activations = ActivationType::int8_per_token;
  return arithmetic;
}

std::vector<WeightFormat> Precision::formats() const {
  std::vector<WeightFormat> all{weights};
  const auto add = [&](const WeightFormat& format) {
    if (std::find(all.begin(), all.end(), format) == all.end()) all.push_back(format);
  };
  if (recipe)
    for (const RecipeRule& rule : recipe->rules) add(rule.format);
  for (const auto& [module, format] : stored_formats) add(format);
  return all;
}

bool Precision::has_any(const std::function<bool(const WeightFormat&)>& is_such) const {
  const std::vector<WeightFormat> all = formats();
  return std::any_of(all.begin(), all.end(), is_such);
}

bool Precision::has_any(const WeightFormat& format) const {
  return has_any([&](const WeightFormat& each) { return each == format; });
}

bool Precision::is_quantized() const {
  return has_any([](const WeightFormat& each) { return assay::is_quantized(each); });
}

std::optional<std::string_view> Precision::why_not_quantized(std::string_view module) const {
  if (std::find(skipped_modules.begin(), skipped_modules.end(), module) != skipped_modules.end())
    return "kept by the checkpoint";
  if (const auto why = modules.why_left_out(module)) return why;
  if (recipe && is_quantized() && !assay::is_quantized(recipe->format_of(module)))
    return "kept by the recipe";
  return std::nullopt;
}

WeightFormat Precision::format_of(std::string_view module) const {
  if (const auto stored = stored_formats.find(module); stored != stored_formats.end()) return stored->second;
  const WeightFormat own = recipe ? recipe->format_of(module) : weights;
  return assay::is_quantized(own) && why_not_quantized(module) ? dtype : own;
}

WeightFormat Precision::format_of(std::string_view module, std::int64_t inputs) const {
  const WeightFormat own = format_of(module);
  if (!has_fallbacks || is_stored || inputs % block_inputs(own) == 0) return own;
  const ggml::BlockType* type = ggml::written_type(own);
  return type == nullptr ? own : ggml::fitting_type(*type, inputs).format.value_or(dtype);
}

std::vector<std::string> precision_names() {
  std::vector<std::string> names;
  for (const PresetEntry& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

std::string_view name_of(Preset preset) {
  return kPresets[static_cast<std::size_t>(preset)].name;
}

Preset preset_from_name(std::string_view text) {
  const std::string wanted = lower(text).substr(0, 64);
  for (std::size_t i = 0; i < std::size(kPresets); ++i) {
    const PresetEntry& preset = kPresets[i];
    const auto is_alias = [&](std::string_view alias) { return !alias.empty() && wanted == alias; };
    if (wanted == preset.name || is_alias(preset.aliases[0]) || is_alias(preset.aliases[1]))
      return static_cast<Preset>(i);
  }
  const std::vector<std::string> all = precision_names();
  throw FieldError("precision", "expected one of {}, found '{}'; the nearest is {}", fmt::join(all, ", "),
                   wanted, nearest_name(wanted, all));
}

Recipe recipe_of(Preset preset) {
  const PresetEntry& entry = kPresets[static_cast<std::size_t>(preset)];
  Recipe recipe{.name = std::string(entry.name), .default_format = entry.weights};
  if (preset == Preset::bfloat16) recipe.lm_head = entry.weights;
  return recipe;
}

namespace {

// Without the rules.
Precision precision_without_rules(const Recipe& recipe) {
  Precision precision;
  precision.name = recipe.name;
  precision.weights = recipe.default_format;
  precision.lm_head = recipe.lm_head.value_or(precision.dtype);
  return precision;
}

}  // namespace

Precision precision_of(const Recipe& recipe) {
  Precision precision = precision_without_rules(recipe);
  precision.name = recipe.label();
  precision.recipe = recipe;
  return precision;
}

Precision precision_of(Preset preset) {
  Precision precision = precision_without_rules(recipe_of(preset));
  if (preset == Preset::bfloat16) {
    precision.dtype = formats::kBfloat16;
    precision.kv_cache = KvFormat::bfloat16;
  }
  if (preset == Preset::bfloat16 || preset == Preset::float16) precision.bytes_per_parameter = 2;
  if (preset == Preset::int8_static) precision.input_scale = InputScale::calibrated;
  precision.has_fallbacks = block_inputs(precision.weights) > 1;
  return precision;
}

Precision precision_from_name(std::string_view text) {
  return precision_of(preset_from_name(text));
}

Precision precision_of(const WeightFormat& quantized) {
  for (std::size_t i = 0; i < std::size(kPresets); ++i)
    if (kPresets[i].weights == quantized && is_quantized(quantized))
      return precision_of(static_cast<Preset>(i));
  if (!is_quantized(quantized)) throw Error("{} is no quantized format", name_of(quantized));
  Precision precision;
  precision.name = name_of(quantized);
  precision.weights = quantized;
  return precision;
}

std::string_view name_of(KvFormat format) {
  switch (format) {
    case KvFormat::float32:
      return "float32";
    case KvFormat::bfloat16:
      return "bfloat16";
    case KvFormat::int8:
      return "int8";
    case KvFormat::float16:
      return "float16";
  }
  return "";
}

namespace {

void require(bool applies, std::string_view field, std::string_view precisions, const Precision& precision) {
  if (!applies) throw FieldError(field, "it applies to {}, not to {}", precisions, precision.name);
}

constexpr std::string_view kQuantized = "a quantized precision";

// The recipe says what its format is, whatever everything else is kept in.
bool has_own_lm_head(const Precision& precision) {
  return precision.recipe && precision.recipe->lm_head;
}

}  // namespace

bool takes_recipe(const Precision& precision) {
  return precision.recipe.has_value();
}

bool takes_dtype(const Precision& precision) {
  return precision.is_quantized();
}

bool takes_outlier_threshold(const Precision& precision) {
  return precision.has_any(formats::kLlmInt8);
}

bool takes_input_scale(const Precision& precision) {
  return precision.has_any(formats::kInt8) && precision.input_scale != InputScale::calibrated;
}

bool takes_activations(const Precision& precision) {
  return precision.has_any(takes_int8_activations);
}

bool takes_calibrator(const Precision& precision) {
  return precision.input_scale == InputScale::calibrated;
}

bool takes_smoothing(const Precision& precision) {
  return precision.has_any(formats::kInt8);
}

bool takes_float32_matmul(const Precision& precision) {
  return precision.has_any(formats::kFloat32);
}

bool takes_cuda_gemm(const Precision& precision) {
  return precision.has_any([](const WeightFormat& each) { return !is_int8(each); });
}

bool takes_lm_head_search(const Precision& precision) {
  return precision.lm_head == formats::kBfloat16 ||
         (precision.lm_head == formats::kFloat32 && precision.float32_matmul == Float32Matmul::float32);
}

void set_dtype(Precision& precision, DType dtype) {
  require(takes_dtype(precision), "dtype", kQuantized, precision);
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16)
    throw FieldError("dtype", "expected float32, bfloat16 or float16, found {}", name_of(dtype));
  if (dtype != DType::bf16) return;
  precision.dtype = formats::kBfloat16;
  if (!is_quantized(precision.lm_head) && !has_own_lm_head(precision)) precision.lm_head = formats::kBfloat16;
  precision.kv_cache = KvFormat::bfloat16;
  precision.bytes_per_parameter = 2;
}

void set_quantized_lm_head(Precision& precision, WeightFormat format) {
  require(precision.is_quantized(), "quantize_head", kQuantized, precision);
  const std::vector<WeightFormat> all = lm_head_formats();
  if (std::find(all.begin(), all.end(), format) == all.end())
    throw FieldError("quantize_head", "expected one of {}, found {}", names_of(all), recipe_name_of(format));
  precision.lm_head = format;
}

std::vector<WeightFormat> lm_head_formats() {
  return {formats::kInt8, formats::kNf4,   formats::kFp4,  formats::kQ8_0, formats::kQ6K,
          formats::kQ5K,  formats::kQ5_1,  formats::kQ5_0, formats::kQ4K,  formats::kQ4_1,
          formats::kQ4_0, formats::kIq4Nl, formats::kQ3K,  formats::kQ2K};
}

void set_outlier_threshold(Precision& precision, double threshold) {
  require(takes_outlier_threshold(precision), "llm_int8_threshold", "llm-int8", precision);
  if (!(threshold >= 0 && threshold <= 1e6))
    throw FieldError("llm_int8_threshold", "expected 0 (none) or more, found {}", threshold);
  precision.outlier_threshold = static_cast<float>(threshold);
}

void set_modules(Precision& precision, ModuleSelection modules) {
  require(precision.is_quantized(), modules.include.empty() ? "exclude" : "include", kQuantized, precision);
  precision.modules = std::move(modules);
}

void set_allows_non_finite(Precision& precision) {
  require(precision.is_quantized(), "allow_non_finite", kQuantized, precision);
  precision.allows_non_finite = true;
}

void set_input_scale(Precision& precision, InputScale scale) {
  require(takes_input_scale(precision), "input_scale", "int8-dynamic", precision);
  if (scale == InputScale::calibrated)
    throw FieldError("input_scale", "expected per-token or per-tensor, found a calibrated one");
  precision.input_scale = scale;
}

void set_int8_activations(Precision& precision) {
  require(takes_activations(precision), "activations", "4-bit weights and GGUF's block types", precision);
  precision.has_int8_activations = true;
}

void set_calibrator(Precision& precision, Calibrator calibrator) {
  require(takes_calibrator(precision), "calibrator", "int8-static", precision);
  precision.calibrator = calibrator;
}

void set_smoothing(Precision& precision, double alpha) {
  require(takes_smoothing(precision), "smooth_quant", "int8-dynamic and int8-static", precision);
  if (!(alpha >= 0 && alpha <= 1))
    throw FieldError("smooth_quant", "expected a number from 0 to 1, found {}", alpha);
  precision.smooth_quant = alpha;
}

void set_float32_matmul(Precision& precision, Float32Matmul how) {
  if (how == Float32Matmul::float32) return;
  require(takes_float32_matmul(precision), "float32_matmul", "float32", precision);
  precision.float32_matmul = how;
}

void set_lm_head_search(Precision& precision) {
  if (!takes_lm_head_search(precision))
    throw FieldError("lm_head_search",
                     "it applies to an LM head in float32 or bfloat16, and that of {} is {}", precision.name,
                     is_quantized(precision.lm_head)
                         ? name_of(precision.lm_head)
                         : std::string(name_of(precision.lm_head_arithmetic().multiply)));
  precision.has_candidate_search = true;
}

void require_cuda_gemm(const Precision& precision) {
  if (!takes_cuda_gemm(precision))
    throw FieldError("cuda_gemm", "it applies to weights that are not int8, and those of {} are",
                     precision.name);
}

void use_float16(Precision& precision) {
  if (!precision.is_quantized() && !precision.recipe) precision.weights = formats::kFloat16;
  if (!is_quantized(precision.lm_head) && !has_own_lm_head(precision)) precision.lm_head = formats::kFloat16;
  precision.dtype = formats::kFloat16;
  if (precision.kv_cache == KvFormat::float32) precision.kv_cache = KvFormat::float16;
  precision.bytes_per_parameter = 2;
}

}  // namespace assay
