// What a model's numbers are stored and computed in: one struct, of which the names users type are presets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "assay/base/units.h"

namespace assay {

// How the elements of a weight matrix are stored in memory.
enum class WeightFormat { float32, bfloat16 };

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
  std::string compute = "float32";                 // the arithmetic of products and activations
  std::string kv_cache = "float32";
  std::int64_t bytes_per_parameter = 4;  // as Transformers counts a footprint
};

// The preset of a canonical name or alias, any case; throws UsageError with the list and the nearest name.
Precision precision_from_name(std::string_view text);
std::vector<std::string> precision_names();

}  // namespace assay
