// Loading: the forms that are accepted, and what is said of those that are not.
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "assay/text/tokenizer_spec.h"
#include "small_tokenizer.h"

namespace assay {
namespace {

std::string load_error(const Json& file) {
  return error_of([&] { load_json(file); });
}

std::string error_with(const std::function<void(Json&)>& change) {
  Json file = small_tokenizer();
  change(file);
  return load_error(file);
}

std::string text_error(std::string_view content) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", content);
  return error_of([&] { Tokenizer::load(folder.path()); });
}

// The message is expected to end so, and to name the file.
void expect_error(const std::string& message, const std::string& end) {
  EXPECT_TRUE(holds(message, "tokenizer.json: " + end) || holds(message, end))
      << message << "\n  expected: " << end;
  EXPECT_TRUE(holds(message, "tokenizer.json")) << message;
}

void write_old_form(const TemporaryFolder& folder, const std::string& merges) {
  const Json file = small_tokenizer();
  folder.write("vocab.json", file["model"]["vocab"].dump());
  folder.write("merges.txt", merges);
}

TEST(TokenizerLoad, AcceptsMergesAsTextAndAsPairs) {
  Json file = small_tokenizer();
  const Ids expected = load_json(file).encode("hello's");
  for (Json& merge : file["model"]["merges"]) {
    const std::string text = merge;
    const std::size_t blank = text.find(' ');
    merge = {text.substr(0, blank), text.substr(blank + 1)};
  }
  EXPECT_EQ(load_json(file).encode("hello's"), expected);
  EXPECT_EQ(expected, (Ids{259, 261}));
}

TEST(TokenizerLoad, AcceptsOlderAndWrappedForms) {
  Json file = small_tokenizer();
  file["model"].erase("type");
  file["model"]["continuing_subword_prefix"] = "";
  file["model"]["end_of_word_suffix"] = "";
  file["model"]["dropout"] = nullptr;
  file["model"]["unk_token"] = nullptr;
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", Json::array({file["pre_tokenizer"]})}};
  file["post_processor"] = {{"type", "TemplateProcessing"}, {"single", Json::array()}};
  file["decoder"] = nullptr;
  file.erase("added_tokens");
  file.erase("version");
  const Tokenizer tokenizer = load_json(file);
  EXPECT_EQ(tokenizer.encode("hello"), (Ids{259}));
  EXPECT_EQ(tokenizer.source(), "tokenizer.json");
  EXPECT_EQ(tokenizer.end_of_text(), std::nullopt);
}

TEST(TokenizerLoad, RefusesOtherKinds) {
  expect_error(error_with([](Json& f) { f["model"]["type"] = "Unigram"; }),
               "model: unsupported model type Unigram: expected BPE");
  expect_error(error_with([](Json& f) {
                 f["normalizer"] = {{"type", "NFC"}};
               }),
               "unsupported normalizer NFC: expected none");
  expect_error(error_with([](Json& f) {
                 f["pre_tokenizer"] = {{"type", "Whitespace"}};
               }),
               "unsupported pre_tokenizer Whitespace: expected ByteLevel");
  expect_error(error_with([](Json& f) { f["pre_tokenizer"] = nullptr; }),
               "unsupported pre_tokenizer: expected ByteLevel, found none");
  expect_error(error_with([](Json& f) {
                 const Json one = f["pre_tokenizer"];
                 f["pre_tokenizer"] = {{"type", "Sequence"},
                                       {"pretokenizers", Json::array({Json{{"type", "Digits"}}, one})}};
               }),
               "unsupported pre_tokenizer: expected one ByteLevel, found a Sequence of 2");
  expect_error(error_with([](Json& f) {
                 f["decoder"] = {{"type", "Metaspace"}};
               }),
               "unsupported decoder Metaspace: expected ByteLevel");
  expect_error(error_with([](Json& f) { f["model"]["byte_fallback"] = true; }),
               "model: unsupported byte_fallback: expected false");
  expect_error(error_with([](Json& f) { f["model"]["dropout"] = 0.1; }),
               "model: unsupported dropout 0.1: expected none");
  expect_error(error_with([](Json& f) { f["model"]["end_of_word_suffix"] = "</w>"; }),
               "model: unsupported end_of_word_suffix '</w>': expected none");
  expect_error(error_with([](Json& f) { f["model"]["continuing_subword_prefix"] = "##"; }),
               "model: unsupported continuing_subword_prefix '##': expected none");
  expect_error(error_with([](Json& f) { f["version"] = "2.0"; }), "expected version 1.0, found '2.0'");
}

TEST(TokenizerLoad, RefusesBadIds) {
  const auto with_id = [](const Json& id) {
    return error_with([&](Json& f) { f["model"]["vocab"]["zz"] = id; });
  };
  expect_error(with_id(-1), "model: vocab: token 'zz': expected an id from 0 to 16777216, found -1");
  expect_error(with_id(16777217), "token 'zz': expected an id from 0 to 16777216, found 16777217");
  expect_error(with_id(18446744073709551615U),
               "token 'zz': expected an id from 0 to 16777216, found 18446744073709551615");
  expect_error(with_id(5), "expected an id of its own, found 5, which is that of 'zz'");
  expect_error(with_id(1.5), "token 'zz': expected an id, found '1.5'");
  expect_error(with_id("7"), "token 'zz': expected an id, found '\"7\"'");
  expect_error(with_id(nullptr), "token 'zz': expected an id, found 'null'");
  expect_error(with_id(Json::array({1})), "token 'zz': expected an id, found an array");
  Json largest = small_tokenizer();
  largest["model"]["vocab"]["zz"] = 16777216;
  EXPECT_EQ(load_json(largest).vocab_size(), 16777217);
}

TEST(TokenizerLoad, RefusesBadMerges) {
  const auto with_merge = [](const Json& merge) {
    return error_with([&](Json& f) { f["model"]["merges"].push_back(merge); });
  };
  expect_error(with_merge("h zork"), "model: merges: entry 6: token 'zork' is not in the vocabulary");
  expect_error(with_merge(Json::array({"zork", "h"})),
               "merges: entry 6: token 'zork' is not in the vocabulary");
  expect_error(with_merge("a b"), "merges: entry 6: token 'ab' is not in the vocabulary");
  const std::string two = "merges: entry 6: expected two tokens with a blank between them, found ";
  expect_error(with_merge("he"), two + "'he'");
  expect_error(with_merge("h e l"), two + "'h e l'");
  const std::string form = "merges: entry 6: expected \"left right\" or [\"left\", \"right\"], found ";
  expect_error(with_merge(7), form + "'7'");
  expect_error(with_merge(Json::array({"h"})), form + "an array");
  expect_error(with_merge(Json::array({"h", 1})), form + "an array");
  expect_error(error_with([](Json& f) { f["model"]["merges"] = "h e"; }),
               "model: merges: expected an array, found '\"h e\"'");
}

TEST(TokenizerLoad, RefusesMissingAndMistypedParts) {
  expect_error(error_with([](Json& f) { f.erase("model"); }), "the key 'model' is missing");
  expect_error(error_with([](Json& f) { f["model"].erase("vocab"); }), "model: the key 'vocab' is missing");
  expect_error(error_with([](Json& f) { f["model"].erase("merges"); }), "model: the key 'merges' is missing");
  expect_error(error_with([](Json& f) { f["model"] = 3; }), "model: expected an object, found 3");
  expect_error(error_with([](Json& f) { f["model"]["vocab"] = Json::array(); }),
               "model: vocab: expected an object, found []");
  expect_error(error_with([](Json& f) { f["model"]["vocab"] = Json::object(); }),
               "model: vocab: expected tokens, found an empty vocabulary");
  expect_error(error_with([](Json& f) { f["model"]["type"] = 5; }),
               "model: type: expected a string, found 5");
  expect_error(error_with([](Json& f) { f["model"]["ignore_merges"] = 1; }),
               "model: ignore_merges: expected true or false, found 1");
  expect_error(error_with([](Json& f) { f["model"]["unk_token"] = "zork"; }),
               "model: unk_token 'zork' is not in the vocabulary");
  expect_error(error_with([](Json& f) { f["pre_tokenizer"]["add_prefix_space"] = "no"; }),
               "pre_tokenizer: add_prefix_space: expected true or false, found \"no\"");
  expect_error(error_with([](Json& f) { f["pre_tokenizer"].erase("type"); }),
               "pre_tokenizer: the key 'type' is missing");
  expect_error(error_with([](Json& f) {
                 f["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", Json::array({4})}};
               }),
               "pre_tokenizer: pretokenizers: expected an object, found '4'");
}

