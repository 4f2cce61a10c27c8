// The forward pass, written once: it writes the plan that every backend runs.
#pragma once

#include "assay/backend/plan.h"
#include "assay/model/spec.h"
#include "assay/quant/precision.h"

namespace assay {

Plan plan_forward(const ModelSpec& spec, const Precision& precision);

}  // namespace assay
