// The formats of a model's weights: what inspect shows of them, as they are stored or as a recipe makes them.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "assay/checkpoint/source.h"
#include "assay/plan/plan.h"
#include "assay/quant/recipe.h"

namespace assay::cli {

// Each kind of matrix with its format, bits per weight and bytes, and the sum of all.
nlohmann::ordered_json recipe_json(const Recipe& recipe, const Plan& plan);
// The same of the weights that the plan, of the model as it is stored, takes from the source: each kind with
// the type that it has there; norms and biases together.
nlohmann::ordered_json stored_types_json(const Plan& plan, const ModelSource& source);
// Either as lines.
std::string formats_text(const nlohmann::ordered_json& json);

}  // namespace assay::cli
