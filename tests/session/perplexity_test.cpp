// What a perplexity says of the tokens that stand around its text.
#include "assay/session/perplexity.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace assay
