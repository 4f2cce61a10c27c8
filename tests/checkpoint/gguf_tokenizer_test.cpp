// Tokenizers of GGUF files: ids of the libraries that they were made with, and files that cannot be read.
#include "assay/checkpoint/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/json.h"
#include "assay/text/tokenizer.h"
#include "support/fixtures.h"
#include "support/gguf_writer.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

using test::GgufBytes;

class GgufTokens : public testing::TestWithParam<const char*> {};

TEST_P(GgufTokens, GiveTheLibrarysIds) {
  const auto path = test::fixture("gguf") / GetParam();
  const Tokenizer tokenizer = Tokenizer::from_files(gguf_tokenizer_files(GgufFile(path.string() + ".gguf")));
  const Json cases = Json::parse(read_text_file(path.string() + ".json"));
  ASSERT_GT(cases.size(), 10U);
  for (const Json& each : cases)
    EXPECT_EQ(tokenizer.encode(each.at("text").get<std::string>()),
              each.at("ids").get<std::vector<TokenId>>())
        << each.at("text");
}
INSTANTIATE_TEST_SUITE_P(OfFixtures, GgufTokens,
                         testing::Values("tokens_llama3", "tokens_qwen2", "tokens_sentencepiece"));

GgufBytes some_tokens(const char* model = "gpt2") {
  GgufBytes file;
  file.text("tokenizer.ggml.model", model)
      .texts("tokenizer.ggml.tokens", {"a", "b", "ab", "<s>", "</s>", "[PAD5]"})
      .numbers<std::int32_t>("tokenizer.ggml.token_type", test::kGgufI32, {1, 1, 1, 3, 3, 5})
      .number("tokenizer.ggml.bos_token_id", 3)
      .number("tokenizer.ggml.eos_token_id", 4);
  return file;
}

std::string refusal_of_tokens(const GgufBytes& bytes) {
  const test::TemporaryFolder folder;
  test::write_file(folder.path() / "m.gguf", bytes.bytes());
  try {
    Tokenizer::from_files(gguf_tokenizer_files(GgufFile(folder.path() / "m.gguf")));
  } catch (const Error& error) {
    return std::string(error.what()).substr((folder.path() / "m.gguf").string().size());
  }
  return "no error";
}

TokenizerFiles files_of(const GgufBytes& bytes) {
  const test::TemporaryFolder folder;
  test::write_file(folder.path() / "m.gguf", bytes.bytes());
  return gguf_tokenizer_files(GgufFile(folder.path() / "m.gguf"));
}

TEST(GgufTokenizer, AddsWhatTheFileSays) {
  GgufBytes file = some_tokens();
  file.texts("tokenizer.ggml.merges", {"a b"}).text("tokenizer.ggml.pre", "llama-bpe");
  file.text("tokenizer.chat_template", "{{ x }}");
  const Tokenizer begun = Tokenizer::from_files(files_of(file));
  EXPECT_EQ(begun.encode("ab"), (std::vector<TokenId>{3, 2}));  // llama-bpe alone adds one
  EXPECT_EQ(begun.encode("a</s>", false), (std::vector<TokenId>{0, 4}));
  EXPECT_TRUE(begun.is_special(4));
  EXPECT_EQ(begun.vocab_size(), 5);  // unused tokens at the end are none
  file.value("tokenizer.ggml.add_bos_token", test::kGgufBool, test::raw<std::uint8_t>(0))
      .value("tokenizer.ggml.add_eos_token", test::kGgufBool, test::raw<std::uint8_t>(1));
  const TokenizerFiles files = files_of(file);
  EXPECT_EQ(files.config.content.at("chat_template"), "{{ x }}");
  EXPECT_EQ(files.config.content.at("eos_token"), "</s>");
  EXPECT_EQ(Tokenizer::from_files(files).encode("ab"), (std::vector<TokenId>{2, 4}));
}

// Added tokens behind all others are no tokens of the model, and a merge may begin with a blank.
TEST(GgufTokenizer, KeepsAddedTokensApart) {
  GgufBytes file = some_tokens();
  file.texts("tokenizer.ggml.merges", {"a b", "  a"});
  const Json model = files_of(file).tokenizer->content.at("model");
  EXPECT_EQ(model.at("vocab"), (Json{{"a", 0}, {"b", 1}, {"ab", 2}}));
  EXPECT_EQ(model.at("merges"), Json::array({Json::array({"a", "b"}), Json::array({" ", "a"})}));
}

