#include "assay/config/recipe_file.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/toml.h"

namespace assay {

namespace {

constexpr std::string_view kRecipeKeys[] = {"name", "default", "lm_head", "modules"},
                           kRuleKeys[] = {"match", "format"};

WeightFormat format_at(const JsonReader& json) {
  const std::vector<std::string> names = weight_format_names();
  if (!json.is_text()) json.refuse(fmt::format("one of {}", fmt::join(names, ", ")));
  const std::string text = json.text();
  if (const auto found = weight_format_from_name(text)) return *found;
  json.fail(fmt::format("expected one of {}, found '{}'; the nearest is {}", fmt::join(names, ", "),
                        text.substr(0, 64), nearest_name(text.substr(0, 64), names)));
}

}  // namespace

Recipe recipe_from_json(const JsonReader& json, const std::string& name) {
  json.require_known(kRecipeKeys);
  Recipe recipe;
  recipe.name = json.has("name") ? json.at("name").text() : name;
  if (recipe.name.empty() || recipe.name.size() > 64) json.at("name").refuse("a name of 1 to 64 characters");
  recipe.default_format = format_at(json.at("default"));
  if (json.has("lm_head")) recipe.lm_head = format_at(json.at("lm_head"));
  if (!json.has("modules")) return recipe;
  for (const JsonReader& each : json.at("modules").items()) {
    each.require_known(kRuleKeys);
    recipe.rules.push_back({each.at("match").text(), format_at(each.at("format"))});
    if (recipe.rules.back().match.empty()) each.at("match").refuse("a pattern of module names");
  }
  return recipe;
}

Recipe read_recipe(const std::string& file) {
  if (file.empty()) throw FieldError("recipe", "expected the name of a file, found none");
  const nlohmann::ordered_json json = read_toml_or_json(file);
  return recipe_from_json({json, file}, std::filesystem::path(file).stem().string().substr(0, 64));
}

nlohmann::ordered_json to_json(const Recipe& recipe) {
  nlohmann::ordered_json json{{"name", recipe.name}, {"default", recipe_name_of(recipe.default_format)}};
  if (recipe.lm_head) json["lm_head"] = recipe_name_of(*recipe.lm_head);
  if (recipe.rules.empty()) return json;
  nlohmann::ordered_json& modules = json["modules"] = nlohmann::ordered_json::array();
  for (const RecipeRule& rule : recipe.rules)
    modules.push_back({{"match", rule.match}, {"format", recipe_name_of(rule.format)}});
  return json;
}

}  // namespace assay
