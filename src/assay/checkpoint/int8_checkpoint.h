// How Assay writes a checkpoint of int8-dynamic or int8-static: names of the tensors beside a weight, and the
// quantization_config of config.json. No library has a format for them; Transformers does not load such a
// folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "assay/base/json_view.h"

namespace assay::int8_checkpoint {

inline constexpr std::string_view kMethod = "assay";  // quant_method

// For the module P, whose "P.weight" holds int8 codes, I8 [outputs, inputs], -127 to 127.
inline constexpr std::string_view kAbsmax =
    ".weight_absmax";  // F32 [outputs]: a code stands for absmax / 127
// Of int8-static: an input's dequantized value is scale * (code - zero point), codes 0 to 255.
inline constexpr std::string_view kInputScale = ".input_scale";           // F32 []
inline constexpr std::string_view kInputZeroPoint = ".input_zero_point";  // U8 []
// F32 []: the share of the calibration's inputs that lie beyond the codes.
inline constexpr std::string_view kInputClippedShare = ".input_clipped_share";
// The factors of SmoothQuant, F32 [inputs]: inputs are divided by it before they are quantized, and the
// weights were multiplied by it. Norms are stored as they were.
inline constexpr std::string_view kInputSmoothing = ".input_smoothing";

// quantization_config. Norms and biases are float32, everything else that is not quantized as `dtype` says.
struct Config {
  std::string precision;           // "int8-dynamic" or "int8-static"
  std::string calibrator = {};     // for int8-static: "minmax", "percentile" or "entropy"
  double smoothing = -1;           // "smooth_quant", SmoothQuant's alpha; negative: none, null
  std::string calibration_sha256;  // the hash of the text; empty where none was read, null
};
// That of a whole config.json; none where its quantization_config is missing or another method's. Throws
// Error for a precision that is none of the two, another calibrator, keys that are missing or of another
// type, an alpha beyond 0 to 1.
std::optional<Config> config_from(const JsonView& config);
Json to_json(const Config& config);

}  // namespace assay::int8_checkpoint