TEST(TokenizerLoad, RefusesBadAddedTokens) {
  const auto with_tokens = [](const Json& tokens) {
    return error_with(
        [&](Json& f) { f["added_tokens"] = tokens.is_object() ? Json::array({tokens}) : tokens; });
  };
  expect_error(with_tokens(added_token("<x>", -1)),
               "added_tokens: entry 0: id: expected a whole number from 0 to");
  expect_error(with_tokens(added_token("<x>", 20000000)), "found 20000000");
  expect_error(with_tokens(added_token("<x>", 5)), "token '<x>': expected an id of its own, found 5");
  expect_error(with_tokens(added_token("<x>", 270)), "token '<x>': expected id 262, the next one, found 270");
  expect_error(with_tokens(added_token("hello", 262)),
               "token 'hello': expected id 259, which it has already, found");
  expect_error(with_tokens(Json::array({added_token("<x>", 262), added_token("<x>", 262)})),
               "added_tokens: entry 1: token '<x>' is added twice");
  expect_error(with_tokens(Json::array({7})), "added_tokens: entry 0: expected an object, found '7'");
  expect_error(with_tokens("<x>"), "added_tokens: expected an array, found '\"<x>\"'");
  for (const char* key : {"content", "id", "special", "lstrip", "rstrip", "single_word", "normalized"}) {
    Json token = added_token("<x>", 262);
    token.erase(key);
    expect_error(with_tokens(Json::array({token})),
                 fmt::format("added_tokens: entry 0: the key '{}' is missing", key));
  }
}

