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

// The demo in float32 with other values: `alter` gets each tensor's name, its row length and its values.
void alter_demo(const std::filesystem::path& to,
                const std::function<void(const std::string&, std::size_t, std::vector<float>&)>& alter) {
  std::filesystem::create_directories(to);
  for (const auto& entry : std::filesystem::directory_iterator(test::demo_model()))
    if (entry.path().extension() == ".json")
      std::filesystem::copy(entry.path(), to / entry.path().filename());
  const ModelFolder folder(test::demo_model());
  std::vector<test::WrittenTensor> tensors;
  for (const CheckpointTensor& at : folder.all()) {
    std::vector<float> values(static_cast<std::size_t>(at->elements()));
    at.read_floats(0, at->elements(), values.data());
    alter(at->name, values.size() / static_cast<std::size_t>(at->shape[0]), values);
    tensors.push_back({at->name, "F32", at->shape, test::float_bytes(values)});
  }
  test::write_file(to / "model.safetensors", test::safetensors_file(tensors));
}

// Computing the same, with outliers in one matrix: some channels of the norm before it are smaller, and its
// weights that read them are as much larger.
void plant_one_outlier(const std::filesystem::path& to) {
  alter_demo(to, [](const std::string& name, std::size_t width, std::vector<float>& values) {
    const bool is_norm = name.starts_with("transformer.h.1.ln_2."),
               is_reader = name == std::string(kPlanted) + ".weight";
    for (std::size_t i = 0; i < values.size() && (is_norm || is_reader); ++i)
      if (i / width % 29 == 3) values[i] *= is_norm ? 1.0F / 64 : 64;
  });
}

