#include "assay/quant/precision.h"

#include <algorithm>
#include <array>
#include <cctype>

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
      {"float32", 32}, {"bfloat16", 16}, {"2 x bfloat16", 32}, {"3 x bfloat16", 48}};
  return kInfos[static_cast<std::size_t>(format)];
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
    if (wanted == preset.name || wanted == preset.aliases[0] ||
        (!preset.aliases[1].empty() && wanted == preset.aliases[1])) {
      Precision precision;
      precision.name = preset.name;
      if (preset.name == "bfloat16") {
        precision.weights = precision.head = precision.remainder = WeightFormat::bfloat16;
        precision.bytes_per_parameter = 2;
        precision.kv_cache = KvFormat::bfloat16;
      }
      if (preset.name == "float16") precision.bytes_per_parameter = 2;
      return precision;
    }
    all.emplace_back(preset.name);
  }
  throw UsageError("unknown precision '{}': expected one of {}; the nearest is {}", wanted,
                   fmt::join(all, ", "), nearest_name(wanted, all));
}

std::string_view name_of(KvFormat format) {
  return format == KvFormat::bfloat16 ? "bfloat16" : "float32";
}

void set_kv_cache(Precision& precision, std::string_view name) {
  const std::string wanted = lower(name).substr(0, 64);
  if (wanted == "float32")
    precision.kv_cache = KvFormat::float32;
  else if (wanted == "bfloat16")
    precision.kv_cache = KvFormat::bfloat16;
  else
    throw UsageError("--kv-cache: expected float32 or bfloat16, found '{}'", wanted);
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
