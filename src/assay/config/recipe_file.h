// Recipes as people write them, in TOML or JSON:
//
//   name = "attention in int8"      # [the file's name]
//   default = "nf4"                 # of matrices in the blocks that no rule matches
//   lm_head = "int8"                # [as everything that is not quantized]
//
//   [[modules]]                     # the first that matches decides
//   match = "*.attn.*"              # a pattern of the whole name, or a part of it
//   format = "int8"
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "assay/base/json_reader.h"
#include "assay/quant/recipe.h"

namespace assay {

// Throws Error naming file and key, what was expected and what was found.
Recipe read_recipe(const std::string& file);
// `name`: where the recipe has none of its own.
Recipe recipe_from_json(const JsonReader& json, const std::string& name);
nlohmann::ordered_json to_json(const Recipe& recipe);

}  // namespace assay
