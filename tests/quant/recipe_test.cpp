// Recipes: which format each module has, and what tells one recipe from another.
#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/quant/precision.h"
#include "assay/quant/recipe.h"

namespace assay {
namespace {

Recipe mixed() {
  return {
      .name = "mixed",
      .default_format = formats::kNf4,
      .lm_head = formats::kInt8,
      .rules = {{"h.0.mlp.*", formats::kFloat32}, {"*.mlp.*", formats::kInt8}, {"c_proj", formats::kFp4}}};
}

TEST(Recipe, TheFirstRuleThatMatchesDecides) {
  const Recipe recipe = mixed();
  EXPECT_EQ(recipe.format_of("h.0.mlp.c_proj"), formats::kFloat32);
  EXPECT_EQ(recipe.format_of("h.1.mlp.c_proj"), formats::kInt8);
  EXPECT_EQ(recipe.format_of("h.1.attn.c_proj"), formats::kFp4);
  EXPECT_EQ(recipe.format_of("h.1.attn.c_attn"), formats::kNf4);
}

TEST(Recipe, ItsHashIsOfWhatItSaysAndNotOfItsName) {
  const Recipe recipe = mixed();
  EXPECT_EQ(recipe.hash().size(), 12U);
  EXPECT_EQ(recipe.label(), "recipe mixed " + recipe.hash());
  Recipe other = recipe;
  other.name = "other";
  EXPECT_EQ(other.hash(), recipe.hash());
  other.lm_head.reset();
  EXPECT_NE(other.hash(), recipe.hash());
  other = recipe;
  std::swap(other.rules[0], other.rules[1]);
  EXPECT_NE(other.hash(), recipe.hash());
  // No pattern can be taken for a line of its own.
  Recipe one = recipe, two = recipe;
  two.rules = {{"a", formats::kInt8}, {"b", formats::kInt8}};
  for (const char* pattern : {"a\nint8 1:b", "a\nint8 0:b", "a\nint8 :b", "a\nint8 b"}) {
    one.rules = {{pattern, formats::kInt8}};
    EXPECT_NE(one.hash(), two.hash()) << pattern;
  }
}

TEST(Recipe, RefusesPatternsThatMatchNothing) {
  const std::vector<std::string> modules{"h.0.mlp.c_fc", "h.1.mlp.c_fc", "h.1.attn.c_proj"};
  mixed().check(modules);
  Recipe recipe = mixed();
  recipe.rules.push_back({"*.mpl.*", formats::kInt8});
  try {
    recipe.check(modules);
    FAIL();
  } catch (const FieldError& error) {
    EXPECT_EQ(error.field(), "recipe");
    EXPECT_NE(error.problem().find("recipe 'mixed': '*.mpl.*' matches none of the 3 modules"),
              std::string::npos);
  }
}

TEST(Recipe, BecomesAPrecision) {
  const Precision precision = precision_of(mixed());
  EXPECT_EQ(precision.name, mixed().label());
  EXPECT_EQ(precision.lm_head, formats::kInt8);
  EXPECT_TRUE(precision.is_quantized());
  EXPECT_TRUE(precision.has_any(formats::kFp4));
  EXPECT_FALSE(precision.has_any(formats::kLlmInt8));
  EXPECT_EQ(precision.format_of("h.1.mlp.c_proj"), formats::kInt8);
  EXPECT_EQ(precision.why_not_quantized("h.0.mlp.c_fc"), "kept by the recipe");
  EXPECT_EQ(precision.why_not_quantized("h.1.mlp.c_fc"), std::nullopt);
  // Formats without scales are as the recipe says, and what is excluded is as everything else.
  Precision excluded = precision;
  set_dtype(excluded, DType::bf16);
  set_modules(excluded, {{}, {"h.1."}});
  EXPECT_EQ(excluded.format_of("h.1.mlp.c_proj"), formats::kBfloat16);
  EXPECT_EQ(excluded.format_of("h.0.mlp.c_proj"), formats::kFloat32);
  EXPECT_EQ(excluded.lm_head, formats::kInt8);
}

TEST(Recipe, PresetsAreRecipesWithoutRules) {
  for (const Preset preset : {Preset::float32, Preset::bfloat16, Preset::int8_static, Preset::nf4_dq}) {
    const Recipe recipe = recipe_of(preset);
    EXPECT_EQ(recipe.name, name_of(preset));
    EXPECT_TRUE(recipe.rules.empty());
    EXPECT_EQ(recipe.default_format, precision_of(preset).weights);
    EXPECT_EQ(recipe.lm_head.value_or(formats::kFloat32), precision_of(preset).lm_head);
    EXPECT_FALSE(takes_recipe(precision_of(preset)));
  }
}

TEST(Recipe, OptionsApplyWhereAnyModuleTakesThem) {
  const Precision precision = precision_of(mixed());
  EXPECT_TRUE(takes_activations(precision));
  EXPECT_TRUE(takes_input_scale(precision));
  EXPECT_TRUE(takes_float32_matmul(precision));
  EXPECT_FALSE(takes_outlier_threshold(precision));
  EXPECT_EQ(precision.arithmetic_of(formats::kInt8).activations, ActivationType::int8_per_token);
  EXPECT_EQ(precision.arithmetic_of(formats::kNf4).multiply, Multiply::float32);
}

}  // namespace
}  // namespace assay
