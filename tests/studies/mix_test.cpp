// A format for each part of a model: exchanging and restoring, a planted outlier, the recipe that is written.
#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/session/divergence.h"
#include "assay/studies/mix.h"
#include "assay/text/tokenizer.h"
#include "support/fixtures.h"
#include "support/safetensors_writer.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

constexpr const char* kPlanted = "transformer.h.1.mlp.c_fc";

LoadedModel loaded_for_mix(const std::filesystem::path& folder, std::optional<Recipe> recipe = {}) {
  RunConfig config;
  config.threads = 2;
  if (recipe)
    config.recipe = std::move(recipe);
  else
    config.precision = Preset::float32;
  return load_model_and_tokenizer({folder.string()}, config, {.needs_tokenizer = false});
}

std::vector<TokenId> text_for_mix(const LoadedModel& loaded, std::size_t tokens) {
  const std::string text = read_text_file(test::demo_model() / "texts/evaluate.txt");
  std::vector<TokenId> ids = loaded.tokenizer->encode(text);
  ids.resize(tokens);
  return ids;
}

// The demo in float32, computing the same, with outliers in one matrix: some channels of the norm before it
// are smaller, and its weights that read them are as much larger.
void plant_one_outlier(const std::filesystem::path& to) {
  std::filesystem::create_directories(to);
  for (const auto& entry : std::filesystem::directory_iterator(test::demo_model()))
    if (entry.path().extension() == ".json")
      std::filesystem::copy(entry.path(), to / entry.path().filename());
  const ModelFolder folder(test::demo_model());
  std::vector<test::WrittenTensor> tensors;
  for (const CheckpointTensor& at : folder.all()) {
    std::vector<float> values(static_cast<std::size_t>(at->elements()));
    at.read_floats(0, at->elements(), values.data());
    const bool is_norm = at->name.starts_with("transformer.h.1.ln_2."),
               is_reader = at->name == std::string(kPlanted) + ".weight";
    const std::size_t width = values.size() / static_cast<std::size_t>(at->shape[0]);
    for (std::size_t i = 0; i < values.size() && (is_norm || is_reader); ++i)
      if (i / width % 29 == 3) values[i] *= is_norm ? 1.0F / 64 : 64;
    tensors.push_back({at->name, "F32", at->shape, test::float_bytes(values)});
  }
  test::write_file(to / "model.safetensors", test::safetensors_file(tensors));
}

TEST(FormatItems, ShareAFormatWhereTheyAreMultipliedTogether) {
  const ItemExchange model(loaded_for_mix(test::fixture_model("llama_grouped")));
  const std::vector<FormatItem>& items = model.items();
  ASSERT_GE(items.size(), 5U);
  EXPECT_EQ(items[0].name, "model.layers.0.self_attn.q_proj+k_proj+v_proj");
  EXPECT_EQ(items[0].kind, "model.layers.*.self_attn.q_proj+k_proj+v_proj");
  EXPECT_EQ(items[0].layer, 0);
  EXPECT_EQ(items[0].modules.size(), 3U);
  EXPECT_EQ(items[2].modules.size(), 2U);  // gate and up
  EXPECT_EQ(items.back().name, "lm_head");
  EXPECT_FALSE(items.back().layer);
}

TEST(FormatItems, GiveARecipeThatHasTheFormatOfEach) {
  const ItemExchange model(loaded_for_mix(test::demo_model()));
  const std::vector<FormatItem>& items = model.items();
  std::vector<WeightFormat> formats;
  for (std::size_t i = 0; i < items.size(); ++i)
    formats.push_back(i % 3 == 0                       ? formats::kInt8
                      : items[i].kind == items[1].kind ? formats::kBfloat16
                                                       : formats::kNf4);
  const Recipe recipe = recipe_of_items("each", items, formats);
  for (std::size_t i = 0; i < items.size(); ++i) {
    for (const std::string& module : items[i].modules)
      EXPECT_EQ(recipe.format_of(module), formats[i]) << module;
    if (items[i].modules.empty()) {
      EXPECT_EQ(recipe.lm_head, formats[i]);
    }
  }
  // Where all agree there is no rule.
  EXPECT_TRUE(recipe_of_items("one", items, std::vector(items.size(), formats::kNf4)).rules.empty());
}

TEST(ItemExchange, GivesNothingWhereAnItemIsRestored) {
  ItemExchange model(loaded_for_mix(test::demo_model()));
  const std::vector<TokenId> ids = text_for_mix(model.base(), 200);
  for (const std::size_t item : {std::size_t{0}, model.items().size() - 1}) {
    model.set(item, formats::kNf4);
    const TokenKl changed = measure_tokens(model, ids, {});
    EXPECT_GT(statistics::mean(changed.kl), 1e-5) << item;
    model.set(item, formats::kFloat32);
    for (const double kl : measure_tokens(model, ids, {}).kl) ASSERT_EQ(kl, 0);
  }
}

