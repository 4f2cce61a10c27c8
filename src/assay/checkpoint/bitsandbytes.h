// How Transformers and bitsandbytes write a quantized checkpoint: names of the tensors beside a weight, their
// packed state, and the quantization_config of config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/json_view.h"

namespace assay::bitsandbytes {

// Beside "P.weight", which holds 4-bit codes, two in a byte, the first in the high half: U8 [ceil(n / 2), 1].
inline constexpr std::string_view kAbsmax = ".absmax";               // F32 [ceil(n / 64)], or codes of it, U8
inline constexpr std::string_view kQuantMap = ".quant_map";          // F32 [16], the values of the codes
inline constexpr std::string_view kNestedAbsmax = ".nested_absmax";  // F32 [ceil(blocks / 256)]
inline constexpr std::string_view kNestedQuantMap = ".nested_quant_map";        // F32 [256]
inline constexpr std::string_view kQuantState = ".quant_state.bitsandbytes__";  // and nf4 or fp4: U8, JSON
// Beside "P.weight" of int8 codes [outputs, inputs], for the module P.
inline constexpr std::string_view kScb = ".SCB";                     // F32 [outputs], largest magnitudes
inline constexpr std::string_view kWeightFormat = ".weight_format";  // U8 [], 0: rows as they are

// What .quant_state says, as JSON.
struct QuantState {
  std::string type;  // "nf4" or "fp4"
  std::int64_t block = 64;
  std::string dtype = "float32";    // the type of the weight before
  std::vector<std::int64_t> shape;  // [outputs, inputs]
  struct Nested {
    std::int64_t block = 256;
    float offset = 0;
  };
  std::optional<Nested> nested;

  // The text that bitsandbytes writes, to the byte.
  std::string text() const;
};
// Throws Error (`where` names file and tensor) for what is not JSON, keys that are missing or of another
// type, another dtype of the nested scales than float32.
QuantState quant_state_from_text(std::string_view text, const std::string& where);

// quantization_config, as far as reading needs it.
struct Config {
  bool is_eight_bit = false, is_four_bit = false;
  double threshold = 6;
};
// That of a whole config.json; none where it has no quantization_config. Throws Error for another
// quant_method.
std::optional<Config> config_from(const JsonView& config);

// All keys of quantization_config, as Transformers writes them.
struct ConfigToWrite {
  bool is_eight_bit = false;
  std::string quant_type = "fp4";  // Transformers' default, which an 8-bit configuration states too
  bool is_double = false;
  std::string compute_dtype = "float32";
  double threshold = 6;
  std::vector<std::string> skip_modules;  // empty: null, Transformers' own rule
};
Json to_json(const ConfigToWrite& config);

}  // namespace assay::bitsandbytes
