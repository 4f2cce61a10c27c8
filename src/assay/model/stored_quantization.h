// Checkpoints that are quantized already: the precision that they hold a model in, and its calibration.
#pragma once

#include <optional>
#include <string>

#include "assay/checkpoint/source.h"
#include "assay/model/spec.h"
#include "assay/plan/plan.h"
#include "assay/quant/calibration.h"
#include "assay/quant/precision.h"

namespace assay {

// The precision that the source's weights are stored in, "nf4-dq (as stored)"; none where it has no weight
// that is stored quantized. The tensors decide which modules are, each in a format of its own ("nf4 +
// llm-int8 (as stored)"); of our int8 its configuration names the precision. Throws Error for a method that
// is not supported, and where a source says that it is quantized and nothing is.
std::optional<Precision> stored_precision(const ModelSource& source, const ModelSpec& spec);

// Whether it has weights that are stored quantized and can be read as numbers, from which another precision
// can be made: GGUF's blocks.
bool can_be_dequantized(const ModelSource& source);

// What an int8 checkpoint keeps of its calibration, by the plan's weights that are stored quantized: codes of
// inputs where the precision has them calibrated, the factors of SmoothQuant where it smooths; no ranges.
// Throws Error naming file and tensor where one is missing, of another type or size, not finite, or a scale
// or factor that is not positive.
Calibration stored_calibration(const Plan& plan, const ModelSource& source);
// The hash of the text it was calibrated on; empty where there was none.
std::string stored_calibration_sha256(const ModelSource& source);

// A weight that is_stored_quantized, as the checkpoint's readers take it.
StoredCodes quantized_tensor(const WeightSpec& weight);

}  // namespace assay
