// What a model's numbers are stored and computed in: one struct, of which the names users type are presets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "assay/base/units.h"

namespace assay {

// How the elements of a weight matrix are stored in memory. The last two hold a float32 as a sum of two or
// three bfloat16 parts, for float32 products on bfloat16 hardware (Henry, Tang and Heinecke 2019).
enum class WeightFormat { float32, bfloat16, bfloat16_x2, bfloat16_x3 };

// Parts per element of the bfloat16 formats; 1 for float32.
constexpr int planes_of(WeightFormat format) {
  return format == WeightFormat::bfloat16_x3 ? 3 : format == WeightFormat::bfloat16_x2 ? 2 : 1;
}

// How keys and values are kept.
enum class KvFormat { float32, bfloat16 };
std::string_view name_of(KvFormat format);
constexpr int bytes_of(KvFormat format) {
  return format == KvFormat::bfloat16 ? 2 : 4;
}

struct WeightFormatInfo {
  std::string_view name;
  double bits_per_weight;  // scales included
};
const WeightFormatInfo& info(WeightFormat format);

struct Precision {
  std::string name;                                // the preset's canonical name
  WeightFormat weights = WeightFormat::float32;    // matrices of the blocks
  WeightFormat head = WeightFormat::float32;       // output head; the embedding too where they are tied
  WeightFormat remainder = WeightFormat::float32;  // embeddings and positions; norms and biases stay float32
  KvFormat kv_cache = KvFormat::float32;
  std::int64_t bytes_per_parameter = 4;  // as Transformers counts a footprint
};

// The preset of a canonical name or alias, any case; throws UsageError with the list and the nearest name.
Precision precision_from_name(std::string_view text);
std::vector<std::string> precision_names();

// Changes of a preset, by their flags: --kv-cache and --float32-matmul. They throw UsageError for a name that
// is none, or that does not go with the precision.
void set_kv_cache(Precision& precision, std::string_view name);
void set_float32_matmul(Precision& precision, std::string_view name);

}  // namespace assay
