// Tokenizers in GGUF files that are written: their ids against those of the model, and what is refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/tokenizer_files.h"
#include "assay/checkpoint/gguf_source.h"
#include "assay/checkpoint/gguf_tokenizer.h"
#include "assay/quantize/gguf_mix.h"
#include "assay/quantize/write_gguf.h"
#include "assay/text/tokenizer.h"
#include "support/fixtures.h"
#include "support/gguf_writer.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

QuantizeReport write_in_float32(const fs::path& model, const fs::path& out) {
  return write_gguf(model.string(), out, {.mix = GgufMix::named("F32").value(), .threads = 2});
}

// A model whose embedding has a few more rows than the tokenizer has tokens.
std::string model_with_tokens(const fs::path& folder, const fs::path& tokenizer) {
  test::TinyModel tiny;
  constexpr std::int64_t kRows = 1300;
  tiny.config["vocab_size"] = kRows;
  tiny.tensor("transformer.wte.weight") = test::float_tensor("transformer.wte.weight", {kRows, 4});
  const std::string model = tiny.write(folder);
  for (const auto& entry : fs::directory_iterator(tokenizer))
    if (entry.path().filename().string().starts_with("token"))
      fs::copy_file(entry.path(), folder / entry.path().filename());
  // Without a class Transformers reads the tokenizer of a GPT-2 by the rules of GPT2Tokenizer.
  if (!fs::exists(folder / "tokenizer_config.json"))
    test::write_file(folder / "tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  return model;
}

void expect_same_ids(const fs::path& model, const fs::path& out, std::string_view kind) {
  write_in_float32(model, out);
  const GgufFile file(out);
  EXPECT_EQ(file.text("tokenizer.ggml.model"), kind);
  EXPECT_EQ(file.value("tokenizer.ggml.tokens")->size(), 1300U);
  const Tokenizer before = Tokenizer::load(model),
                  after = Tokenizer::from_files(open_source(out)->tokenizer_files());
  const std::string text = test::read_file(fs::path(source_folder()) / "README.md");
  EXPECT_EQ(after.encode(text), before.encode(text));
  EXPECT_EQ(after.decode(after.encode(text)), before.decode(before.encode(text)));
}

class WrittenTokens : public testing::TestWithParam<const char*> {};
TEST_P(WrittenTokens, GiveTheSameIds) {
  const test::TemporaryFolder folder;
  const fs::path model = folder.path() / "m", source = test::fixture("tokenizers") / GetParam();
  model_with_tokens(model, source);
  // The fixture's added tokens with flags are left out: no key of a GGUF file says them.
  Json json = Json::parse(test::read_file(source / "tokenizer.json"));
  json["added_tokens"].erase(json["added_tokens"].begin() + 3, json["added_tokens"].end());
  test::write_file(model / "tokenizer.json", json.dump());
  expect_same_ids(model, folder.path() / "m.gguf", "gpt2");
}
INSTANTIATE_TEST_SUITE_P(OfFixtures, WrittenTokens, testing::Values("llama3", "qwen2"));

TEST(WriteGgufTokens, KeepsTheMergesOfSentencePieceAsScores) {
  const test::TemporaryFolder folder;
  const TokenizerFiles files =
      gguf_tokenizer_files(GgufFile(test::fixture("gguf") / "tokens_sentencepiece.gguf"));
  fs::create_directories(folder.path() / "t");
  test::write_file(folder.path() / "t/tokenizer.json", files.tokenizer->content.dump());
  test::write_file(folder.path() / "t/tokenizer_config.json", files.config.content.dump());
  model_with_tokens(folder.path() / "m", folder.path() / "t");
  expect_same_ids(folder.path() / "m", folder.path() / "m.gguf", "llama");
}

// Where the tokenizer names no end, those of the model are the file's.
TEST(WriteGgufTokens, KeepsTheEndsOfTheModel) {
  const test::TemporaryFolder folder;
  const fs::path model = folder.path() / "m", out = folder.path() / "m.gguf";
  model_with_tokens(model, test::fixture("tokenizers/qwen2"));
  Json json = Json::parse(test::read_file(model / "tokenizer.json"));
  json["added_tokens"] = Json::array();
  json["post_processor"] = nullptr;  // whose template has an end
  test::write_file(model / "tokenizer.json", json.dump());
  test::write_file(model / "tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  test::write_file(model / "generation_config.json", R"({"eos_token_id": [7, 5, 9]})");
  write_in_float32(model, out);
  const GgufFile file(out);
  EXPECT_EQ(file.integer("tokenizer.ggml.eos_token_id"), 7);
  EXPECT_EQ(file.integer("tokenizer.ggml.eot_token_id"), 5);
  EXPECT_EQ(file.integer("tokenizer.ggml.eom_token_id"), 9);
}

// As SmolLM2's files: tokenizer.json and llama.cpp split texts in a way that GPT2Tokenizer of Transformers 5
// has not.
TEST(WriteGgufTokens, WarnsWhereAClassOfTransformersGivesOtherIds) {
  const test::TemporaryFolder folder;
  const fs::path model = folder.path() / "m";
  model_with_tokens(model, test::fixture("tokenizers/llama3"));
  Json json = Json::parse(test::read_file(model / "tokenizer.json"));
  json["added_tokens"].erase(json["added_tokens"].begin() + 3, json["added_tokens"].end());
  test::write_file(model / "tokenizer.json", json.dump());
  const auto warnings_by = [&](const char* name) {
    const Json config = {{"tokenizer_class", name}};
    test::write_file(model / "tokenizer_config.json", config.dump());
    fs::remove(folder.path() / "m.gguf");
    return write_in_float32(model, folder.path() / "m.gguf").warnings;
  };
  EXPECT_TRUE(warnings_by("PreTrainedTokenizerFast").empty());
  const std::vector<std::string> warnings = warnings_by("GPT2Tokenizer");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("m/tokenizer.json says, where the class that Transformers 5"), std::string::npos)
      << warnings[0];
}

TEST(WriteGgufTokens, SaysWhichFlagsOfAddedTokensAreLost) {
  const test::TemporaryFolder folder;
  const fs::path model = folder.path() / "m", out = folder.path() / "m.gguf";
  model_with_tokens(model, test::fixture("tokenizers/llama3"));
  Json json = Json::parse(test::read_file(model / "tokenizer.json"));
  json["added_tokens"].erase(json["added_tokens"].begin() + 3, json["added_tokens"].end());
  for (const std::string flag : {"lstrip", "rstrip", "single_word"}) {
    Json own = json;
    own["added_tokens"][2][flag] = true;
    test::write_file(model / "tokenizer.json", own.dump());
    fs::remove(out);
    const std::vector<std::string> warnings = write_in_float32(model, out).warnings;
    ASSERT_EQ(warnings.size(), 1U) << flag;
    EXPECT_TRUE(warnings[0].starts_with("added token '")) << warnings[0];
    EXPECT_TRUE(warnings[0].ends_with("': " + flag + " is lost")) << warnings[0];
  }
}

TEST(WriteGgufTokens, RefusesTokenizersByName) {
  const test::TemporaryFolder folder;
  for (const auto& [name, what] :
       {std::pair{"tokenizer_folders/unigram", "found Unigram"},
        {"tokenizer_folders/word_piece", "found WordPiece"},
        {"tokenizer_folders/gemma", "found tokenizer.model without tokenizer.json"},
        {"tokenizers/llama3", "gives other ids for the text 'don't we'll"}}) {
    const std::string model =
        model_with_tokens(folder.path() / fs::path(name).filename(), test::fixture(name));
    std::string said = "no error";
    try {
      write_in_float32(model, folder.path() / "m.gguf");
    } catch (const Error& error) {
      said = error.what();
    }
    EXPECT_NE(said.find(what), std::string::npos) << said;
    EXPECT_FALSE(fs::exists(folder.path() / "m.gguf"));
  }
}

}  // namespace
}  // namespace assay