TEST(TokenizerLoad, RefusesWhatIsNotJson) {
  expect_error(text_error(""), "not valid JSON");
  expect_error(text_error("{\"model\": "), "not valid JSON");
  expect_error(text_error("{\"model\": \"\xFF\"}"), "not valid JSON");
  expect_error(text_error("[]"), "expected a JSON object, found array");
  expect_error(text_error("{\"version\": \"1.0\", \"version\": \"1.0\"}"), "the key 'version' stands twice");
  expect_error(text_error("{\"model\": " + std::string(100000, '[')), "nested deeper than 64 levels");
}

TEST(TokenizerLoad, NamesWhatIsMissing) {
  const TemporaryFolder folder;
  const auto message = [&] { return error_of([&] { Tokenizer::load(folder.path()); }); };
  EXPECT_EQ(message(), folder.path().string() +
                           ": expected tokenizer.json, or vocab.json and merges.txt, found neither");
  folder.write("vocab.json", "{\"a\": 0}");
  EXPECT_EQ(message(), folder.path().string() + ": expected merges.txt beside vocab.json, found none");
}

TEST(TokenizerLoad, ReadsVocabularyAndMerges) {
  const TemporaryFolder folder;
  write_old_form(folder, "#version: 0.2\nh e\nl l\r\n\nhe ll\nhell o\n");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.encode("hello's"), (Ids{259, '\'', 's'}));
  EXPECT_EQ(tokenizer.source(), "vocab.json + merges.txt");
  EXPECT_EQ(tokenizer.end_of_text(), std::nullopt);
}

TEST(TokenizerLoad, EndOfTextOfTheOldFormIsSpecial) {
  const TemporaryFolder folder;
  Json vocab = small_tokenizer()["model"]["vocab"];
  vocab["<|endoftext|>"] = 262;
  folder.write("vocab.json", vocab.dump());
  folder.write("merges.txt", "#version: 0.2\n");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.encode("a<|endoftext|>b"), (Ids{'a', 262, 'b'}));
  EXPECT_EQ(tokenizer.end_of_text(), 262);
  EXPECT_TRUE(tokenizer.is_special(262));
  EXPECT_EQ(tokenizer.decode(Ids{'a', 262}, true), "a");
}

