#include "assay/checkpoint/int8_checkpoint.h"

#include <algorithm>
#include <iterator>

#include "assay/base/error.h"
#include "assay/base/json.h"

namespace assay::int8_checkpoint {

std::optional<Config> config_from(const JsonView& config) {
  if (!config.has("quantization_config")) return std::nullopt;
  const JsonView view = config.object("quantization_config");
  if (!view.has("quant_method") || view.text("quant_method") != kMethod) return std::nullopt;
  Config found{.precision = view.text("precision"),
               .calibration_sha256 = view.text_or("calibration_sha256", "")};
  if (found.precision != "int8-dynamic" && found.precision != "int8-static")
    throw Error("{}: precision: expected int8-dynamic or int8-static, found '{}'", view.where(),
                found.precision);
  if (found.precision == "int8-static") {
    found.calibrator = view.text("calibrator");
    constexpr std::string_view kCalibrators[] = {"minmax", "percentile", "entropy"};
    if (std::find(std::begin(kCalibrators), std::end(kCalibrators), found.calibrator) ==
        std::end(kCalibrators))
      throw Error("{}: calibrator: expected minmax, percentile or entropy, found '{}'", view.where(),
                  found.calibrator);
  }
  if (view.has("smooth_quant")) {
    found.smoothing = view.number("smooth_quant");
    if (!(found.smoothing >= 0 && found.smoothing <= 1))
      throw Error("{}: smooth_quant: expected null or a number from 0 to 1, found {}", view.where(),
                  found.smoothing);
  }
  return found;
}

Json to_json(const Config& config) {
  const auto text = [](const std::string& value) { return value.empty() ? Json() : Json(value); };
  return {{"quant_method", kMethod},
          {"precision", config.precision},
          {"calibrator", text(config.calibrator)},
          {"smooth_quant", config.smoothing < 0 ? Json() : Json(config.smoothing)},
          {"calibration_sha256", text(config.calibration_sha256)}};
}

}  // namespace assay::int8_checkpoint
