// The model that ships: logits, greedy texts and perplexities equal to those of Transformers.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "assay/assay.h"
#include "assay/base/file.h"
#include "assay/base/sha256.h"
#include "assay/model/model.h"
#include "support/fixtures.h"

namespace assay {
namespace {

class DemoModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    loaded_ = std::make_unique<LoadedModel>(
        load_model_and_tokenizer({test::demo_model().string()}, "float32", Device{}));
  }
  static void TearDownTestSuite() { loaded_.reset(); }
  static nlohmann::json read(const std::string& name) {
    return nlohmann::json::parse(read_text_file(test::fixture(name)));
  }

  static void expect_perplexity(const std::filesystem::path& file, const nlohmann::json& strides) {
    for (const auto& [stride, want] : strides.items()) {
      const CorpusScore got = score_file(*loaded_, file, {.stride = std::stoll(stride)});
      EXPECT_EQ(got.score.tokens_scored, want["tokens_scored"].get<std::int64_t>());
      EXPECT_NEAR(got.score.perplexity, want["token_perplexity"].get<double>(),
                  1e-5 * want["token_perplexity"].get<double>())
          << file << " stride " << stride;
    }
  }
  static std::unique_ptr<LoadedModel> loaded_;
};
std::unique_ptr<LoadedModel> DemoModel::loaded_;

TEST_F(DemoModel, FixturesAreOfTheseWeights) {
  // A retrained model needs new fixtures: tools/make_fixtures.py --demo models/demo.
  Sha256 hash;
  hash.update(read_text_file(test::demo_model() / "model.safetensors"));
  EXPECT_EQ(read("demo_greedy.json")["model_sha256"].get<std::string>(), hash.hex());
}

TEST_F(DemoModel, LogitsEqualTransformers) {
  const SafetensorsFile file(test::fixture("demo_logits.safetensors"));
  const std::vector<TokenId> ids = test::read_ids(file, "input_ids");
  const std::vector<float> want = test::read_floats(file, "logits");
  ASSERT_EQ(ids.size(), 1024u);
  const auto all = test::all_logits(loaded_->model->program(), ids);
  const auto vocab = static_cast<std::size_t>(loaded_->model->spec().vocab);
  std::vector<float> got;
  for (const std::size_t row : {0, 16, 511, 1023})
    got.insert(got.end(), all.begin() + static_cast<std::ptrdiff_t>(row * vocab),
               all.begin() + static_cast<std::ptrdiff_t>((row + 1) * vocab));
  EXPECT_LE(test::largest_difference(got, want), 2e-4 * test::standard_deviation_of(want));
}

TEST_F(DemoModel, GreedyTextsEqualTransformers) {
  const nlohmann::json cases = read("demo_greedy.json")["cases"];
  for (const bool uses_cache : {true, false})
    for (const auto& entry : cases) {
      TimeOptions options;
      options.max_new_tokens = 64;
      options.uses_cache = uses_cache;
      const TimedGeneration got = time_generate(*loaded_, entry["prompt"].get<std::string>(), options);
      EXPECT_EQ(got.prompt_ids, entry["prompt_ids"].get<std::vector<TokenId>>());
      EXPECT_EQ(got.ids, entry["ids"].get<std::vector<TokenId>>()) << entry["prompt"];
    }
}

TEST_F(DemoModel, PerplexityEqualsTransformers) {
  expect_perplexity(test::demo_model() / "texts/evaluate.txt", read("demo_perplexity.json")["evaluate.txt"]);
}

// In bfloat16 the logits are as near to float32 as those of Transformers in bfloat16, on every tier.
TEST_F(DemoModel, Bfloat16ErrsNoMoreThanTransformers) {
  if (kIsSanitized) GTEST_SKIP() << "it takes too long under a sanitizer; the release build measures it";
  const SafetensorsFile file(test::fixture("demo_logits.safetensors"));
  const std::vector<TokenId> ids = test::read_ids(file, "input_ids");
  const std::vector<float> want = test::read_floats(file, "logits");
  const double allowed = read("demo_bfloat16.json")["rms_error"].get<double>();
  const auto folder = std::make_shared<const ModelFolder>(test::demo_model());
  for (const Isa isa : test::usable_isas()) {
    if (isa == Isa::scalar) continue;  // the others are held to it elsewhere; it takes long
    const Model model = Model::load(folder, test::cpu_backend(isa), precision_from_name("bfloat16"));
    const auto all = test::all_logits(model.program(), ids);
    const auto vocab = static_cast<std::size_t>(model.spec().vocab);
    double squares = 0;
    std::size_t i = 0;
    for (const std::size_t row : {0, 16, 511, 1023})
      for (std::size_t j = 0; j < vocab; ++j, ++i) {
        const double difference = static_cast<double>(all[row * vocab + j]) - static_cast<double>(want[i]);
        squares += difference * difference;
      }
    const double rms = std::sqrt(squares / static_cast<double>(i)) / test::standard_deviation_of(want);
    EXPECT_LE(rms, 1.1 * allowed) << name_of(isa);
    EXPECT_GE(rms, 0.05 * allowed) << name_of(isa) << ": this was not bfloat16";
  }
}

// Perplexity in bfloat16 is that of float32 within 0.2 %.
void expect_same_perplexity(const std::filesystem::path& file, double want) {
  const LoadedModel rounded = load_model_and_tokenizer({test::demo_model().string()}, "bfloat16", Device{});
  EXPECT_NEAR(score_file(rounded, file, {.stride = 1024}).score.perplexity, want, 0.002 * want) << file;
}

TEST_F(DemoModel, Bfloat16KeepsThePerplexity) {
  const auto file = test::demo_model() / "texts/evaluate.txt";
  expect_same_perplexity(file, score_file(*loaded_, file, {.stride = 1024}).score.perplexity);
}

class SharedDemoModel : public DemoModel {};

// For a long text. What the stride changes is held to Transformers by the text that ships.
TEST_F(SharedDemoModel, PerplexityOfTheHeldOutNovelEqualsTransformers) {
  if (kIsSanitized) GTEST_SKIP() << "it takes too long under a sanitizer; the release build scores it";
  const auto path = test::dev_data("heldout/novel.txt");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
  const nlohmann::json want = read("demo_perplexity.json")["novel.txt"]["1024"];
  expect_perplexity(path, {{"1024", want}});
  expect_same_perplexity(path, want["token_perplexity"].get<double>());
}

}  // namespace
}  // namespace assay
