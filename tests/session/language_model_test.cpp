// The front door: what a program does with a model, against what the parts below it give.
#include "assay/session/language_model.h"

#include <gtest/gtest.h>

#include <fstream>

#include "assay/base/error.h"
#include "assay/exercises.h"
#include "assay/model/model.h"
#include "assay/text/tokenizer.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

std::string demo() {
  return test::demo_model().string();
}

TEST(LanguageModel, GeneratesScoresAndGivesLogitsAsThePartsBelowDo) {
  const LanguageModel model = load(demo(), {.precision = "float32", .device = "cpu", .threads = 2});
  EXPECT_EQ(model.dtype(), "float32");
  const std::vector<TokenId> ids = model.ids_of("The captain of the ship");
  EXPECT_EQ(ids, model.loaded().tokenizer->encode("The captain of the ship"));

  const TimedGeneration told = model.generate("The captain of the ship", {.max_new_tokens = 8});
  const TimedGeneration timed =
      time_generate(model.loaded(), ids, {.max_new_tokens = 8, .stops_at_end = true});
  EXPECT_EQ(told.ids, timed.ids);
  EXPECT_EQ(told.text, timed.text);
  EXPECT_LT(told.warm_up_s, 1e-3);  // nothing ran

  const Logits logits = model.logits(ids);
  EXPECT_EQ(logits.rows, static_cast<std::int64_t>(ids.size()));
  EXPECT_EQ(logits.values, test::all_logits(model.loaded().model->program(), ids));
  const auto last = logits.row(logits.rows - 1);
  EXPECT_EQ(std::max_element(last.begin(), last.end()) - last.begin(), told.ids.front());

  EXPECT_EQ(model.score("The sea was calm.").loss, model.score(model.ids_of("The sea was calm.")).loss);
}

TEST(LanguageModel, OptionsSayHowItIsLoaded) {
  const LanguageModel nf4 = load(demo(), {.precision = "nf4+head", .device = "cpu", .threads = 1});
  EXPECT_EQ(nf4.dtype(), "nf4+head:nf4");
  const LanguageModel cached =
      load(demo(), {.device = "cpu", .config = {.precision = Preset::float32, .kv_cache = KvFormat::int8}});
  EXPECT_EQ(cached.loaded().model->precision().kv_cache, KvFormat::int8);
  EXPECT_LT(nf4.memory().value, cached.memory().value / 2);
  EXPECT_THROW(load(demo(), {.precision = "nf5"}), FieldError);
  EXPECT_THROW(load("/no/such/folder"), Error);
  EXPECT_EQ(load("/no/such/folder," + demo()).loaded().id, demo());
}

TEST(LanguageModel, WithoutATokenizerOnlyTextIsRefused) {
  const LanguageModel model = load(test::fixture_model("base").string(), {.device = "cpu"});
  EXPECT_FALSE(model.has_tokenizer());
  const std::vector<TokenId> ids = {1, 2, 3};
  EXPECT_EQ(model.generate(ids, {.max_new_tokens = 2}).ids.size(), 2U);
  EXPECT_EQ(model.logits(ids).rows, 3);
  EXPECT_GT(model.score(ids).perplexity, 1);
  EXPECT_THROW(model.generate("text"), Error);
  EXPECT_THROW(model.score("text"), Error);
  EXPECT_THROW(model.ids_of("text"), Error);
  EXPECT_THROW(model.logits({}), Error);
}

TEST(LanguageModel, LoadingStopsBetweenTensors) {
  int asked = 0;
  const auto after_three = [&] { return ++asked > 3; };
  EXPECT_THROW(load(demo(), {.device = "cpu", .should_stop = after_three}), Stopped);
  EXPECT_LE(asked, 4 + 64);  // each thread that reads asks once more at most
  // Another candidate would be what nobody asked for.
  EXPECT_THROW(load(demo() + "," + demo(), {.device = "cpu", .should_stop = [] { return true; }}), Stopped);
}

TEST(LanguageModel, ALongPromptStopsBetweenItsPieces) {
  const LanguageModel model = load(demo(), {.precision = "float32", .device = "cpu"});
  const std::int64_t most = model.loaded().model->program().max_rows();
  ASSERT_LT(most, model.context());
  const std::vector<TokenId> ids(static_cast<std::size_t>(most) + 1, 5);
  int asked = 0;
  const auto count_and_stop = [&] {
    ++asked;
    return true;
  };
  EXPECT_THROW(model.generate(ids, {.max_new_tokens = 1, .should_stop = count_and_stop}), Stopped);
  EXPECT_EQ(asked, 1);
  EXPECT_THROW(model.logits(ids, [] { return true; }), Stopped);
  // A prompt of one piece is read, and what there is then comes back.
  const TimedGeneration told = model.generate(std::vector<TokenId>{1, 2, 3},
                                              {.max_new_tokens = 3, .should_stop = [] { return true; }});
  EXPECT_EQ(told.ids.size(), 1U);
  EXPECT_EQ(told.stop, StopReason::interrupted);
}

TEST(LanguageModel, DemoLiesWhereTheDataFolderSays) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(shipped_file("texts/prompts.txt", test::demo_model().parent_path()).parent_path().parent_path(),
            std::filesystem::weakly_canonical(test::demo_model()));
  EXPECT_EQ(load("demo", {.device = "cpu", .data_folder = test::demo_model().parent_path()})
                .loaded()
                .model->source()
                .path(),
            std::filesystem::weakly_canonical(test::demo_model()));
}

TEST(Candidates, AreNamesBetweenCommas) {
  EXPECT_EQ(candidates_from_text("gpt2, demo,"), (std::vector<std::string>{"gpt2", "demo"}));
  EXPECT_EQ(candidates_from_text(""), std::vector<std::string>{""});
  const test::TemporaryFolder folder;
  const std::filesystem::path odd = folder.path() / "a,b";
  std::filesystem::create_directory(odd);
  EXPECT_EQ(candidates_from_text(odd.string()), std::vector<std::string>{odd.string()});
}

}  // namespace
}  // namespace assay
