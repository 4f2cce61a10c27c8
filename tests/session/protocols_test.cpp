// Perplexities by each protocol against those of Transformers and lm-eval (tools/make_quality_fixtures.py).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/session/perplexity.h"
#include "assay/statistics/text_error.h"
#include "assay/text/tokenizer.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

class ProtocolsTest : public testing::TestWithParam<std::string> {
 protected:
  static nlohmann::json read_expected() {
    return nlohmann::json::parse(read_text_file(test::fixture("quality/expected.json")));
  }
  const LoadedModel loaded_ = load_model_and_tokenizer({test::fixture("quality/" + GetParam()).string()}, {});
  const std::filesystem::path text_ = test::fixture("quality/text.txt");
  const nlohmann::json expected_ = read_expected()[GetParam()];
  const bool is_llama_ = GetParam() == "llama";

  static void expect_close(double found, double wanted, const std::string& what) {
    EXPECT_NEAR(found / wanted, 1, 1e-5) << what << ": " << found << " against " << wanted;
  }
  CorpusScore scored(ScoreOptions options) { return score_file(loaded_, text_, options); }
};

TEST_P(ProtocolsTest, GiveTheGuidesFigure) {
  for (const auto& [context, stride] : {std::pair{64, 32}, {64, 64}, {48, 20}})
    for (const auto& [rule, name] : {std::pair{BosRule::none, "none"}, {BosRule::first, "first"}}) {
      if (rule == BosRule::first && !is_llama_) continue;  // the tokenizer of GPT-2 adds none
      const CorpusScore score = scored({.context = context, .stride = stride, .bos = rule});
      expect_close(score.score.protocol_perplexity,
                   expected_[fmt::format("hf {}/{} {}", context, stride, name)], score.score.protocol);
      EXPECT_EQ(score.score.protocol, fmt::format("hf context={} stride={}{}", context, stride,
                                                  rule == BosRule::first ? " bos=0" : ""));
    }
  const CorpusScore usual = scored({.context = 64});
  EXPECT_EQ(usual.score.protocol, is_llama_ ? "hf context=64 stride=32 bos=0" : "hf context=64 stride=32");
  EXPECT_EQ(usual.score.tokens, is_llama_ ? 1001 : 1000);
}

TEST_P(ProtocolsTest, GiveGptqsFigure) {
  const CorpusScore usual = scored({.protocol = Protocol::gptq});
  expect_close(usual.score.perplexity, expected_["gptq 64 first"], usual.score.protocol);
  EXPECT_EQ(usual.score.tokens_scored, expected_["gptq scored"]);
  EXPECT_EQ(usual.score.protocol, is_llama_ ? "gptq context=64 bos=0" : "gptq context=64 bos=none");
  const CorpusScore plain = scored({.protocol = Protocol::gptq, .bos = BosRule::none});
  expect_close(plain.score.perplexity, expected_["gptq 64 none"], plain.score.protocol);
}

TEST_P(ProtocolsTest, GiveLlamaCppsFigure) {
  const auto expect = [&](const CorpusScore& score, const nlohmann::json& wanted) {
    expect_close(score.score.perplexity, wanted["perplexity"], score.score.protocol);
    EXPECT_EQ(score.score.tokens_scored, wanted["scored"]);
    if (!wanted.contains("error")) return;
    std::vector<double> losses;
    for (const double value : score.score.log_probabilities) losses.push_back(-value);
    expect_close(*statistics::independent_error(losses) * score.score.perplexity, wanted["error"],
                 "its error");
  };
  const CorpusScore usual = scored({.context = 64, .protocol = Protocol::llama_cpp});
  expect(usual, expected_[is_llama_ ? "llama.cpp 64 replace" : "llama.cpp 64 none"]);
  EXPECT_EQ(usual.score.protocol,
            is_llama_ ? "llama.cpp context=64 bos=replace:0" : "llama.cpp context=64 bos=none");
  expect(scored({.context = 64, .protocol = Protocol::llama_cpp, .bos = BosRule::none}),
         expected_["llama.cpp 64 none"]);
  expect(scored({.context = 48, .stride = 16, .protocol = Protocol::llama_cpp, .bos = BosRule::none}),
         expected_["llama.cpp strided 48/16 none"]);
  if (is_llama_)
    expect(scored({.context = 48, .stride = 16, .protocol = Protocol::llama_cpp, .bos = BosRule::first}),
           expected_["llama.cpp strided 48/16 first"]);
}

TEST_P(ProtocolsTest, GiveLmEvalsFigures) {
  const auto expect = [](const CorpusScore& score, const nlohmann::json& wanted) {
    expect_close(score.log_likelihood(), wanted["log_likelihood"], score.score.protocol);
    expect_close(std::log(*score.word_perplexity()), std::log(wanted["word_perplexity"].get<double>()),
                 "logarithm of the word perplexity");
    expect_close(*score.byte_perplexity(), wanted["byte_perplexity"], "byte perplexity");
    expect_close(*score.bits_per_byte(), wanted["bits_per_byte"], "bits per byte");
  };
  const CorpusScore usual = scored({.protocol = Protocol::lm_eval});
  expect(usual, expected_["lm-eval"]["whole"]);
  EXPECT_EQ(usual.score.protocol,
            is_llama_ ? "lm-eval context=64 prefix=0 bos=0" : "lm-eval context=64 prefix=1 bos=none");
  EXPECT_EQ(usual.score.tokens_scored, is_llama_ ? 1001 : 1000);
  if (is_llama_)
    expect(scored({.protocol = Protocol::lm_eval, .bos = BosRule::none}),
           read_expected()["llama"]["lm-eval none"]["whole"]);
}

