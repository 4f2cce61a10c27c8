// Where a tokenizer.json disagrees with the class of Transformers that reads it, the class has its way
// (tools/make_tokenizer_class_fixtures.py).
#include <filesystem>
#include <string>

#include "assay/text/utf8.h"
#include "small_tokenizer.h"
#include "support/paths.h"

namespace assay {
namespace {

const std::filesystem::path kClassFixtures = std::filesystem::path(source_folder()) / "tests/fixtures";

Tokenizer load_case(const Json& item) {
  const std::string base = item.at("base");
  Json file = read_json_object(kClassFixtures / "tokenizers" / base / "tokenizer.json");
  if (base == "word_suffix") {
    file["normalizer"] = nullptr;
    file["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
    file["decoder"] = {{"type", "Fuse"}};
  }
  const TemporaryFolder folder;
  folder.write("tokenizer.json", file.dump());
  folder.write("tokenizer_config.json", item.at("config").dump());
  folder.write("config.json", item.at("model").dump());
  return Tokenizer::load(folder.path());
}

TEST(TokenizerClass, GivesTheIdsOfTransformers) {
  const Json cases = read_json_object(kClassFixtures / "tokenizer_classes.json").at("cases");
  EXPECT_GT(cases.size(), 25U);
  for (const Json& item : cases) {
    const Tokenizer tokenizer = load_case(item);
    for (const Json& text : item.at("texts")) {
      SCOPED_TRACE(item.at("name").get<std::string>() + ": " + text[0].dump());
      EXPECT_EQ(Json(tokenizer.encode(text[0].get<std::string>())).dump(), text[1].dump());
      EXPECT_EQ(replace_malformed_utf8(tokenizer.decode(text[1].get<Ids>())), text[2].get<std::string>());
    }
    for (const std::string& warning : tokenizer.warnings())
      EXPECT_TRUE(holds(warning, "which leave out its pre_tokenizer Split: token ids are those of"))
          << warning;
  }
}

TEST(TokenizerClass, WarnsWhereItsRulesAreNotKnown) {
  const Json config = {{"tokenizer_class", "XGLMTokenizer"}}, model = {{"model_type", "xglm"}};
  const Tokenizer tokenizer = load_case({{"base", "one_word"}, {"config", config}, {"model", model}});
  ASSERT_EQ(tokenizer.warnings().size(), 1U);
  EXPECT_TRUE(
      holds(tokenizer.warnings()[0],
            "tokenizer_config.json: Transformers 5 builds the tokenizer by the rules of XGLMTokenizer"))
      << tokenizer.warnings()[0];
  const Json byte_class = {{"tokenizer_class", "GPT2Tokenizer"}};
  const Tokenizer other = load_case({{"base", "one_word"}, {"config", byte_class}, {"model", model}});
  EXPECT_EQ(other.warnings().size(), 1U);
}

// Files of these types name classes of which Transformers takes none.
TEST(TokenizerClass, OfSomeTypesIsTheirOwnWhateverTheFilesName) {
  const std::string text = "cafe\u0301 12";
  for (const std::string type : {"qwen2", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text"}) {
    const auto ids = [&](const Json& config) {
      const Json model = {{"model_type", type}};
      return load_case({{"base", "llama3"}, {"config", config}, {"model", model}}).encode(text);
    };
    const Json named = {{"tokenizer_class", "GPT2Tokenizer"}};
    EXPECT_EQ(ids(named), ids(Json::object())) << type;
  }
}

// As SmolLM2's files: its class of Transformers 5 does not split at digits.
TEST(TokenizerClass, WarnsOfStepsOfTheFileThatItLeavesOut) {
  const auto warnings_of = [](const std::string& name, const Json& steps) {
    Json file = read_json_object(kClassFixtures / "tokenizers/qwen2/tokenizer.json");
    file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
    const TemporaryFolder folder;
    folder.write("tokenizer.json", file.dump());
    const Json config = {{"tokenizer_class", name}};
    folder.write("tokenizer_config.json", config.dump());
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    return std::vector<std::string>(tokenizer.warnings().begin(), tokenizer.warnings().end());
  };
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}},
             digits = {{"type", "Digits"}, {"individual_digits", true}};
  const auto warnings = warnings_of("GPT2Tokenizer", {digits, bytes});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(
      holds(warnings[0], "by the rules of GPT2Tokenizer, which leave out its pre_tokenizer Digits: token"))
      << warnings[0];
  EXPECT_TRUE(warnings_of("GPT2Tokenizer", Json::array({bytes})).empty());
  EXPECT_TRUE(warnings_of("CohereTokenizer", {digits, bytes}).empty());
  EXPECT_EQ(warnings_of("Qwen2Tokenizer", {digits, bytes}).size(), 1U);
}

}  // namespace
}  // namespace assay
