// The predicted step of a GPU (backend/prediction.h) as `assay inspect` shows it.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "assay/backend/prediction.h"

namespace assay::cli {

// Throws FieldError for a GPU that is not known.
nlohmann::ordered_json gpu_prediction_json(const Plan& plan, const GpuStep& step);
std::string gpu_prediction_text(const nlohmann::ordered_json& prediction);

}  // namespace assay::cli
