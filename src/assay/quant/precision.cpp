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

// Levenshtein's distance, one row at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

const WeightFormatInfo& info(WeightFormat format) {
  static constexpr WeightFormatInfo kInfos[] = {{"float32", 32}, {"bfloat16", 16}};
  return kInfos[static_cast<std::size_t>(format)];
}

std::vector<std::string> precision_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

Precision precision_from_name(std::string_view text) {
  const std::string wanted = lower(text).substr(0, 64);
  std::string_view nearest;
  std::size_t best = ~std::size_t{0};
  for (const Preset& preset : kPresets) {
    if (wanted == preset.name || wanted == preset.aliases[0] ||
        (!preset.aliases[1].empty() && wanted == preset.aliases[1])) {
      Precision precision;
      precision.name = preset.name;
      if (preset.name == "bfloat16") {
        precision.weights = precision.head = precision.remainder = WeightFormat::bfloat16;
        precision.bytes_per_parameter = 2;
      }
      if (preset.name == "float16") precision.bytes_per_parameter = 2;
      return precision;
    }
    for (const std::string_view name : {preset.name, preset.aliases[0], preset.aliases[1]}) {
      const std::size_t distance = name.empty() ? ~std::size_t{0} : edit_distance(wanted, name);
      if (distance < best) {
        best = distance;
        nearest = preset.name;
      }
    }
  }
  std::string list;
  for (const Preset& preset : kPresets) list += fmt::format("{}{}", list.empty() ? "" : ", ", preset.name);
  throw UsageError("unknown precision '{}': expected one of {}; the nearest is {}", wanted, list, nearest);
}

}  // namespace assay
