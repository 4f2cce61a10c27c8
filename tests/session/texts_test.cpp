// Several texts that are scored one by one: sentences, and documents of a JSONL file.
#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/session/perplexity.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

class TextsTest : public testing::Test {
 protected:
  std::filesystem::path written(const std::string& name, const std::string& text) {
    test::write_file(folder_.path() / name, text);
    return folder_.path() / name;
  }
  const test::TemporaryFolder folder_;
  const LoadedModel loaded_ = load_model_and_tokenizer({test::fixture("quality/gpt2").string()}, {});
};

TEST_F(TextsTest, SentencesWeighByTheirTokens) {
  const std::string one = "The river followed the old ferry.",
                    two = "Her brother sold it without a word today.";
  const Score a = score_file(loaded_, written("a.txt", one)).score,
              b = score_file(loaded_, written("b.txt", two)).score;
  const CorpusScore both = score_sentences(loaded_, written("both.txt", one + "\n\n" + two + "\nx\n"));
  EXPECT_EQ(both.texts, 2) << "a line of one token predicts nothing";
  EXPECT_EQ(both.score.tokens_scored, a.tokens_scored + b.tokens_scored);
  const double loss =
      (a.loss * static_cast<double>(a.tokens_scored) + b.loss * static_cast<double>(b.tokens_scored)) /
      static_cast<double>(a.tokens_scored + b.tokens_scored);
  EXPECT_NEAR(both.score.loss, loss, 1e-12);
  EXPECT_NEAR(both.score.perplexity, std::exp(loss), 1e-9);
  EXPECT_EQ(both.score.protocol, "hf context=64 stride=32 texts=2");
  EXPECT_THROW(score_sentences(loaded_, written("none.txt", "x\n\n")), Error);
}

TEST_F(TextsTest, DocumentsHaveWordsAndBytesOfTheirOwn) {
  const CorpusScore score =
      score_file(loaded_,
                 written("d.jsonl",
                         "{\"text\": \"The river  sold it.\"}\n\n{\"page\": \"A map \\u00e9t\\u00e9\", "
                         "\"words\": 40, \"bytes\": 90}\n"),
                 {.protocol = Protocol::lm_eval});
  EXPECT_EQ(score.texts, 2);
  EXPECT_EQ(score.words, 44);
  EXPECT_EQ(score.bytes, 19 + 90);
  EXPECT_NEAR(*score.word_perplexity(), std::exp(-score.log_likelihood() / 44), 1e-6);
}

TEST_F(TextsTest, ALineThatIsNoDocumentIsNamed) {
  for (const auto& [text, words] :
       {std::pair{"{\"text\": \"a\"}\n{\"prompt\": 1}\n", "d.jsonl:2: expected a key \"text\" or \"page\""},
        {"{\"text\": 3}", "d.jsonl:1: text: expected"},
        {"[1]", "d.jsonl:1: expected an object"},
        {"{\"text\": \"a\"", "d.jsonl:1"},
        {"\n \n", "expected a JSON object on each line"}})
    try {
      score_file(loaded_, written("d.jsonl", text));
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace assay
