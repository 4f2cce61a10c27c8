// What a perplexity says of the tokens that stand around its text.
#include "assay/session/perplexity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "assay/base/json.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

TEST(ScoreFile, NamesTheTokensAroundTheText) {
  const test::TemporaryFolder folder;
  const std::filesystem::path model = folder.path() / "model";
  std::filesystem::copy(test::demo_model(), model, std::filesystem::copy_options::recursive);
  test::write_file(folder.path() / "text.txt", "The ferry had been kept for many years.");
  const auto scored = [&] {
    return score_file(load_model_and_tokenizer({model.string()}, {}), folder.path() / "text.txt").score;
  };
  const Score plain = scored();
  EXPECT_EQ(plain.protocol.find("bos"), std::string::npos) << plain.protocol;

  Json file = read_json_object(model / "tokenizer.json");
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
             special = {{"SpecialToken", {{"id", "e"}, {"type_id", 0}}}};
  file["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", Json::array({special, text, special, special})},
                            {"special_tokens", {{"e", {{"id", "e"}, {"ids", {0}}}}}}};
  test::write_file(model / "tokenizer.json", file.dump());
  const Score around = scored();
  EXPECT_EQ(around.protocol, plain.protocol + " bos=0 eos=0,0");
  EXPECT_EQ(around.log_probabilities.size(), plain.log_probabilities.size() + 3);
}

// The perplexity of a text does not depend on the system that its file comes from.
TEST(ScoreFile, LineEndsAndByteOrderMarks) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "text.txt";
  const auto scored = [&](std::string_view text, Newlines newlines) {
    test::write_file(file, text);
    return score_file(load_model_and_tokenizer({test::demo_model().string()}, {.newlines = newlines}), file);
  };
  const CorpusScore unix = scored("It was dark.\n\nShe said\nno.\n", Newlines::universal);
  EXPECT_TRUE(unix.warnings.empty());
  for (const char* text : {"It was dark.\r\n\r\nShe said\r\nno.\r\n", "It was dark.\r\rShe said\rno.\r",
                           "\xEF\xBB\xBFIt was dark.\n\nShe said\nno.\n"}) {
    const CorpusScore other = scored(text, Newlines::universal);
    EXPECT_EQ(other.score.perplexity, unix.score.perplexity);
    EXPECT_EQ(other.corpus_sha256, unix.corpus_sha256);
    ASSERT_EQ(other.warnings.size(), 1U);
    EXPECT_EQ(other.warnings[0].kind, WarningKind::line_ends);
    EXPECT_TRUE(other.warnings[0].text.starts_with("text.txt: ")) << other.warnings[0].text;
    const CorpusScore kept = scored(text, Newlines::keep);
    EXPECT_NE(kept.score.perplexity, unix.score.perplexity);
    EXPECT_TRUE(std::ranges::none_of(
        kept.warnings, [](const Warning& warning) { return warning.kind == WarningKind::line_ends; }));
  }
}

}  // namespace
}  // namespace assay
