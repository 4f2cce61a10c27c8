// What generation_config.json asks for, beside the ids of Transformers (tools/make_generation_fixtures.py).
#include "assay/session/generation_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/session/time_generate.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

class GenerationRulesOf : public testing::Test {
 protected:
  GenerationRulesOf() { test::copy_model_fixture(all_["model"].get<std::string>(), model_); }

  LoadedModel with_rules(const nlohmann::json& keys) const {
    test::write_file(model_ / "generation_config.json", keys.dump());
    return load_model_and_tokenizer({model_.string()}, {}, {.needs_tokenizer = false});
  }
  std::string refusal_of(const nlohmann::json& keys) const {
    const LoadedModel loaded = with_rules(keys);
    const ModelSpec& spec = loaded.model->spec();
    try {
      generation_rules(loaded.model->source(), spec.end_tokens, spec.vocab);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  static std::vector<std::string> warnings_of(const LoadedModel& loaded) {
    std::vector<std::string> texts;
    for (const Warning& warning : loaded.warnings)
      if (warning.kind == WarningKind::generation_config) texts.push_back(warning.text);
    return texts;
  }

  const nlohmann::json all_ = nlohmann::json::parse(test::read_file(test::fixture("generation.json")));
  const test::TemporaryFolder folder_;
  const fs::path model_ = folder_.path() / "model";
};

TEST_F(GenerationRulesOf, GiveTheIdsOfTransformers) {
  std::size_t changed = 0;
  std::vector<TokenId> plain;
  for (const nlohmann::json& each : all_["cases"]) {
    const auto want = each["ids"].get<std::vector<TokenId>>();
    if (plain.empty()) plain = want;
    const LoadedModel loaded = with_rules(each["keys"]);
    TimeOptions options{.max_new_tokens = each["new_tokens"], .stops_at_end = true, .has_warm_up = false};
    options.follows_generation_config = true;
    const auto prompt = each["prompt"].get<std::vector<TokenId>>();
    for (const bool uses_cache : {true, false}) {
      options.uses_cache = uses_cache;
      EXPECT_EQ(time_generate(loaded, prompt, options).ids, want) << each["name"];
    }
    changed += want == plain ? 0U : 1U;
  }
  EXPECT_GE(changed, 20U);
}

// Measurements are comparable: they do equal work whatever the file says, and one warning tells.
TEST_F(GenerationRulesOf, AreLeftOutOtherwise) {
  const LoadedModel loaded = with_rules(
      {{"repetition_penalty", 1.3}, {"suppress_tokens", {47}}, {"num_beams", 4}, {"eos_token_id", 1}});
  const std::vector<TokenId> prompt = {5, 9, 13, 9, 13, 2};
  EXPECT_EQ(time_generate(loaded, prompt, {.max_new_tokens = 3}).ids, (std::vector<TokenId>{47, 18, 19}));
  ASSERT_EQ(warnings_of(loaded).size(), 1U);
  EXPECT_EQ(
      warnings_of(loaded)[0],
      "generation_config.json asks for repetition_penalty, suppress_tokens, left out here: assay generate "
      "--generation-config model follows it; and for num_beams, which is not supported");
}

// Whoever follows the file is not told to follow it.
TEST_F(GenerationRulesOf, WhatIsNotSupportedIsNamedWhereTheyAreFollowed) {
  const LoadedModel loaded = with_rules({{"repetition_penalty", 1.3}, {"dola_layers", "low"}});
  const ModelSpec& spec = loaded.model->spec();
  const GenerationRules rules = generation_rules(loaded.model->source(), spec.end_tokens, spec.vocab);
  EXPECT_EQ(left_out_of(rules, true), "generation_config.json asks for dola_layers, which is not supported");
}

TEST_F(GenerationRulesOf, WhatChangesNothingIsNotNamed) {
  const LoadedModel loaded = with_rules({{"repetition_penalty", 1.0},
                                         {"no_repeat_ngram_size", 0},
                                         {"bad_words_ids", nullptr},
                                         {"suppress_tokens", nlohmann::json::array()},
                                         {"min_length", 0},
                                         {"num_beams", 1},
                                         {"do_sample", true},
                                         {"eos_token_id", 2}});
  EXPECT_TRUE(warnings_of(loaded).empty());
}

// Measuring stops at the end that config.json names, and says so.
TEST_F(GenerationRulesOf, WithoutAnEnd) {
  nlohmann::json config = nlohmann::json::parse(test::read_file(model_ / "config.json"));
  config["eos_token_id"] = 19;
  test::write_file(model_ / "config.json", config.dump());
  const LoadedModel loaded = with_rules({{"bos_token_id", 1}});
  TimeOptions options{.max_new_tokens = 5, .stops_at_end = true};
  const std::vector<TokenId> prompt = {5, 9, 13, 9, 13, 2};
  EXPECT_EQ(time_generate(loaded, prompt, options).ids, (std::vector<TokenId>{47, 18, 19}));
  ASSERT_EQ(warnings_of(loaded).size(), 1U);
  EXPECT_NE(warnings_of(loaded)[0].find("names no end token"), std::string::npos);
  options.follows_generation_config = true;
  EXPECT_EQ(time_generate(loaded, prompt, options).ids, (std::vector<TokenId>{47, 18, 19, 0, 13}));
  fs::remove(model_ / "generation_config.json");  // then Transformers makes one of config.json
  const LoadedModel alone = load_model_and_tokenizer({model_.string()}, {}, {.needs_tokenizer = false});
  EXPECT_TRUE(warnings_of(alone).empty());
  EXPECT_EQ(time_generate(alone, prompt, options).ids, (std::vector<TokenId>{47, 18, 19}));
}

TEST_F(GenerationRulesOf, WrongValuesAreNamed) {
  for (const auto& [keys, word] : std::initializer_list<std::pair<nlohmann::json, const char*>>{
           {{{"suppress_tokens", {1, "a"}}}, "suppress_tokens"},
           {{{"suppress_tokens", {1.5}}}, "suppress_tokens"},
           {{{"bad_words_ids", "x"}}, "bad_words_ids: expected lists of token ids, found \"x\""},
           {{{"suppress_tokens", {std::uint64_t{1} << 40}}}, "suppress_tokens"},
           {{{"bad_words_ids", {1, 2}}}, "bad_words_ids: expected lists of token ids, found 1"},
           {{{"bad_words_ids", {nlohmann::json::array()}}}, "bad_words_ids"},
           {{{"bad_words_ids", {{1, 100000}}}}, "bad_words_ids"},
           {{{"forced_eos_token_id", 100000}}, "forced_eos_token_id"},
           {{{"forced_bos_token_id", -1}}, "forced_bos_token_id"},
           {{{"no_repeat_ngram_size", -1}}, "no_repeat_ngram_size"},
           {{{"min_new_tokens", 1e30}}, "min_new_tokens"},
           {{{"repetition_penalty", 0}}, "repetition_penalty"}}) {
    const std::string text = refusal_of(keys);
    EXPECT_NE(text.find("generation_config.json"), std::string::npos) << keys << text;
    EXPECT_NE(text.find(word), std::string::npos) << keys << text;
  }
}

// A key that measuring leaves out anyway stops nothing that does not follow it.
TEST_F(GenerationRulesOf, WrongValuesAreOneWarningWhereTheyAreLeftOut) {
  for (const nlohmann::json& keys : std::initializer_list<nlohmann::json>{
           {{"repetition_penalty", "abc"}}, {{"bad_words_ids", {{-1}}}}, {{"min_length", true}}}) {
    const LoadedModel loaded = with_rules(keys);
    ASSERT_EQ(warnings_of(loaded).size(), 1U) << keys;
    const std::string text = warnings_of(loaded)[0];
    EXPECT_NE(text.find("generation_config.json: " + keys.begin().key()), std::string::npos) << text;
    EXPECT_NE(text.find("; what the file asks for is left out here, and assay generate"), std::string::npos);
    const std::vector<TokenId> prompt = {5, 9, 13, 9, 13, 2};
    TimeOptions options{.max_new_tokens = 3, .has_warm_up = false};
    EXPECT_EQ(time_generate(loaded, prompt, options).ids.size(), 3U);
    options.follows_generation_config = true;
    EXPECT_THROW(time_generate(loaded, prompt, options), Error);
  }
}

// As Transformers takes them: what suppresses a token that there is not suppresses nothing.
TEST_F(GenerationRulesOf, SuppressedIdsOutsideTheVocabularyChangeNothing) {
  const LoadedModel loaded = with_rules(
      {{"suppress_tokens", {-1, 100000}}, {"begin_suppress_tokens", {100000}}, {"eos_token_id", 1}});
  const std::vector<TokenId> prompt = {5, 9, 13, 9, 13, 2};
  TimeOptions options{.max_new_tokens = 3, .has_warm_up = false};
  options.follows_generation_config = true;
  EXPECT_EQ(time_generate(loaded, prompt, options).ids, (std::vector<TokenId>{47, 18, 19}));
}

TEST_F(GenerationRulesOf, WhereNoTokenIsLeft) {
  std::vector<TokenId> every;
  const LoadedModel plain = with_rules({{"eos_token_id", 2}});
  for (TokenId id = 0; id < plain.model->spec().vocab; ++id) every.push_back(id);
  const LoadedModel loaded = with_rules({{"suppress_tokens", every}});
  TimeOptions options{.max_new_tokens = 2, .has_warm_up = false};
  options.follows_generation_config = true;
  EXPECT_THROW(time_generate(loaded, std::vector<TokenId>{1, 2}, options), Error);
}

}  // namespace
}  // namespace assay
