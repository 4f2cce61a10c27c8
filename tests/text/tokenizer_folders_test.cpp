// Folders with Unigram, WordPiece and SentencePiece's tokenizer.model, and files beside tokenizer.json, give
// the ids and texts of Transformers' AutoTokenizer (tools/make_sentencepiece_fixtures.py).
#include <bit>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "assay/base/sha256.h"
#include "assay/text/utf8.h"
#include "library_digest.h"
#include "small_tokenizer.h"
#include "support/paths.h"

namespace assay {
namespace {

const std::filesystem::path kFolderFixtures = std::filesystem::path(source_folder()) / "tests/fixtures";

const Json& expected_of_folders() {
  static const Json file = read_json_object(kFolderFixtures / "tokenizer_folders.json");
  return file;
}

const Json& texts_of_folders() {
  static const Json file = read_json_object(kFolderFixtures / "tokenizer_cases.json");
  return file;
}

std::string streamed_text(const Tokenizer& tokenizer, const Ids& ids, bool skips) {
  StreamDecoder decoder(tokenizer, skips);
  std::string joined;
  for (const TokenId id : ids) joined += decoder.push(id);
  return joined + decoder.finish();
}

class TokenizerFolders : public testing::TestWithParam<std::string> {
 protected:
  const Tokenizer tokenizer_ = Tokenizer::load(kFolderFixtures / "tokenizer_folders" / GetParam());
};

TEST_P(TokenizerFolders, GiveTheIdsAndTextsOfTransformers) {
  const Json& texts = expected_of_folders().at("texts").at(GetParam());
  EXPECT_GT(texts.size(), 80U);
  for (const Json& item : texts) {
    const std::string text = item[0];
    const Ids ids = item[1];
    SCOPED_TRACE(item[0].dump());
    EXPECT_EQ(Json(tokenizer_.encode(text)).dump(), item[1].dump());
    EXPECT_EQ(tokenizer_.decode(ids), item[2]);
    EXPECT_EQ(tokenizer_.decode(ids, true), item[3]);
    EXPECT_EQ(streamed_text(tokenizer_, ids, false), item[2]);
    EXPECT_EQ(streamed_text(tokenizer_, ids, true), item[3]);
  }
}

TEST_P(TokenizerFolders, GiveTheIdsOfHardTexts) {
  std::map<std::string, Sha256> categories;
  for (const Json& item : texts_of_folders().at("cases"))
    add_digested(categories[item.at("category")], tokenizer_, text_of(item.at("text")));
  const Json& expected = expected_of_folders().at("cases").at(GetParam());
  EXPECT_EQ(categories.size(), expected.size());
  for (auto& [category, sha] : categories)
    EXPECT_EQ(sha.hex().substr(0, 8), expected.at(category)) << category;
}

TEST_P(TokenizerFolders, GiveTheIdsOfAllCodePoints) {
  const Json& expected = expected_of_folders().at("sweep").at(GetParam());
  EXPECT_GT(expected.size(), 10U);
  for (const auto& [number, digest] : expected.items()) {
    const Json& block = texts_of_folders().at("sweep").at(std::stoul(number));
    Sha256 sha;
    add_digested(sha, tokenizer_, text_of_block(block));
    EXPECT_EQ(sha.hex().substr(0, 8), digest) << "from " << block.at("first");
  }
}

INSTANTIATE_TEST_SUITE_P(Text, TokenizerFolders,
                         testing::Values("unigram", "unigram_bytes", "word_piece", "word_piece_cased",
                                         "llama", "llama_legacy", "llama_no_prefix", "gemma", "t5", "any_bpe",
                                         "any_unigram"),
                         [](const auto& of) { return of.param; });

TEST(SpecialTokens, AreThoseOfTransformers) {
  const Json file = read_json_object(kFolderFixtures / "special_tokens.json");
  const Json base = read_json_object(kFolderFixtures / "tokenizers/one_word/tokenizer.json");
  EXPECT_GT(file.at("cases").size(), 25U);
  for (const Json& item : file.at("cases")) {
    SCOPED_TRACE(item.at("name"));
    const TemporaryFolder folder;
    Json tokenizer_file = base;
    for (const auto& [key, value] : item.at("patch").items()) tokenizer_file[key] = value;
    folder.write("tokenizer.json", tokenizer_file.dump());
    for (const auto& [name, content] : item.at("files").items()) folder.write(name, content.dump());
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    const Ids ids = item.at("ids");
    EXPECT_EQ(Json(tokenizer.encode(item.at("text").get<std::string>())).dump(), item.at("ids").dump());
    EXPECT_EQ(tokenizer.decode(ids), item.at("decoded"));
    EXPECT_EQ(tokenizer.decode(ids, true), item.at("skipped"));
  }
}

struct ClassCase {
  const char *config, *model_type;
  Ids two, around, blank;  // ids of "  two", "a </s> b" and " "
};

// Transformers 5.24 takes vocabulary, merges and post-processor of a tokenizer.json, whose normalizer here
// puts a mark before every text, and for some models the file as it is, whatever class is named.
TEST(TokenizerClass, LlamaHasRulesOfItsOwn) {
  const Json file = read_json_object(kFolderFixtures / "tokenizers/llama2/tokenizer.json");
  const ClassCase cases[] = {
      {R"({"tokenizer_class":"LlamaTokenizer"})",
       "llama",
       {1, 317, 318, 313, 305},
       {1, 320, 317, 2, 329},
       {1, 317}},
      {R"({"tokenizer_class":"LlamaTokenizerFast","add_prefix_space":false})",
       "llama",
       {1, 317, 318, 313, 305},
       {1, 291, 317, 2, 329},
       {1, 317}},
      {R"({"tokenizer_class":"LlamaTokenizer"})",
       "granite",
       {1, 520, 318, 313, 305},
       {1, 320, 317, 2, 317, 329},
       {1, 520}},
      {R"({"tokenizer_class":"PreTrainedTokenizerFast"})",
       "llama",
       {1, 520, 318, 313, 305},
       {1, 320, 317, 2, 317, 329},
       {1, 520}},
  };
  for (const ClassCase& each : cases) {
    SCOPED_TRACE(std::string(each.config) + each.model_type);
    const TemporaryFolder folder;
    folder.write("tokenizer.json", file.dump());
    folder.write("tokenizer_config.json", each.config);
    folder.write("config.json", Json{{"model_type", each.model_type}}.dump());
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    EXPECT_EQ(tokenizer.encode("  two"), each.two);
    EXPECT_EQ(tokenizer.encode("a </s> b"), each.around);
    EXPECT_EQ(tokenizer.encode(" "), each.blank);
    const bool keeps_first = std::string_view(each.config).find("add_prefix_space") != std::string_view::npos;
    EXPECT_EQ(tokenizer.decode(Ids{317, 318, 313, 305}), keeps_first ? "  two" : " two");
  }
}

TEST(TokenizerClass, WarnsThatTextsAreNotCleanedUp) {
  const TemporaryFolder folder;
  folder.write("tokenizer_config.json", R"({"clean_up_tokenization_spaces":true})");
  for (const char* name : {"word_piece", "unigram"}) {
    const std::filesystem::path from = kFolderFixtures / "tokenizer_folders" / name / "tokenizer.json";
    folder.write("tokenizer.json", read_json_object(from).dump());
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    ASSERT_EQ(tokenizer.warnings().size(), 1U) << name;
    EXPECT_TRUE(holds(tokenizer.warnings()[0], "clean_up_tokenization_spaces")) << tokenizer.warnings()[0];
  }
  folder.write("tokenizer.json", small_tokenizer().dump());  // Transformers cleans up no text of BPE
  EXPECT_TRUE(Tokenizer::load(folder.path()).warnings().empty());
}

TEST(SpecialTokens, WarnOfAnotherId) {
  Json file = small_tokenizer();
  file["added_tokens"] = {added_token("<|x|>", 300)};
  const Tokenizer tokenizer = load_json(file);
  EXPECT_EQ(tokenizer.encode("<|x|>"), (Ids{262}));
  ASSERT_EQ(tokenizer.warnings().size(), 1U);
  EXPECT_TRUE(holds(tokenizer.warnings()[0], "token '<|x|>' has id 262, as Transformers counts, and not 300"))
      << tokenizer.warnings()[0];
  file["added_tokens"] = {added_token("<|x|>", 262)};
  EXPECT_TRUE(load_json(file).warnings().empty());
}

TEST(SpecialTokens, AnIdWithoutATokenIsNoText) {
  const Tokenizer tokenizer = load_json(small_tokenizer());
  EXPECT_EQ(tokenizer.decode(Ids{259, 262, 1000000, -1, 261}), "hello's");
  EXPECT_EQ(tokenizer.token_text(262), "");
}

}  // namespace
}  // namespace assay