TEST_P(ProtocolsTest, ThroughDecodeGiveTheSame) {
  for (const Protocol protocol : {Protocol::llama_cpp, Protocol::lm_eval, Protocol::gptq}) {
    const CorpusScore prefill = scored({.context = 24, .protocol = protocol});
    const CorpusScore decode =
        scored({.context = 24, .through = ScoreThrough::decode, .batch = 7, .protocol = protocol});
    EXPECT_EQ(decode.score.log_probabilities, prefill.score.log_probabilities);
  }
}

INSTANTIATE_TEST_SUITE_P(Quality, ProtocolsTest, testing::Values("gpt2", "llama"));

class BosTest : public testing::Test {
 protected:
  CorpusScore scored(const std::string& model, const std::string& text, const ScoreOptions& options) {
    test::write_file(folder_.path() / "text.txt", text);
    return score_file(load_model_and_tokenizer({test::fixture("quality/" + model).string()}, {}),
                      folder_.path() / "text.txt", options);
  }
  static bool warns(const CorpusScore& score, std::string_view words) {
    for (const Warning& warning : score.warnings)
      if (warning.kind == WarningKind::bos_rule && warning.text.find(words) != std::string::npos) return true;
    return false;
  }
  const test::TemporaryFolder folder_;
  const std::string text_ = "The keeper of the lighthouse repaired the brass lamp without a word.";
};

TEST_F(BosTest, WarnsOfARuleThatTheTokenizerDoesNotHave) {
  EXPECT_TRUE(warns(scored("llama", text_, {.bos = BosRule::none}), "far too high"));
  EXPECT_FALSE(warns(scored("llama", text_, {}), ""));
  EXPECT_FALSE(warns(scored("gpt2", text_, {}), ""));
  EXPECT_TRUE(warns(scored("gpt2", text_, {.bos = BosRule::first}), "may not know it"));
}

TEST_F(BosTest, IsRefusedTwice) {
  for (const BosRule rule : {BosRule::first, BosRule::each, BosRule::replace})
    EXPECT_THROW(scored("llama", "<s>" + text_, {.bos = rule}), Error) << name_of(rule);
  const CorpusScore once = scored("llama", "<s>" + text_, {.bos = BosRule::none});
  EXPECT_EQ(once.score.loss, scored("llama", text_, {.bos = BosRule::first}).score.loss);
  // lm-eval's own tokenizer call adds none to such a text.
  EXPECT_EQ(scored("llama", "<s>" + text_, {.protocol = Protocol::lm_eval}).score.loss,
            scored("llama", text_, {.protocol = Protocol::lm_eval}).score.loss);
}

TEST_F(BosTest, RefusesWhatDoesNotGoTogether) {
  EXPECT_THROW(scored("llama", text_, {.protocol = Protocol::lm_eval, .bos = BosRule::each}), FieldError);
}

// llama.cpp's tool takes a special token that is spelled in the text for text; BOS stands before it all the
// same.
TEST_F(BosTest, SpecialTokensInTheTextAreTextToLlamaCpp) {
  const std::string text = text_ + "</s><s>" + text_ + text_;
  for (const char* model : {"gpt2", "llama"}) {
    SCOPED_TRACE(model);
    const bool has_bos = std::string(model) == "llama";
    const LoadedModel loaded =
        load_model_and_tokenizer({test::fixture(std::string("quality/") + model).string()}, {});
    const std::vector<TokenId> as_text = loaded.tokenizer->encode_as_text(text),
                               as_tokens = loaded.tokenizer->encode(text, false);
    ASSERT_GT(as_text.size(), as_tokens.size());
    const ScoreOptions llama_cpp{.context = 8, .protocol = Protocol::llama_cpp};
    const CorpusScore found = scored(model, text, llama_cpp);
    EXPECT_EQ(found.score.tokens, std::ssize(as_text) + (has_bos ? 1 : 0));
    ScoreOptions of_ids = llama_cpp;
    if (has_bos) of_ids.bos = BosRule::replace;
    EXPECT_EQ(found.score.loss, score_ids(loaded, as_text, of_ids).score.loss);
    for (const Protocol protocol : {Protocol::hf, Protocol::lm_eval, Protocol::gptq})
      EXPECT_EQ(scored(model, text, {.context = 8, .protocol = protocol}).score.tokens,
                std::ssize(as_tokens) + (has_bos ? 1 : 0))
          << name_of(protocol);
    // A text that begins with what spells BOS is no second one.
    EXPECT_EQ(scored(model, "<s>" + text, llama_cpp).score.tokens,
              std::ssize(loaded.tokenizer->encode_as_text("<s>" + text)) + (has_bos ? 1 : 0));
  }
}

}  // namespace
}  // namespace assay
