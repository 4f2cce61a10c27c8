// Models of several formats: a recipe gives the logits of the options that say the same, and mixes freely.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/plan/operation_groups.h"
#include "assay/session/load.h"
#include "support/fixtures.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

using test::fixture_model;

class MixedFormats : public testing::Test {
 protected:
  std::vector<float> logits(const Precision& precision, Isa isa) const {
    return test::all_logits(Model::load(folder_, test::cpu_backend(isa), precision).program(), ids_);
  }
  std::shared_ptr<const ModelFolder> folder_ = std::make_shared<const ModelFolder>(fixture_model("base"));
  std::vector<TokenId> ids_ =
      test::read_ids(SafetensorsFile(fixture_model("base") / "expected.safetensors"), "input_ids");
};

TEST_F(MixedFormats, ARecipeIsThePresetAndTheSelectionThatSayTheSame) {
  for (const Isa isa : test::usable_isas()) {
    EXPECT_EQ(logits(precision_of(Recipe{.name = "r", .default_format = formats::kNf4}), isa),
              logits(precision_from_name("nf4"), isa))
        << name_of(isa);
    Precision selected = precision_from_name("int8-dynamic");
    set_modules(selected, {{"*.mlp.*"}, {}});
    const Recipe recipe{.name = "r", .rules = {{"*.mlp.*", formats::kInt8}}};
    EXPECT_EQ(logits(precision_of(recipe), isa), logits(selected, isa)) << name_of(isa);
  }
}

TEST_F(MixedFormats, EachModuleHasItsOwn) {
  const Recipe recipe{.name = "all",
                      .default_format = formats::kNf4Dq,
                      .lm_head = formats::kInt8,
                      .rules = {{"*.h.0.attn.*", formats::kInt8},
                                {"*.c_attn", formats::kLlmInt8},
                                {"*.h.0.mlp.c_fc", formats::kBfloat16},
                                {"*.c_fc", formats::kInt4G128},
                                {"*.h.1.mlp.c_proj", formats::kFloat32}}};
  const Precision precision = precision_of(recipe);
  const Model model = Model::load(folder_, test::cpu_backend(Isa::scalar), precision);
  std::vector<WeightFormat> seen;
  for (const Op& op : model.program().plan().ops)
    if (const auto* linear = std::get_if<LinearOp>(&op.what)) {
      const WeightSpec& weight = model.program().plan().weight(linear->weight);
      EXPECT_EQ(name_of(weight.format), name_of(recipe.format_of(linear->modules.front()))) << weight.name;
      if (std::find(seen.begin(), seen.end(), weight.format) == seen.end()) seen.push_back(weight.format);
    }
  EXPECT_GE(seen.size(), 5U);
  // It is nearer to float32 than the coarsest of its formats everywhere, and no copy of any.
  const auto exact = logits(precision_from_name("float32"), Isa::scalar),
             coarse = logits(precision_from_name("nf4-dq"), Isa::scalar);
  const auto scalar = logits(precision, Isa::scalar);
  EXPECT_GT(test::rms_difference(scalar, exact), 0);
  EXPECT_LT(test::rms_difference(scalar, exact), test::rms_difference(coarse, exact));
  for (const Isa isa : test::usable_isas())
    EXPECT_LT(test::rms_difference(logits(precision, isa), scalar), 1e-2 * test::standard_deviation_of(exact))
        << name_of(isa);
}

TEST_F(MixedFormats, GroupsSayWhatIsStoredHow) {
  const Recipe recipe{
      .name = "r", .default_format = formats::kNf4, .rules = {{"*.h.0.mlp.c_fc", formats::kInt8}}};
  const Model model = Model::load(folder_, test::cpu_backend(Isa::scalar), precision_of(recipe));
  std::int64_t int8 = 0, nf4 = 0;
  for (const FormatGroup& group : format_groups(model.program().plan()))
    if (group.name.find("mlp.c_fc") != std::string::npos)
      (group.format == formats::kInt8 ? int8 : nf4) += group.tensors;
  EXPECT_EQ(int8, 1);
  EXPECT_EQ(nf4, model.program().plan().layers - 1);
}