TEST(TokenizerLoad, RefusesABadOldForm) {
  const TemporaryFolder folder;
  const auto message = [&] { return error_of([&] { Tokenizer::load(folder.path()); }); };
  write_old_form(folder, "#version: 0.2\nh e\nh zork\n");
  EXPECT_TRUE(holds(message(), "merges.txt: line 3: token 'zork' is not in the vocabulary")) << message();
  write_old_form(folder, "h e l\n");
  EXPECT_TRUE(
      holds(message(), "merges.txt: line 1: expected two tokens with a blank between them, found 'h e l'"));
  write_old_form(folder, "h \xFF\n");
  EXPECT_TRUE(holds(message(), "merges.txt: not valid UTF-8 at byte 2")) << message();
  folder.write("vocab.json", "{\"a\": 0, \"b\": 0}");
  EXPECT_TRUE(
      holds(message(), "vocab.json: token 'b': expected an id of its own, found 0, which is that of 'a'"));
  folder.write("vocab.json", "{}");
  EXPECT_TRUE(holds(message(), "vocab.json: expected tokens, found an empty vocabulary")) << message();
}

TEST(TokenizerLoad, ReadsTokensBesideTheOldForm) {
  const TemporaryFolder folder;
  write_old_form(folder, "h e\n");
  folder.write("added_tokens.json", "{\"<b>\": 263, \"<a>\": 262}");
  folder.write("tokenizer_config.json", R"({"add_prefix_space": true, "eos_token": "<e>",
      "added_tokens_decoder": {"264": {"content": "<e>", "special": true, "lstrip": true}}})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.encode("<a><b>h <e>"), (Ids{262, 263, ' ', 'h', 264}));
  EXPECT_EQ(tokenizer.end_of_text(), 264);
  EXPECT_TRUE(tokenizer.is_special(264));
  EXPECT_FALSE(tokenizer.is_special(262));
  folder.write("tokenizer_config.json", R"({"added_tokens_decoder": {"-1": {"content": "<e>"}}})");
  EXPECT_TRUE(holds(error_of([&] { Tokenizer::load(folder.path()); }),
                    "tokenizer_config.json: added_tokens_decoder: expected ids as keys, found '-1'"));
  folder.write("added_tokens.json", "{\"<b>\": 263, \"<a>\": \"x\"}");
  EXPECT_TRUE(holds(error_of([&] { Tokenizer::load(folder.path()); }),
                    "added_tokens.json: <a>: expected a whole number"));
}

TEST(TokenizerLoad, SpecialTokensFromTheFilesBeside) {
  const TemporaryFolder folder;
  Json file = small_tokenizer();
  file["model"]["vocab"]["<|endoftext|>"] = 262;
  file["model"]["vocab"]["<|stop|>"] = 263;
  file["added_tokens"].push_back(added_token("<|pad|>", 264));
  folder.write("tokenizer.json", file.dump());
  EXPECT_EQ(Tokenizer::load(folder.path()).end_of_text(), 262);
  folder.write("tokenizer_config.json",
               R"({"eos_token": {"content": "<|stop|>"}, "pad_token": "<|pad|>", "unk_token": null})");
  folder.write(
      "special_tokens_map.json",
      R"({"eos_token": "<|endoftext|>", "mask_token": "<none>", "additional_special_tokens": ["hello"]})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.end_of_text(), 263);  // the first to say
  EXPECT_EQ(tokenizer.encode("<|stop|>xhello"), (Ids{263, 'x', 259}));
  for (const TokenId id : {259, 262, 263, 264}) EXPECT_TRUE(tokenizer.is_special(id)) << id;
  EXPECT_FALSE(tokenizer.is_special(258));
  EXPECT_EQ(tokenizer.id_of("<none>"), std::nullopt);
  folder.write("special_tokens_map.json", R"({"eos_token": 5})");
  EXPECT_TRUE(holds(error_of([&] { Tokenizer::load(folder.path()); }),
                    "special_tokens_map.json: eos_token: expected a token's text, found '5'"));
}

TEST(TokenizerSpec, ManyAddedTokensTakeLinearTime) {
  constexpr TokenId kMany = 200000;
  TokenizerSpec spec;
  const auto begin = std::chrono::steady_clock::now();
  for (TokenId id = 0; id < kMany; ++id) {
    AddedToken token;
    token.content = fmt::format("<{}>", id);
    token.id = id;
    spec.add(token, "here");
    EXPECT_TRUE(spec.make_special(token.content));
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(seconds.count(), 10.0);
  const auto pieces = AddedTokens(spec.added).split("<199999><200000>");
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0].id, 199999);
}

}  // namespace
}  // namespace assay
