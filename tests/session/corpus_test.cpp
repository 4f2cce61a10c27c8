// WikiText's forms against lm-eval's detokenizer and the rows that the Hub has.
#include "assay/session/corpus.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/session/perplexity.h"
#include "assay/text/python_text.h"
#include "assay/text/wikitext.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

class CorpusTest : public testing::Test {
 protected:
  const nlohmann::json all_ = nlohmann::json::parse(read_text_file(test::fixture("quality/expected.json")));
  const nlohmann::json wanted_ = all_["corpora"];
  const std::string raw_ = wanted_["raw"];

  std::string jsonl_of_rows() const {
    std::string lines;
    for (const nlohmann::json& row : wanted_["rows"]) lines += nlohmann::json{{"text", row}}.dump() + "\n";
    return lines;
  }
};

TEST_F(CorpusTest, IsDetokenizedAsLmEvalDoes) {
  for (const nlohmann::json& one : wanted_["detokenized"]) {
    EXPECT_EQ(wikitext_detokenized(one[0].get<std::string>()), one[1].get<std::string>());
    EXPECT_EQ(count_words(one[0].get<std::string>()), one[2].get<std::int64_t>()) << one[0];
  }
}

TEST_F(CorpusTest, RowsGoBothWays) {
  const std::string rows = jsonl_of_rows();
  EXPECT_EQ(prepare_corpus(raw_, "f", false, CorpusForm::raw).content, raw_);
  EXPECT_EQ(prepare_corpus(rows, "f", true, CorpusForm::raw).content, raw_);
  EXPECT_EQ(prepare_corpus(raw_, "f", false, CorpusForm::joined).content, wanted_["joined"]);
  EXPECT_EQ(prepare_corpus(rows, "f", true, CorpusForm::joined).content, wanted_["joined"]);
  EXPECT_EQ(prepare_corpus("{\"text\": \"a\"}\n{\"text\": \"b\"}", "f", true, CorpusForm::raw).content,
            "a\nb\n");
}

TEST_F(CorpusTest, DocumentsBeginAtHeadings) {
  const auto documents = wikitext_documents(raw_);
  ASSERT_EQ(documents.size(), 2U);
  EXPECT_EQ(std::string(documents[0]) + std::string(documents[1]), raw_);
  EXPECT_TRUE(documents[1].starts_with(" = Second = "));
  EXPECT_EQ(wikitext_documents("no heading\n= = neither = =\n").size(), 1U);
  const PreparedCorpus corpus = prepare_corpus(raw_, "f", false, CorpusForm::lm_eval);
  EXPECT_EQ(corpus.documents, 2);
  const auto line = nlohmann::json::parse(corpus.content.substr(0, corpus.content.find('\n')));
  EXPECT_EQ(line["words"], count_words(documents[0]));
  EXPECT_EQ(line["bytes"], documents[0].size());
  EXPECT_EQ(line["text"], wikitext_detokenized(documents[0]));
}

// lm-eval's figures of documents, words counted before detokenizing.
TEST_F(CorpusTest, PreparesWhatLmEvalScores) {
  const test::TemporaryFolder folder;
  const PreparedCorpus corpus = prepare_corpus(read_text_file(test::fixture("quality/pages.jsonl")),
                                               "pages.jsonl", true, CorpusForm::lm_eval);
  EXPECT_EQ(corpus.documents, 6);
  test::write_file(folder.path() / "pages.jsonl", corpus.content);
  for (const char* name : {"gpt2", "llama"}) {
    const CorpusScore score =
        score_file(load_model_and_tokenizer({test::fixture("quality").string() + "/" + name}, {}),
                   folder.path() / "pages.jsonl", {.protocol = Protocol::lm_eval});
    const nlohmann::json wanted = all_[name]["lm-eval"]["pages"];
    EXPECT_NEAR(score.log_likelihood() / wanted["log_likelihood"].get<double>(), 1, 1e-5);
    EXPECT_NEAR(*score.byte_perplexity() / wanted["byte_perplexity"].get<double>(), 1, 1e-5);
    EXPECT_NEAR(std::log(*score.word_perplexity()) / std::log(wanted["word_perplexity"].get<double>()), 1,
                1e-5);
    EXPECT_EQ(score.texts, 6);
  }
}

TEST_F(CorpusTest, RefusesWhatIsNoText) {
  for (const CorpusForm form : {CorpusForm::raw, CorpusForm::joined, CorpusForm::lm_eval}) {
    EXPECT_THROW(prepare_corpus("PAR1\x15\x04", "f", false, form), Error);
    EXPECT_THROW(prepare_corpus("", "f", false, form), Error);
    EXPECT_THROW(prepare_corpus("a\xff", "f", false, form), Error);
    EXPECT_THROW(prepare_corpus("{\"row\": 1}", "f", true, form), Error);
    EXPECT_EQ(corpus_form_from_name(name_of(form)), form);
  }
  EXPECT_THROW(corpus_form_from_name("tokens"), FieldError);
}

}  // namespace
}  // namespace assay
