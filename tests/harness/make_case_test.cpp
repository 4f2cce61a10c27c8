// Cases made of prompts: both sides of the context's limit, and the ids of a length.
#include "assay/harness/make_case.h"

#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/text/tokenizer.h"
#include "support/fixtures.h"

namespace assay {
namespace {

class MadeCases : public testing::Test {
 protected:
  MadeCases() {
    context_.context_length = 20;
    context_.baseline.threads = 3;
    context_.tokenizer =
        std::make_shared<const Tokenizer>(Tokenizer::load(test::fixture_model("with_tokenizer")));
  }
  Case fitted(std::vector<Prompt> prompts, std::int64_t new_tokens) {
    Case spec = baseline_case(context_, Scenario::lengths, "a label", std::move(prompts), new_tokens);
    fit_context(context_, spec);
    return spec;
  }
  ExperimentContext context_;
};

TEST_F(MadeCases, AreOfTheBaseline) {
  const Case spec = baseline_case(context_, Scenario::kv_cache, "a label", {"one", "two"}, 7);
  EXPECT_EQ(spec.scenario, Scenario::kv_cache);
  EXPECT_EQ(spec.label, "a label");
  EXPECT_EQ(spec.configuration, context_.baseline);
  EXPECT_EQ(spec.prompts, (std::vector<Prompt>{"one", "two"}));
  EXPECT_EQ(spec.new_tokens, 7);
  EXPECT_EQ(spec.batch_size, 0);
  EXPECT_TRUE(spec.uses_cache);
}

TEST_F(MadeCases, AreCutWhereTheyExceedTheContext) {
  const std::vector<TokenId> six(6, 1), seven(7, 1), nine(9, 1);
  EXPECT_EQ(fitted({six}, 14).truncation, Truncation::none);
  EXPECT_TRUE(fitted({six}, 14).warnings.empty());
  const Case cut = fitted({six, seven, nine}, 14);
  EXPECT_EQ(cut.truncation, Truncation::left);
  ASSERT_EQ(cut.warnings.size(), 1U) << "the first that is too long";
  EXPECT_EQ(cut.warnings[0].kind, WarningKind::prompt_truncated);
  EXPECT_EQ(
      cut.warnings[0].text,
      "a prompt of 7 tokens was cut on the left, because it and 14 new tokens exceed the context of 20");
  const std::string text = "a text";
  const auto tokens = static_cast<std::int64_t>(context_.tokenizer->encode(text).size());
  ASSERT_LT(tokens, 20);
  EXPECT_TRUE(fitted({text}, 20 - tokens).warnings.empty());
  EXPECT_EQ(fitted({text}, 21 - tokens).warnings.size(), 1U);
}

TEST_F(MadeCases, ShowTheirPromptsAsTextOrIds) {
  EXPECT_EQ(shown("a text"), "a text");
  EXPECT_EQ(shown(std::vector<TokenId>{5, 6, 7}), "ids 5 6 7");
}

TEST_F(MadeCases, IdsOfALengthRepeatTheText) {
  const std::vector<TokenId> base = context_.tokenizer->encode("ab cd", false);
  ASSERT_GE(base.size(), 2U);
  const auto n = static_cast<std::int64_t>(base.size());
  std::vector<TokenId> twice = base;
  twice.insert(twice.end(), base.begin(), base.end());
  EXPECT_EQ(ids_of_length(context_, "ab cd", n), base);
  EXPECT_EQ(ids_of_length(context_, "ab cd", 2 * n), twice);
  twice.pop_back();
  EXPECT_EQ(ids_of_length(context_, "ab cd", 2 * n - 1), twice);
  EXPECT_EQ(ids_of_length(context_, "ab cd", 1), std::vector<TokenId>{base.front()});
}

// What stands before a prompt stands there once.
TEST_F(MadeCases, IdsOfALengthBeginOnce) {
  context_.tokenizer =
      std::make_shared<const Tokenizer>(Tokenizer::load(test::fixture("tokenizers") / "llama2"));
  const std::vector<TokenId> base = context_.tokenizer->encode("ab", false);
  const auto bos = context_.tokenizer->bos_tokens();
  ASSERT_EQ(bos.size(), 1U);
  std::vector<TokenId> expected{bos[0]};
  for (int i = 0; i < 2; ++i) expected.insert(expected.end(), base.begin(), base.end());
  EXPECT_EQ(ids_of_length(context_, "ab", static_cast<std::int64_t>(expected.size())), expected);
  EXPECT_EQ(ids_of_length(context_, "ab", 1), std::vector<TokenId>{bos[0]});
}

TEST_F(MadeCases, WhatGivesNoTokensIsRefused) {
  const auto refusal = [&](const std::function<void()>& make) -> std::string {
    try {
      make();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([&] { ids_of_length(context_, "", 4); }),
            "the text that prompts are made of gives no tokens");
  EXPECT_EQ(refusal([&] { encode(context_, "a\xff"); }).rfind("prompt: ", 0), 0U)
      << refusal([&] { encode(context_, "a\xff"); });
  EXPECT_EQ(refusal([&] { ids_of_length(context_, "a\xff", 4); }).rfind("prompt: ", 0), 0U);
  EXPECT_EQ(encode(context_, "ab cd"), context_.tokenizer->encode("ab cd"));
  context_.tokenizer = nullptr;
  EXPECT_EQ(refusal([&] { encode(context_, "a"); }), "the model has no tokenizer, which a text needs");
}

}  // namespace
}  // namespace assay
