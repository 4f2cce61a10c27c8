// Checkpoints that are quantized already, by bitsandbytes or as int8 of our own: what they hold, their codes
// and their scales.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/checkpoint/model_folder.h"
#include "assay/model/spec.h"
#include "assay/plan/plan.h"
#include "assay/quant/calibration.h"
#include "assay/quant/precision.h"

namespace assay {

// The precision that the folder's weights are stored in, "nf4-dq (as stored)"; none where config.json has no
// quantization_config. The tensors decide which modules are; of int8 its configuration names the precision.
// Throws Error for another method than bitsandbytes and assay, for modules of different formats, and where
// nothing is stored quantized.
std::optional<Precision> stored_precision(const ModelFolder& folder, const ModelSpec& spec);

// What an int8 checkpoint keeps of its calibration, by the plan's weights that are stored quantized: codes of
// inputs where the precision has them calibrated, the factors of SmoothQuant where it smooths; no ranges.
// Throws Error naming file and tensor where one is missing, of another type or size, not finite, or a scale
// or factor that is not positive.
Calibration stored_calibration(const Plan& plan, const Precision& precision, const ModelFolder& folder);
// Of the text it was calibrated on; empty where there was none.
std::string stored_calibration_sha256(const ModelFolder& folder);

// Whether a tensor whose name continues that of a quantized weight, or of its module, with this belongs to
// it:
// ".absmax", ".SCB".
bool is_companion(std::string_view suffix);

// Of a weight that is_stored_quantized: throws Error naming file and tensor where one of its tensors is
// missing, of another size or type, or says something that does not go with the weight.
void check_stored(const WeightSpec& weight, const ModelFolder& folder);

// As WeightSource gives them, of a weight that check_stored() let pass. Scales of scales are undone as
// bitsandbytes does. Throw Error for a code beyond the table and for scales that are not finite.
void read_stored_codes(const ModelFolder& folder, const WeightSpec& weight, std::int64_t first_row,
                       std::int64_t row_count, std::uint8_t* out);
std::vector<float> read_stored_scales(const ModelFolder& folder, const WeightSpec& weight);

}  // namespace assay
