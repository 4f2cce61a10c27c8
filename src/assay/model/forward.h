// The forward pass, written once: it writes the plan that every backend runs.
#pragma once

#include <string>
#include <vector>

#include "assay/backend/plan.h"
#include "assay/model/spec.h"
#include "assay/quant/precision.h"

namespace assay {

// Throws UsageError where a pattern of the precision's modules matches none.
Plan plan_forward(const ModelSpec& spec, const Precision& precision);

// Names of the modules in the blocks whose matrices can be quantized: "transformer.h.0.attn.c_attn".
std::vector<std::string> modules_of(const Plan& plan);

}  // namespace assay
