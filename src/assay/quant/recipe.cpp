#include "assay/quant/recipe.h"

#include <algorithm>

#include "assay/base/error.h"
#include "assay/base/sha256.h"
#include "assay/quant/selection.h"

namespace assay {

const WeightFormat& Recipe::format_of(std::string_view module) const {
  const auto rule = std::find_if(rules.begin(), rules.end(),
                                 [&](const RecipeRule& each) { return matches_pattern(each.match, module); });
  return rule != rules.end() ? rule->format : default_format;
}

std::string Recipe::canonical() const {
  std::string text = fmt::format("default {}\n", recipe_name_of(default_format));
  if (lm_head) text += fmt::format("lm_head {}\n", recipe_name_of(*lm_head));
  for (const RecipeRule& rule : rules)
    text += fmt::format("{} {}:{}\n", recipe_name_of(rule.format), rule.match.size(), rule.match);
  return text;
}

std::string Recipe::hash() const {
  return sha256_hex(canonical()).substr(0, 12);
}

std::string Recipe::label() const {
  return fmt::format("recipe {} {}", printable(name), hash());
}

void Recipe::check(const std::vector<std::string>& modules) const {
  std::vector<std::string> patterns;
  for (const RecipeRule& rule : rules) patterns.push_back(rule.match);
  try {
    check_patterns(patterns, "recipe", modules);
  } catch (const FieldError& error) {
    throw FieldError("recipe", "recipe '{}': {}", printable(name), error.problem());
  }
}

}  // namespace assay