TEST(Sensitivity, SumsItsItemsByKindAndLayer) {
  ItemExchange model(loaded_for_mix(test::demo_model()));
  const Sensitivity found = measure_sensitivity(model, formats::kNf4, text_for_mix(model.base(), 300));
  ASSERT_EQ(found.items.size(), model.items().size());
  double items = 0, kinds = 0, layers = 0, head = 0;
  for (const SensitivityRow& row : found.items) {
    items += row.kl.value;
    if (!row.layer) head += row.kl.value;
    EXPECT_LT(row.bytes, row.base_bytes);
  }
  for (const SensitivityRow& row : found.kinds) kinds += row.kl.value;
  for (const SensitivityRow& row : found.layers) layers += row.kl.value;
  EXPECT_NEAR(items, found.sum.value, 1e-9);
  EXPECT_NEAR(kinds, found.sum.value, 1e-9);
  EXPECT_NEAR(layers + head, found.sum.value, 1e-9);
  EXPECT_GT(found.items.front().kl.value, found.items.back().kl.value);
  EXPECT_NE(found.items.front().name, kPlanted);
  EXPECT_FALSE(found.sum.interval);  // 299 tokens are too few
}

TEST(Mix, GivesAPlantedBadMatrixTheWidestFormat) {
  const test::TemporaryFolder folder;
  const std::filesystem::path planted = folder.path() / "planted";
  plant_one_outlier(planted);
  ItemExchange model(loaded_for_mix(planted));
  const std::vector<TokenId> ids = text_for_mix(model.base(), 600);
  const auto scored = std::span(ids).first(300), held_out = std::span(ids).last(300);
  EXPECT_EQ(measure_sensitivity(model, formats::kNf4, scored).items.front().name, kPlanted);
  // Room for that matrix in the widest format, and for little beside it.
  MixOptions options{.candidates = {formats::kNf4, formats::kInt8, formats::kBfloat16},
                     .limit = {"memory", 0}};
  options.limit.bound = static_cast<double>(model.other_bytes().value);
  for (std::size_t i = 0; i < model.items().size(); ++i)
    options.limit.bound += static_cast<double>(
        model.bytes(i, model.items()[i].name == kPlanted ? formats::kBfloat16 : formats::kNf4).value);
  const Mix mix = find_mix(model, scored, held_out, options);
  EXPECT_EQ(mix.chosen.recipe.format_of(kPlanted), formats::kBfloat16);
  EXPECT_EQ(mix.chosen.recipe.format_of("transformer.h.0.mlp.c_fc"), formats::kNf4);
  EXPECT_LE(static_cast<double>(mix.chosen.bytes.value), options.limit.bound);
  EXPECT_LT(mix.chosen.kl.value, 0.8 * mix.uniform.front().kl.value);
  EXPECT_FALSE(mix.has_beaten_all());  // 299 tokens show nothing
  EXPECT_TRUE(mix.uniform.front().is_in_contest);
  EXPECT_EQ(mix.uniform.front().verdict, 0);

  // Loaded anew, the recipe computes what was measured.
  const LoadedModel loaded = loaded_for_mix(planted, mix.chosen.recipe);
  const LoadedModel* const candidate = &loaded;
  const CorpusDivergence again =
      diverge_on_ids(model.base(), std::span(&candidate, 1), {held_out.begin(), held_out.end()});
  std::vector<double> kl;
  for (const TokenDivergence& token : again.divergence.candidates.front().tokens) kl.push_back(token.kl);
  EXPECT_EQ(statistics::mean(kl), mix.chosen.kl.value);
}

TEST(Mix, KeepsALimitOfAgreementWhereScoresAreFrom) {
  ItemExchange model(loaded_for_mix(test::demo_model()));
  const std::vector<TokenId> ids = text_for_mix(model.base(), 400);
  const auto scored = std::span(ids).first(200);
  const Mix mix = find_mix(model, scored, std::span(ids).last(200),
                           {.candidates = {formats::kNf4, formats::kBfloat16}, .limit = {"agreement", 0.9}});
  std::vector<WeightFormat> formats;
  for (const FormatItem& item : model.items())
    formats.push_back(item.modules.empty() ? *mix.chosen.recipe.lm_head
                                           : mix.chosen.recipe.format_of(item.modules.front()));
  model.set_all(formats);
  EXPECT_GE(statistics::mean(measure_tokens(model, scored, {}).same_top1), 0.9);
  EXPECT_FALSE(mix.is_uniform());
}

TEST(Mix, RefusesALimitBelowTheSmallestRecipe) {
  ItemExchange model(loaded_for_mix(test::demo_model()));
  const std::vector<TokenId> ids = text_for_mix(model.base(), 100);
  try {
    find_mix(model, ids, ids, {.candidates = {formats::kNf4}, .limit = {"memory", 1000}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the smallest recipe of these candidates takes"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace assay