// The bytes of the model with these items in one format and the others in another.
double bytes_with(ItemExchange& model, const std::string& item, const WeightFormat& own,
                  const WeightFormat& others) {
  auto bytes = static_cast<double>(model.other_bytes().value);
  for (std::size_t i = 0; i < model.items().size(); ++i)
    bytes += static_cast<double>(model.bytes(i, model.items()[i].name == item ? own : others).value);
  return bytes;
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
  options.limit.bound = bytes_with(model, kPlanted, formats::kBfloat16, formats::kNf4);
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

TEST(Mix, GivesATensorOf30TimesTheScaleTheWiderFormat) {
  constexpr const char* kScaled = "transformer.h.2.attn.c_proj";
  const test::TemporaryFolder folder;
  alter_demo(folder.path() / "scaled", [](const std::string& name, std::size_t, std::vector<float>& values) {
    if (name == std::string(kScaled) + ".weight")
      for (float& value : values) value *= 30;
  });
  ItemExchange model(loaded_for_mix(folder.path() / "scaled"));
  const std::vector<TokenId> ids = text_for_mix(model.base(), 600);
  const Mix mix = find_mix(model, std::span(ids).first(300), std::span(ids).last(300),
                           {.candidates = {formats::kNf4, formats::kInt8},
                            .limit = {"memory", bytes_with(model, kScaled, formats::kInt8, formats::kNf4)}});
  EXPECT_EQ(mix.chosen.recipe.format_of(kScaled), formats::kInt8);
  EXPECT_EQ(mix.chosen.recipe.format_of("transformer.h.0.attn.c_proj"), formats::kNf4);
  EXPECT_LT(mix.chosen.predicted_kl, mix.uniform.front().predicted_kl);
}

// The text held out measures a mix; had it a say in the choice, its figures would flatter what it chose.
TEST(Mix, IsTheSameWhateverTextIsHeldOut) {
  ItemExchange model(loaded_for_mix(test::demo_model()));
  const std::vector<TokenId> ids = text_for_mix(model.base(), 300);
  const double nf4 = bytes_with(model, "", formats::kNf4, formats::kNf4);
  const MixOptions options{.candidates = {formats::kFp4, formats::kNf4, formats::kInt8},
                           .limit = {"memory", 1.1 * nf4},
                           .item_tokens = 20,
                           .most_exchanges = 0};
  const auto chosen_by = std::span(ids).first(150);
  const Mix first = find_mix(model, chosen_by, chosen_by, options);
  for (std::size_t at = 150; at < 300; at += 30) {
    const Mix mix = find_mix(model, chosen_by, std::span(ids).subspan(at, 30), options);
    EXPECT_EQ(mix.chosen.choice, first.chosen.choice) << at;
    EXPECT_EQ(mix.together.uniform_instead, first.together.uniform_instead) << at;
  }
}

// Scores of two tokens choose at random; all parts together, on the text that is looked at here too, do not.
TEST(Mix, IsNeverWorseThanAUniformFormatWithinItsLimit) {
  ItemExchange model(loaded_for_mix(test::demo_model()));
  const std::vector<TokenId> ids = text_for_mix(model.base(), 200);
  std::size_t replaced = 0;
  const double nf4 = bytes_with(model, "", formats::kNf4, formats::kNf4),
               int8 = bytes_with(model, "", formats::kInt8, formats::kInt8);
  for (const double bound : {nf4, 1.3 * nf4, 1.2 * int8})
    for (const std::int64_t tokens : {2, 3}) {
      const Mix mix = find_mix(model, ids, ids,
                               {.candidates = {formats::kFp4, formats::kNf4, formats::kInt8},
                                .limit = {"memory", bound},
                                .item_tokens = tokens,
                                .most_exchanges = 0});
      EXPECT_LE(static_cast<double>(mix.chosen.bytes.value), bound);
      for (const MixRow& row : mix.uniform)
        if (static_cast<double>(row.bytes.value) <= bound) {
          EXPECT_LE(mix.chosen.kl.value, row.kl.value) << bound << " " << tokens << " " << row.name;
        }
      replaced += mix.together.uniform_instead.empty() ? 0 : 1;
    }
  EXPECT_GT(replaced, 0U);
}

TEST(Mix, ShowsItsNeighboursOnBothSides) {
  ItemExchange model(loaded_for_mix(test::demo_model()));
  const std::vector<TokenId> ids = text_for_mix(model.base(), 200);
  MixOptions options{.candidates = {formats::kNf4, formats::kInt8, formats::kBfloat16},
                     .limit = {"memory", 0}};
  options.limit.bound = 1.5 * bytes_with(model, "", formats::kNf4, formats::kNf4);
  const Mix mix = find_mix(model, ids, ids, options);
  ASSERT_EQ(mix.neighbours.size(), 2U);
  const MixRow &smaller = mix.neighbours[0], &larger = mix.neighbours[1];
  EXPECT_EQ(smaller.name, "smaller");
  EXPECT_EQ(larger.name, "larger");
  const auto bytes = static_cast<double>(mix.chosen.bytes.value);
  EXPECT_LE(static_cast<double>(smaller.bytes.value), 0.99 * bytes);
  EXPECT_GE(static_cast<double>(larger.bytes.value), 1.01 * bytes);
  EXPECT_GT(static_cast<double>(larger.bytes.value), options.limit.bound);
  EXPECT_GT(smaller.predicted_kl, mix.chosen.predicted_kl);
  EXPECT_LT(larger.predicted_kl, mix.chosen.predicted_kl);
  for (const MixRow& row : mix.neighbours) {
    model.set_all([&] {
      std::vector<WeightFormat> formats;
      for (const std::size_t f : row.choice) formats.push_back(options.candidates[f]);
      return formats;
    }());
    EXPECT_EQ(statistics::mean(measure_tokens(model, ids, {}).kl), row.kl.value) << row.name;
  }
  // The smallest recipe has none below, the largest none above.
  options.limit.bound = bytes_with(model, "", formats::kNf4, formats::kNf4);
  const Mix smallest = find_mix(model, std::span(ids).first(50), std::span(ids).first(50), options);
  ASSERT_EQ(smallest.neighbours.size(), 1U);
  EXPECT_EQ(smallest.neighbours.front().name, "larger");
}

// Scores of one token are not those of the text.
TEST(Mix, TriesExchangesWhereTheSumMisleads) {
  ItemExchange model(loaded_for_mix(test::demo_model()));
  const std::vector<TokenId> ids = text_for_mix(model.base(), 1600);
  MixOptions options{.candidates = {formats::kNf4, formats::kInt8}, .limit = {"memory", 0}};
  options.limit.bound = 1.3 * bytes_with(model, "", formats::kNf4, formats::kNf4);
  options.item_tokens = 2;
  options.most_exchanges = 3;
  const Mix mix = find_mix(model, ids, ids, options);
  EXPECT_TRUE(mix.together.is_misled);
  EXPECT_EQ(mix.together.tried, 3);
  EXPECT_LE(static_cast<double>(mix.chosen.bytes.value), options.limit.bound);
  EXPECT_LE(mix.chosen.kl.value, mix.together.kl.value + 1e-12);
}

TEST(Mix, KeepsTheTimeOfADecodeStep) {
  ItemExchange model(loaded_for_mix(test::demo_model()));
  const std::vector<TokenId> ids = text_for_mix(model.base(), 100);
  MixOptions options{.candidates = {formats::kNf4, formats::kInt8}, .limit = {"memory", 0}};
  options.limit.bound = 1.3 * bytes_with(model, "", formats::kNf4, formats::kNf4);
  const Mix without = find_mix(model, ids, ids, options);
  EXPECT_FALSE(without.chosen.step);
  options.time_limit = Limit{"token", 1e6};  // milliseconds: no constraint
  const Mix within = find_mix(model, ids, ids, options);
  EXPECT_EQ(within.chosen.choice, without.chosen.choice);
  EXPECT_EQ(within.slack, 0);
  ASSERT_TRUE(within.chosen.step && within.table.base_step);
  EXPECT_GT(*within.chosen.step, 0);
  for (const MixRow& row : within.uniform) EXPECT_GT(*row.step, 0);
  options.time_limit = Limit{"tokens-per-s", 1e12};
  try {
    // Times of parts are differences, which may come out below 0 on a busy machine.
    EXPECT_LE(find_mix(model, ids, ids, options).chosen.predicted_step.value(), 1e-12);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the fastest decode step within the memory"), std::string::npos)
        << error.what();
  }
  EXPECT_DOUBLE_EQ(step_bound({"token", 8}), 0.008);
  EXPECT_DOUBLE_EQ(step_bound({"tokens-per-s", 125}), 0.008);
}

TEST(Mix, ComparesWithBfloat16AsStored) {
  RunConfig config;
  config.threads = 2;
  config.precision = Preset::bfloat16;
  ItemExchange model(
      load_model_and_tokenizer({test::demo_model().string()}, config, {.needs_tokenizer = false}));
  EXPECT_EQ(model.base_format(), formats::kBfloat16);
  const std::vector<TokenId> ids = text_for_mix(model.base(), 200);
  model.set(0, formats::kNf4);
  EXPECT_GT(statistics::mean(measure_tokens(model, ids, {}).kl), 1e-5);
  model.set(0, formats::kBfloat16);
  for (const double kl : measure_tokens(model, ids, {}).kl) ASSERT_EQ(kl, 0);
  const Mix mix =
      find_mix(model, ids, ids, {.candidates = {formats::kNf4, formats::kBfloat16}, .limit = {"kl", 0.02}});
  EXPECT_FALSE(mix.is_uniform());
  EXPECT_EQ(mix.uniform.back().kl.value, 0);
  // Loaded anew, with what is not quantized in bfloat16 too, the recipe computes what was measured.
  config.precision = {};
  config.recipe = mix.chosen.recipe;
  config.dtype = DType::bf16;
  const LoadedModel loaded =
      load_model_and_tokenizer({test::demo_model().string()}, config, {.needs_tokenizer = false});
  const LoadedModel* const candidate = &loaded;
  double kl = 0;
  const CorpusDivergence again = diverge_on_ids(model.base(), std::span(&candidate, 1), ids);
  for (const TokenDivergence& token : again.divergence.candidates.front().tokens) kl += token.kl / 199;
  EXPECT_NEAR(kl, mix.chosen.kl.value, 1e-12);
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
