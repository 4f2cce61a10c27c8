// The beginning of a corpus is that of the whole text, whatever stands where pieces of the file meet.
#include "assay/session/corpus_beginning.h"

#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/sha256.h"
#include "assay/session/perplexity.h"
#include "assay/text/tokenizer.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;  // bytes that are read at once

class CorpusBeginningTest : public testing::Test {
 protected:
  std::filesystem::path written(const std::string& text) {
    const std::filesystem::path file = folder_.path() / "text.txt";
    write_file_atomically(file, text);
    return file;
  }
  const test::TemporaryFolder folder_;
};

TEST_F(CorpusBeginningTest, IsReadAsTheWhole) {
  for (const std::string middle : {"\r\n", "\r", "é", "水", "🙂", "\xEF\xBB\xBF", "\r\r\n"})
    for (std::size_t before = 0; before <= 4; ++before) {
      const std::string text =
          "\xEF\xBB\xBFx\r\n" + std::string(kPiece - 6 - before, 'a') + middle + "b\r\n" + middle + "\r";
      const std::filesystem::path file = written(text);
      const TextFile whole = read_corpus(file, Newlines::universal);
      const CorpusBeginning all = read_corpus_beginning(file, Newlines::universal, 2 * kPiece);
      EXPECT_TRUE(all.is_whole);
      EXPECT_EQ(all.read.text, whole.text) << before << middle;
      EXPECT_EQ(all.read.change, whole.change);
      const CorpusBeginning some = read_corpus_beginning(file, Newlines::universal, 100);
      EXPECT_FALSE(some.is_whole);
      EXPECT_TRUE(whole.text.starts_with(some.read.text));
      EXPECT_EQ(some.read.text.size(), 100U);
      EXPECT_EQ(some.sha256, sha256_hex(whole.text));
      EXPECT_EQ(read_corpus_beginning(file, Newlines::keep, 0).sha256, sha256_hex(text));
    }
}

TEST_F(CorpusBeginningTest, EndsBetweenCharacters) {
  EXPECT_EQ(read_corpus_beginning(written("aéb"), Newlines::universal, 2).read.text, "a");
  EXPECT_EQ(read_corpus_beginning(written("one two"), Newlines::universal, 5).read.text, "one");
  EXPECT_TRUE(read_corpus_beginning(written("one two"), Newlines::universal, 7).is_whole);
}

TEST_F(CorpusBeginningTest, RefusesWhatIsNoText) {
  const std::string long_text(kPiece - 1, 'a');
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "is empty"},
           {"\xEF\xBB\xBF", "is empty"},
           {long_text + "\xC3", fmt::format("not valid UTF-8 at byte {}", kPiece - 1)},
           {long_text + "\xC3(", fmt::format("not valid UTF-8 at byte {}", kPiece - 1)},
           {long_text + "é\xFF", fmt::format("not valid UTF-8 at byte {}", kPiece + 1)}})
    try {
      read_corpus_beginning(written(text), Newlines::universal, 8);
      ADD_FAILURE() << words;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
}

TEST_F(CorpusBeginningTest, GivesTheFirstTokensOfTheText) {
  const LoadedModel loaded = load_model_and_tokenizer({test::fixture("quality/llama").string()}, {});
  const std::string text = read_text_file(test::fixture("quality/text.txt"));
  const std::filesystem::path file = written(text + std::string(300, 'z') + text);
  const std::vector<TokenId> ids = loaded.tokenizer->encode(read_text_file(file));
  for (const std::int64_t count : {1, 2, 100, 700}) {
    const CorpusBeginning some = read_corpus_beginning(file, Newlines::universal, *loaded.tokenizer, count);
    EXPECT_EQ(first_ids(*loaded.tokenizer, some.read.text, count),
              std::vector<TokenId>(ids.begin(), ids.begin() + count));
  }
}

// The first tokens of a longer text are scored as a text of those tokens is.
TEST_F(CorpusBeginningTest, IsScoredAlone) {
  const LoadedModel loaded = load_model_and_tokenizer({test::fixture("quality/llama").string()}, {});
  const std::string text = read_text_file(test::fixture("quality/text.txt"));
  const std::filesystem::path file = written(text);
  const std::vector<TokenId> ids = loaded.tokenizer->encode(text, true);
  ScoreOptions options{.max_tokens = 300};
  const CorpusScore some = score_file(loaded, file, options);
  const CorpusScore alone = score_ids(loaded, {ids.begin(), ids.begin() + 301}, {});
  EXPECT_EQ(some.score.log_probabilities, alone.score.log_probabilities);
  EXPECT_EQ(some.score.tokens, 301) << "BOS is there, too";
  EXPECT_EQ(some.words, 0);
  EXPECT_TRUE(some.score.protocol.ends_with(" bos=0 first=300")) << some.score.protocol;
  EXPECT_EQ(some.corpus_sha256, sha256_hex(text));
  options.max_tokens = std::ssize(ids) - 1;
  const CorpusScore all = score_file(loaded, file, options), whole = score_file(loaded, file, {});
  EXPECT_EQ(all.score.protocol, whole.score.protocol);
  EXPECT_EQ(all.words, whole.words);
  EXPECT_EQ(all.score.log_probabilities, whole.score.log_probabilities);
}

}  // namespace
}  // namespace assay
