// Which format each module of a model is stored in, as rules over the modules' names. The precisions that
// users name are recipes without rules (quant/precision.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/quant/format.h"

namespace assay {

struct RecipeRule {
  std::string match;  // as matches_pattern() reads it (quant/selection.h)
  WeightFormat format;

  bool operator==(const RecipeRule&) const = default;
};

struct Recipe {
  std::string name;
  WeightFormat default_format = formats::kFloat32;  // matrices in the blocks that no rule matches
  std::optional<WeightFormat> lm_head = {};         // unset: as everything that is not quantized
  std::vector<RecipeRule> rules = {};               // the first that matches decides

  bool operator==(const Recipe&) const = default;

  // The format of a module of the blocks.
  const WeightFormat& format_of(std::string_view module) const;
  // A line for each rule, with formats by their recipe names: equal for recipes that are equal in all but
  // name.
  std::string canonical() const;
  // The first 12 hexadecimal digits of its SHA-256.
  std::string hash() const;
  // "recipe mixed 0f1e2d3c4b5a": what rows call it.
  std::string label() const;
  // Throws FieldError for a pattern that is empty, too long, or matches none of the modules.
  void check(const std::vector<std::string>& modules) const;
};

}  // namespace assay
