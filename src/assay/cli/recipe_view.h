// A recipe applied to a model: what inspect shows of it.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "assay/plan/plan.h"
#include "assay/quant/recipe.h"

namespace assay::cli {

// Each kind of matrix with its format, bits per weight and bytes, and the sum of all.
nlohmann::ordered_json recipe_json(const Recipe& recipe, const Plan& plan);
// The same as lines.
std::string recipe_text(const nlohmann::ordered_json& json);

}  // namespace assay::cli