TEST(Recipes, AFormatWithoutAKernelIsAnErrorWithTheServedOnes) {
  const auto folder = std::make_shared<const ModelFolder>(fixture_model("base"));
  Precision precision = precision_from_name("float32");
  precision.weights = {
      .element = ElementType::integer, .bits = 3, .scale = ScaleType::float16, .inputs_per_scale = 32};
  try {
    Model::load(folder, test::cpu_backend(Isa::scalar), precision);
    FAIL();
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("no kernel for 3-bit integer, float16 scale per 32 inputs"), std::string::npos)
        << what;
    EXPECT_NE(what.find("float32, bfloat16, int8, llm-int8, nf4"), std::string::npos) << what;
  }
}

TEST(Recipes, AModelLoadedWithOneSaysSo) {
  const RunConfig config{.recipe = Recipe{.name = "r", .default_format = formats::kNf4}, .threads = 1};
  const LoadedModel loaded = load_model_and_tokenizer({test::demo_model().string()}, config);
  EXPECT_EQ(loaded.dtype_label, config.recipe->label());
  EXPECT_EQ(loaded.config.recipe, config.recipe);
  EXPECT_EQ(loaded.config.precision, std::nullopt);
  RunConfig both = config;
  both.precision = Preset::nf4;
  EXPECT_THROW(load_model_and_tokenizer({test::demo_model().string()}, both), FieldError);
  RunConfig unmatched = config;
  unmatched.recipe->rules = {{"*.no.*", formats::kInt8}};
  EXPECT_THROW(load_model_and_tokenizer({test::demo_model().string()}, unmatched), FieldError);
}

TEST(CliRecipe, IsTakenByFlagsAndShownByInspect) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "mix.toml",
                   "default = 'nf4'\n[[modules]]\nmatch = '*.attn.*'\nformat = 'int8'\n");
  const std::string demo = test::demo_model().string();
  const test::ProgramResult shown =
      test::run_program({"inspect", demo, "--recipe", folder / "mix.toml", "--json"});
  test::expect_success(shown);
  const nlohmann::json recipe = nlohmann::json::parse(shown.out)["recipe"];
  bool has_int8 = false;
  for (const auto& row : recipe["modules"])
    has_int8 = has_int8 || (row["format"] == "int8" && row["bits_per_weight"] > 8);
  EXPECT_TRUE(has_int8) << recipe.dump(1);
  EXPECT_EQ(recipe["label"].get<std::string>().rfind("recipe mix ", 0), 0U);
  const test::ProgramResult text = test::run_program({"inspect", demo, "--recipe", folder / "mix.toml"});
  EXPECT_NE(text.out.find("recipe mix "), std::string::npos);

  const test::ProgramResult made = test::run_program(
      {"generate", demo, "--recipe", folder / "mix.toml", "-p", "Once", "-n", "2", "--json"});
  test::expect_success(made);
  const test::ProgramResult same =
      test::run_program({"generate", demo, "--precision", "recipe:" + std::string(folder / "mix.toml"), "-p",
                         "Once", "-n", "2"});
  test::expect_success(same);
  const test::ProgramResult swept = test::run_program(
      {"sweep", "precisions", demo, "--precision", "float32,recipe:" + std::string(folder / "mix.toml"), "-p",
       "Once", "-n", "2", "--processes", "1", "-r", "1", "--json"});
  test::expect_success(swept);
  EXPECT_EQ(nlohmann::json::parse(swept.out)["rows"][1]["label"].get<std::string>(),
            recipe["label"].get<std::string>());
  const nlohmann::json row = nlohmann::json::parse(swept.out)["rows"][1];
  EXPECT_EQ(nlohmann::json::parse(row["parameters"]["recipe"].get<std::string>()), recipe["recipe"]);
  test::expect_failure(test::run_program({"generate", demo, "--precision", "nf4", "--recipe",
                                          folder / "mix.toml", "-p", "Once"}),
                       2, {"--recipe", "nf4"});
}

}  // namespace
}  // namespace assay
