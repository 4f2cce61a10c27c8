#include "assay/quant/precision.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "assay/base/error.h"

namespace assay {

namespace {

struct Preset {
  std::string_view name;
  std::array<std::string_view, 2> aliases;
};

constexpr Preset kPresets[] = {
    {"float32", {"fp32", "f32"}},
    {"float16", {"fp16", "f16"}},
    {"bfloat16", {"bf16", ""}},
    {"int8-dynamic", {"int8", ""}},
    {"int8-static", {"", ""}},
    {"llm-int8", {"llm.int8", ""}},
    {"nf4", {"", ""}},
    {"fp4", {"", ""}},
    {"nf4-dq", {"", ""}},
    {"fp4-dq", {"", ""}},
    {"int4-g128", {"int4", ""}},
};

struct Quantized {
  std::string_view name;
  WeightFormat format;
};
constexpr Quantized kQuantized[] = {
    {"int8-dynamic", WeightFormat::int8}, {"int8-static", WeightFormat::int8},
    {"llm-int8", WeightFormat::llm_int8}, {"nf4", WeightFormat::nf4},
    {"fp4", WeightFormat::fp4},           {"nf4-dq", WeightFormat::nf4_dq},
    {"fp4-dq", WeightFormat::fp4_dq},     {"int4-g128", WeightFormat::int4_g128},
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

const WeightFormatInfo& info(WeightFormat format) {
  static constexpr WeightFormatInfo kInfos[] = {
      {"float32", 32}, {"bfloat16", 16}, {"2 x bfloat16", 32}, {"3 x bfloat16", 48},
      {"int8", 8},     {"int8", 8},      {"nf4", 4.5},         {"fp4", 4.5},
      {"nf4-dq", 4.5}, {"fp4-dq", 4.5},  {"int4-g128", 4.25}};
  return kInfos[static_cast<std::size_t>(format)];
}

std::string_view Precision::why_kept(std::string_view module) const {
  if (std::find(kept.begin(), kept.end(), module) != kept.end()) return "kept by the checkpoint";
  return modules.why_left_out(module);
}

std::vector<std::string> precision_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

Precision precision_from_name(std::string_view text) {
  const std::string wanted = lower(text).substr(0, 64);
  std::vector<std::string> all;
  for (const Preset& preset : kPresets) {
    const auto is_alias = [&](std::string_view alias) { return !alias.empty() && wanted == alias; };
    if (wanted == preset.name || is_alias(preset.aliases[0]) || is_alias(preset.aliases[1])) {
      Precision precision;
      precision.name = preset.name;
      if (preset.name == "bfloat16") {
        precision.weights = precision.head = precision.remainder = WeightFormat::bfloat16;
        precision.bytes_per_parameter = 2;
        precision.kv_cache = KvFormat::bfloat16;
      }
      if (preset.name == "float16") precision.bytes_per_parameter = 2;
      if (preset.name == "int8-static") precision.inputs = InputScale::calibrated;
      for (const Quantized& quantized : kQuantized)
        if (quantized.name == preset.name) precision.weights = quantized.format;
      return precision;
    }
    all.emplace_back(preset.name);
  }
  throw UsageError("unknown precision '{}': expected one of {}; the nearest is {}", wanted,
                   fmt::join(all, ", "), nearest_name(wanted, all));
}

Precision precision_of(WeightFormat quantized) {
  for (const Quantized& each : kQuantized)
    if (each.format == quantized) return precision_from_name(each.name);
  throw Error("{} is no quantized format", info(quantized).name);
}

std::string_view name_of(KvFormat format) {
  return format == KvFormat::int8 ? "int8" : format == KvFormat::bfloat16 ? "bfloat16" : "float32";
}

void set_kv_cache(Precision& precision, std::string_view name) {
  const std::string wanted = lower(name).substr(0, 64);
  if (wanted == "float32")
    precision.kv_cache = KvFormat::float32;
  else if (wanted == "bfloat16")
    precision.kv_cache = KvFormat::bfloat16;
  else if (wanted == "int8")
    precision.kv_cache = KvFormat::int8;
  else
    throw UsageError("--kv-cache: expected float32, bfloat16 or int8, found '{}'", wanted);
}

namespace {

void require_quantized(const Precision& precision, std::string_view flag) {
  if (!precision.is_quantized())
    throw UsageError("{}: it goes with a quantized precision, and {} is none", flag, precision.name);
}

}  // namespace

void set_remainder(Precision& precision, std::string_view name) {
  require_quantized(precision, "--remainder");
  const std::string wanted = lower(name).substr(0, 64);
  if (wanted == "float32" || wanted == "float16") return;  // a CPU runs float16 as float32
  if (wanted != "bfloat16")
    throw UsageError("--remainder: expected float32, bfloat16 or float16, found '{}'", wanted);
  precision.remainder = WeightFormat::bfloat16;
  if (!is_quantized(precision.head)) precision.head = WeightFormat::bfloat16;
  precision.kv_cache = KvFormat::bfloat16;
  precision.bytes_per_parameter = 2;
  precision.name += " (remainder bfloat16)";
}

void set_quantized_head(Precision& precision, std::string_view name) {
  require_quantized(precision, "--quantize-head");
  const std::string wanted = lower(name).substr(0, 64);
  if (wanted == "int8")
    precision.head = WeightFormat::int8;
  else if (wanted == "nf4")
    precision.head = WeightFormat::nf4;
  else if (wanted == "fp4")
    precision.head = WeightFormat::fp4;
  else
    throw UsageError("--quantize-head: expected int8, nf4 or fp4, found '{}'", wanted);
  precision.name += " (head " + wanted + ")";
}

void set_outlier_threshold(Precision& precision, double threshold) {
  if (precision.weights != WeightFormat::llm_int8)
    throw UsageError("--llm-int8-threshold: it goes with llm-int8, not with {}", precision.name);
  if (!(threshold >= 0 && threshold <= 1e6))
    throw UsageError("--llm-int8-threshold: expected 0 (none) or more, found {}", threshold);
  precision.outlier_threshold = static_cast<float>(threshold);
}

void set_screened_head(Precision& precision) {
  if (precision.head != WeightFormat::float32 && precision.head != WeightFormat::bfloat16)
    throw UsageError("--screen-head: it goes with a head in float32 or bfloat16, and that of {} is {}",
                     precision.name, info(precision.head).name);
  precision.screens_head = true;
}

void set_modules(Precision& precision, ModuleSelection modules) {
  require_quantized(precision, modules.include.empty() ? "--exclude" : "--include");
  precision.name += modules.text();
  precision.modules = std::move(modules);
}

bool takes_input_scale(const Precision& precision) {
  return precision.weights == WeightFormat::int8 && precision.inputs != InputScale::calibrated;
}

void set_input_scale(Precision& precision, std::string_view name) {
  if (!takes_input_scale(precision))
    throw UsageError("--input-scale: it goes with int8-dynamic, not with {}", precision.name);
  const std::string wanted = lower(name).substr(0, 64);
  if (wanted != "per-token" && wanted != "per-tensor")
    throw UsageError("--input-scale: expected per-token or per-tensor, found '{}'", wanted);
  if (wanted == "per-token") return;
  precision.inputs = InputScale::per_tensor;
  precision.name += " (input scale per tensor)";
}

void set_calibrator(Precision& precision, std::string_view name) {
  if (precision.inputs != InputScale::calibrated)
    throw UsageError("--calibrator: it goes with int8-static, not with {}", precision.name);
  precision.calibrator = calibrator_from_name(name);
  precision.name += fmt::format(" ({})", name_of(precision.calibrator));
}

void set_smoothing(Precision& precision, double alpha) {
  if (precision.weights != WeightFormat::int8)
    throw UsageError("--smooth-quant: it goes with int8-dynamic and int8-static, not with {}",
                     precision.name);
  if (!(alpha >= 0 && alpha <= 1))
    throw UsageError("--smooth-quant: expected a number from 0 to 1, found {}", alpha);
  precision.smoothing = alpha;
  precision.name += fmt::format(" (SmoothQuant {})", alpha);
}

void set_float32_matmul(Precision& precision, std::string_view name) {
  const std::string wanted = lower(name).substr(0, 64);
  if (wanted != "float32" && wanted != "bf16x3" && wanted != "bf16x6")
    throw UsageError("--float32-matmul: expected float32, bf16x3 or bf16x6, found '{}'", wanted);
  if (wanted == "float32") return;
  if (precision.weights != WeightFormat::float32)
    throw UsageError("--float32-matmul {}: it changes how float32 weights are multiplied, and {} has none",
                     wanted, precision.name);
  precision.weights = precision.head =
      wanted == "bf16x3" ? WeightFormat::bfloat16_x2 : WeightFormat::bfloat16_x3;
  precision.name += " (" + wanted + ")";
}

}  // namespace assay