// -1, as it is written in 32 bits.
TEST(GgufTokenizer, AnIdOfMinusOneIsNone) {
  GgufBytes file = some_tokens();
  file.texts("tokenizer.ggml.merges", {"a b"}).number("tokenizer.ggml.padding_token_id", 0xFFFF'FFFF);
  EXPECT_FALSE(files_of(file).config.content.contains("pad_token"));
}

// Rows that only fill a matrix up may have one name.
TEST(GgufTokenizer, UnusedTokensMayBeAlike) {
  const auto file_of_types = [](const std::vector<std::int32_t>& types) {
    GgufBytes file;
    file.text("tokenizer.ggml.model", "gpt2")
        .texts("tokenizer.ggml.tokens", {"a", "-", "-", "b"})
        .texts("tokenizer.ggml.merges", {})
        .numbers("tokenizer.ggml.token_type", test::kGgufI32, types);
    return file;
  };
  EXPECT_EQ(files_of(file_of_types({1, 5, 5, 1})).tokenizer->content.at("model").at("vocab"),
            (Json{{"a", 0}, {"-", 1}, {"b", 3}}));
  EXPECT_EQ(refusal_of_tokens(file_of_types({1, 1, 1, 1})),
            ": key 'tokenizer.ggml.tokens': token 2: '-' stands twice");
}

// The tokens of a text by a name of tokenizer.ggml.pre: none reaches over the end of a word.
std::string cut_by(const char* pre, const std::vector<std::string>& tokens,
                   const std::vector<std::string>& merges, std::string_view text) {
  GgufBytes file;
  file.text("tokenizer.ggml.model", "gpt2")
      .text("tokenizer.ggml.pre", pre)
      .texts("tokenizer.ggml.tokens", tokens)
      .texts("tokenizer.ggml.merges", merges);
  const Tokenizer tokenizer = Tokenizer::from_files(files_of(file));
  std::string cut;
  for (const TokenId id : tokenizer.encode(text, false))
    cut += (cut.empty() ? "" : "|") + tokens[static_cast<std::size_t>(id)];
  return cut;
}

// By hand from the regular expressions of llama.cpp.
TEST(GgufTokenizer, EachNameCutsDigitsInItsOwnWay) {
  for (const auto& [pre, expected] : {std::pair{"gpt-2", "12345"},
                                      {"bloom", "12345"},
                                      {"starcoder", "1|2|3|4|5"},
                                      {"qwen2", "1|2|3|4|5"},
                                      {"qwen35", "1|2|3|4|5"},
                                      {"tekken", "1|2|3|4|5"},
                                      {"llama-bpe", "123|45"},
                                      {"gpt-4o", "123|45"},
                                      {"deepseek-v3", "123|45"},
                                      {"falcon", "123|45"},
                                      {"default", "123|45"}})
    EXPECT_EQ(cut_by(pre, {"1", "2", "3", "4", "5", "12", "123", "1234", "12345", "45"},
                     {"1 2", "12 3", "123 4", "1234 5", "4 5"}, "12345"),
              expected)
        << pre;
}

// A mark stands alone by the rules of files that name none, and so does a full stop of Arabic by Bloom's.
TEST(GgufTokenizer, MarksEndWords) {
  for (const std::string mark : {"~", "$", "+", "<", "=", "|", "^"})
    for (const auto& [pre, bar] : {std::pair{"default", "|"}, {"gpt-2", ""}})
      EXPECT_EQ(cut_by(pre, {"\u0120", mark, "\u0120" + mark}, {"\u0120 " + mark}, " " + mark),
                "\u0120" + std::string(bar) + mark)
          << pre;
  for (const auto& [pre, expected] : {std::pair{"bloom", "a|\u00db|\u0136"}, {"tekken", "a|\u00db|\u0136"}})
    EXPECT_EQ(cut_by(pre, {"a", "\u00db", "\u0136", "a\u00db"}, {"a \u00db"}, "a\u06d4"), expected) << pre;
}

// A file of SentencePiece that names no special token has <unk>, <s> and </s> first.
TEST(GgufTokenizer, SentencePieceHasDefaults) {
  GgufBytes file;
  file.text("tokenizer.ggml.model", "llama")
      .texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "\u2581a", "\u2581", "a"})
      .numbers<float>("tokenizer.ggml.scores", test::kGgufF32, {0, 0, 0, -1, 0, 0})
      .numbers<std::int32_t>("tokenizer.ggml.token_type", test::kGgufI32, {2, 3, 3, 1, 1, 1})
      .value("tokenizer.ggml.add_eos_token", test::kGgufBool, test::raw<std::uint8_t>(1));
  const TokenizerFiles files = files_of(file);
  for (const auto& [key, token] :
       {std::pair{"unk_token", "<unk>"}, {"bos_token", "<s>"}, {"eos_token", "</s>"}})
    EXPECT_EQ(files.config.content.at(key), token);
  EXPECT_EQ(Tokenizer::from_files(files).encode("a"), (std::vector<TokenId>{1, 3, 2}));
  file.value("tokenizer.ggml.add_space_prefix", test::kGgufBool, test::raw<std::uint8_t>(0));
  EXPECT_EQ(Tokenizer::from_files(files_of(file)).encode("a"), (std::vector<TokenId>{1, 5, 2}));
}

