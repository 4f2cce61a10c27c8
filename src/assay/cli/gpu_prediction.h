// What a step of a model takes on a GPU at least, kernel by kernel, counted from its plan: no GPU is needed.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "assay/plan/plan.h"

namespace assay::cli {

struct GpuStep {
  std::string gpu;                    // of gpu_names()
  std::int64_t rows = 1, past = 512;  // new tokens of a step, and tokens before them
};

std::string gpu_names();  // "a100, h100-pcie, h100, h200"
// Throws UsageError for a GPU that is not in the table.
nlohmann::ordered_json gpu_prediction_json(const Plan& plan, const GpuStep& step);
std::string gpu_prediction_text(const nlohmann::ordered_json& prediction);

}  // namespace assay::cli
