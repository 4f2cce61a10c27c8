// Recipes from files: both forms, what is wrong with one, and their place in a configuration.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/toml.h"
#include "assay/config/fields_json.h"
#include "assay/config/recipe_file.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

constexpr const char* kToml =
    "name = \"mix\"\ndefault = \"nf4\"\nlm_head = \"int8\"\n[[modules]]\nmatch = \"*.attn.*\"\n"
    "format = \"LLM-int8\"\n[[modules]]\nmatch = \"c_fc\"\nformat = \"float32\"\n";

Recipe mix() {
  return {.name = "mix",
          .default_format = formats::kNf4,
          .lm_head = formats::kInt8,
          .rules = {{"*.attn.*", formats::kLlmInt8}, {"c_fc", formats::kFloat32}}};
}

std::string refusal(std::string_view toml) {
  try {
    recipe_from_json({parse_toml(toml, "r.toml"), "r.toml"}, "r");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RecipeFile, TomlAndJsonAreTheSame) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "a.toml", kToml);
  EXPECT_EQ(read_recipe(folder / "a.toml"), mix());
  test::write_file(folder / "b.json", to_json(mix()).dump());
  EXPECT_EQ(read_recipe(folder / "b.json"), mix());
  test::write_file(folder / "short.toml", "default = 'int4-g128'\n");
  EXPECT_EQ(read_recipe(folder / "short.toml"),
            (Recipe{.name = "short", .default_format = formats::kInt4G128}));
  EXPECT_THROW(read_recipe(folder / "absent.toml"), Error);
}

TEST(RecipeFile, NamesFileAndKeyOfWhatIsWrong) {
  EXPECT_EQ(refusal("default = 'nf5'").rfind("r.toml: default: expected one of float32, ", 0), 0U)
      << refusal("default = 'nf5'");
  EXPECT_NE(refusal("default = 'nf5'").find("found 'nf5'; the nearest is nf4"), std::string::npos);
  EXPECT_NE(refusal("lm_head = 'nf4'").find("default"), std::string::npos);
  EXPECT_NE(refusal("default = 4").find("found 4"), std::string::npos) << refusal("default = 4");
  EXPECT_NE(refusal("default = 'nf4'\nhead = 'nf4'").find("head"), std::string::npos);
  const std::string rule = "default = 'nf4'\n[[modules]]\nmatch = 'a'\n";
  EXPECT_NE(refusal(rule).find("modules[0]"), std::string::npos) << refusal(rule);
  EXPECT_NE(refusal(rule + "format = 'int3'\n").find("modules[0].format"), std::string::npos);
  EXPECT_NE(refusal("default = 'nf4'\nmodules = 'all'").find("modules: expected an array"),
            std::string::npos);
  EXPECT_NE(refusal("default = 'nf4'\n[[modules]]\nmatch = ''\nformat = 'int8'\n").find("a pattern"),
            std::string::npos);
}

TEST(RecipeFile, NeedsAName) {
  EXPECT_THROW(read_recipe(""), FieldError);
  EXPECT_THROW(run_config_from_text("recipe:"), FieldError);
}

TEST(RecipeFile, IsPartOfAConfiguration) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "a.toml", kToml);
  const std::string text = "recipe:" + std::string(folder / "a.toml");
  const RunConfig config = run_config_from_text(text, {.dtype = DType::bf16, .threads = 2});
  EXPECT_EQ(config, (RunConfig{.recipe = mix(), .dtype = DType::bf16, .threads = 2}));
  EXPECT_EQ(config.label(), "recipe mix " + mix().hash() + ", dtype bfloat16, 2 threads");
  EXPECT_NE(config.key().find(mix().hash()), std::string::npos) << config.key();
  RunConfig other = config;
  other.recipe->rules.pop_back();
  EXPECT_NE(other.key(), config.key());
  // A worker gets the recipe, not the path.
  const nlohmann::ordered_json json = to_json(config);
  EXPECT_EQ(json["recipe"], to_json(mix()));
  EXPECT_EQ(run_config_from_json(json), config);
  EXPECT_THROW(run_config_from_json(nlohmann::ordered_json::parse(R"({"recipe":"a.toml"})")), FieldError);

  const RunConfig far = run_config_from_text(text + "+replica:2@cuda:1");
  EXPECT_EQ(far.recipe, mix());
  EXPECT_EQ(far.replica, 2);
  EXPECT_EQ(far.device, (Device{Device::Kind::cuda, 1}));
}

TEST(RecipeFile, TakesThePlaceOfAPrecision) {
  const RunConfig common{.recipe = mix()};
  EXPECT_EQ(run_config_from_text("nf4", common), (RunConfig{.precision = Preset::nf4}));
  EXPECT_EQ(run_config_from_text("auto", common), common);
  const std::vector<RunConfig> made{run_config_from_text("nf4", common)};
  EXPECT_THROW(require_used(common, made), FieldError);
  Precision precision = precision_of(Preset::nf4);
  EXPECT_THROW(apply_to(precision, {.precision = Preset::nf4, .recipe = mix()}), FieldError);
}

}  // namespace
}  // namespace assay