// No parts join to a special token.
TEST(GgufTokenizer, MergesFollowFromScores) {
  GgufBytes file;
  file.text("tokenizer.ggml.model", "llama")
      .texts("tokenizer.ggml.tokens", {"a", "b", "c", "ab", "bc", "abc", "ca", "d"})
      .numbers<float>("tokenizer.ggml.scores", test::kGgufF32, {0, 0, 0, -2, -1, -3, -1, 0})
      .numbers<std::int32_t>("tokenizer.ggml.token_type", test::kGgufI32, {1, 1, 1, 1, 1, 1, 3, 1});
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(files_of(file).tokenizer->content.at("model").at("merges").get<Pairs>(),
            (Pairs{{"b", "c"}, {"a", "b"}, {"ab", "c"}, {"a", "bc"}}));
}

// "a", "aa" and so on have merges of the square of their number.
TEST(GgufTokenizer, RefusesMergesWithoutEnd) {
  std::vector<std::string> tokens;
  for (std::size_t length = 1; length <= 4000; ++length) tokens.emplace_back(length, 'a');
  GgufBytes file;
  file.text("tokenizer.ggml.model", "llama")
      .texts("tokenizer.ggml.tokens", tokens)
      .numbers<float>("tokenizer.ggml.scores", test::kGgufF32, std::vector<float>(tokens.size()));
  EXPECT_EQ(
      refusal_of_tokens(file).find(": key 'tokenizer.ggml.tokens': merges of 4000 pieces: expected at most"),
      0U);
}

TEST(GgufTokenizer, RefusesByName) {
  EXPECT_EQ(refusal_of_tokens({}), ": expected a tokenizer (key 'tokenizer.ggml.tokens'), found none");
  EXPECT_EQ(refusal_of_tokens(some_tokens("bert")),
            ": key 'tokenizer.ggml.model': 'bert' is not supported; expected gpt2 or llama");
  GgufBytes other = some_tokens();
  other.text("tokenizer.ggml.pre", "qwen3").texts("tokenizer.ggml.merges", {});
  EXPECT_NE(refusal_of_tokens(other).find("'qwen3' is not supported, the nearest is 'qwen"),
            std::string::npos);
  EXPECT_EQ(refusal_of_tokens(some_tokens()), ": the key 'tokenizer.ggml.merges' is missing");
  GgufBytes merges = some_tokens();
  merges.texts("tokenizer.ggml.merges", {"a b", "ab"});
  EXPECT_EQ(
      refusal_of_tokens(merges),
      ": key 'tokenizer.ggml.merges': entry 1: expected two tokens with a blank between them, found 'ab'");
  EXPECT_EQ(refusal_of_tokens(some_tokens("llama")),
            ": key 'tokenizer.ggml.scores': expected 6 scores, one for each token, found 0");
  GgufBytes types;
  types.text("tokenizer.ggml.model", "gpt2")
      .texts("tokenizer.ggml.tokens", {"a"})
      .numbers<std::int32_t>("tokenizer.ggml.token_type", test::kGgufI32, {1, 1});
  EXPECT_EQ(refusal_of_tokens(types),
            ": key 'tokenizer.ggml.token_type': expected 1 types, one for each token, found 2");
  const auto refused_type = [](std::uint32_t type, const auto& values) {
    GgufBytes file;
    file.text("tokenizer.ggml.model", "gpt2")
        .texts("tokenizer.ggml.tokens", {"a", "b"})
        .numbers("tokenizer.ggml.token_type", type, values);
    return refusal_of_tokens(file);
  };
  const std::string types_key =
      ": key 'tokenizer.ggml.token_type': token 1: expected a type from 0 to 6, found ";
  EXPECT_EQ(refused_type(test::kGgufI32, std::vector<std::int32_t>{0, 7}), types_key + "7");
  EXPECT_EQ(refused_type(test::kGgufI32, std::vector<std::int32_t>{6, -1}), types_key + "-1");
  EXPECT_EQ(refused_type(test::kGgufI64, std::vector<std::int64_t>{1, 0x1'0000'0003}),
            types_key + "4294967299");
  EXPECT_EQ(refused_type(test::kGgufU64, std::vector<std::uint64_t>{1, ~std::uint64_t{0}}),
            types_key + "a number beyond 2^63");
  GgufBytes bytes;
  bytes.text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", {"\xff"});
  EXPECT_EQ(refusal_of_tokens(bytes),
            ": key 'tokenizer.ggml.tokens': token 0: expected UTF-8, found '\\xff'");
  GgufBytes id;
  id.text("tokenizer.ggml.model", "gpt2")
      .texts("tokenizer.ggml.tokens", {"a"})
      .texts("tokenizer.ggml.merges", {})
      .number("tokenizer.ggml.bos_token_id", 7);
  EXPECT_EQ(refusal_of_tokens(id), ": key 'tokenizer.ggml.bos_token_id': expected an id below 1, found 7");
}

}  // namespace
}  // namespace assay
