// The forward pass, written once: it writes the plan that every backend runs.
#pragma once

#include "assay/backend/plan.h"
#include "assay/model/spec.h"
#include "assay/quant/calibration.h"
#include "assay/quant/precision.h"

namespace assay {

// With what a calibration found for quantized products, by their weights' names: static codes of their
// inputs, and the factors of SmoothQuant, which go into weights and into the norm before a product, or where
// there is none into its inputs.
Plan plan_forward(const ModelSpec& spec, const Precision& precision, const Calibration& calibration = {});

}  // namespace assay
