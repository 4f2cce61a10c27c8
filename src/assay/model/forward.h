// The forward pass, written once: it writes the plan that every backend runs.
#pragma once

#include <string>
#include <vector>

#include "assay/model/spec.h"
#include "assay/plan/plan.h"
#include "assay/quant/calibration.h"
#include "assay/quant/precision.h"

namespace assay {

// Throws UsageError where a pattern of the precision's modules matches none. With what a calibration found
// for quantized products, by the names of their tensors (those of one matrix multiplication have the same):
// static codes of their inputs, and the factors of SmoothQuant, which go into weights and into the norm
// before a product, or where there is none into its inputs.
Plan plan_forward(const ModelSpec& spec, const Precision& precision, const Calibration& calibration = {});

// Names of the modules in the blocks whose matrices can be quantized: "transformer.h.0.attn.c_attn".
std::vector<std::string> modules_of(const Plan& plan);

}  // namespace assay
