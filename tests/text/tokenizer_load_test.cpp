// Loading: the forms that are accepted, and what is said of those that are not.
#include <ctime>
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
  file["post_processor"] = {{"type", "ByteLevel"}, {"trim_offsets", false}};
  file["decoder"] = nullptr;
  file.erase("added_tokens");
  file.erase("version");
  const Tokenizer tokenizer = load_json(file);
  EXPECT_EQ(tokenizer.encode("hello"), (Ids{259}));
  EXPECT_EQ(tokenizer.source(), "tokenizer.json");
  EXPECT_EQ(tokenizer.end_of_text(), std::nullopt);
}

TEST(TokenizerLoad, RefusesOtherKinds) {
  expect_error(error_with([](Json& f) { f["model"]["type"] = "Morphemes"; }),
               "model: type: Morphemes is not supported: expected BPE, Unigram, WordPiece or WordLevel");
  expect_error(error_with([](Json& f) {
                 f["normalizer"] = {{"type", "Rot13"}};
               }),
               "unsupported normalizer Rot13: expected Prepend, Replace, NFC, NFD, NFKC, NFKD, Lowercase, "
               "Strip, StripAccents, Precompiled, BertNormalizer, Nmt or ByteLevel");
  expect_error(
      error_with([](Json& f) {
        f["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
      }),
      "unsupported pre_tokenizer UnicodeScripts: expected ByteLevel, Split, Metaspace, Digits, "
      "Punctuation, Whitespace, WhitespaceSplit, CharDelimiterSplit, FixedLength or BertPreTokenizer");
  expect_error(error_with([](Json& f) {
                 const Json one = f["pre_tokenizer"];
                 f["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", Json(17, one)}};
               }),
               "pre_tokenizer: expected at most 16 steps, found 17");
  expect_error(error_with([](Json& f) {
                 f["decoder"] = {{"type", "Metaspace"}};
               }),
               "unsupported decoder Metaspace: expected ByteLevel");
  expect_error(error_with([](Json& f) { f["model"]["byte_fallback"] = true; }),
               "model: unsupported byte_fallback: expected false with a ByteLevel pre_tokenizer");
  expect_error(error_with([](Json& f) { f["model"]["dropout"] = 0.1; }),
               "model: unsupported dropout 0.1: expected none");
  expect_error(error_with([](Json& f) { f["model"]["continuing_subword_prefix"] = "##"; }),
               "model: merges: entry 0: expected a second token that begins with continuing_subword_prefix "
               "'##', found 'e'");
  expect_error(error_with([](Json& f) { f["version"] = "2.0"; }), "expected version 1.0, found '2.0'");
}

// A Split by `regex`, then ByteLevel, as Llama 3 has them.
Json split_by(const std::string& regex) {
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, bytes})}};
}

TEST(TokenizerLoad, NamesASplitThatIsNone) {
  const auto with = [](const std::string& regex, const char* behavior = "Isolated") {
    return error_with([&](Json& f) {
      f["pre_tokenizer"] = split_by(regex);
      f["pre_tokenizer"]["pretokenizers"][0]["behavior"] = behavior;
    });
  };
  const std::string where = "pre_tokenizer: expected a regular expression, found ";
  expect_error(with("(a\x1b[2J"), where + "'(a\\x1b[2J': premature end of char-class");
  expect_error(with("(a"), where + "'(a': end pattern with unmatched parenthesis");
  expect_error(with("\\p{Zork}"), where + "'\\p{Zork}': invalid character property name {Zork}");
  expect_error(with("a{9999999}"), where + "'a{9999999}': too big number for repeat range");
  expect_error(with(std::string(600, '(') + std::string(600, ')')),
               "...' (1200 bytes): parse depth limit over");
  expect_error(with(std::string(9000, 'x')),
               "pre_tokenizer: expected a pattern of at most 8192 bytes, found '" + std::string(60, 'x') +
                   "...' (9000 bytes)");
  expect_error(with("a", "Erased"),
               "pre_tokenizer: behavior: expected Removed, Isolated, MergedWithPrevious, MergedWithNext or "
               "Contiguous, found 'Erased'");
}

TEST(TokenizerLoad, RefusesBadNormalizers) {
  const auto with = [](const Json& steps) {
    return error_with([&](Json& f) { f["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}}; });
  };
  const auto replace = [](const std::string& pattern, const std::string& content) {
    return Json{{"type", "Replace"}, {"pattern", {{"String", pattern}}}, {"content", content}};
  };
  expect_error(with(Json::array({replace("", "x")})),
               "normalizer: expected a text to replace, found an empty one");
  expect_error(with(Json::array({replace("a", "bbb"), replace("b", "cc")})),
               "normalizer: expected replacements that make a text at most 4 times as long, found 'cc'");
  expect_error(with(Json(9, replace("a", "b"))), "normalizer: expected at most 8 steps, found more");
  expect_error(with(Json::array({Json{{"type", "Prepend"}, {"prepend", std::string(17, 'x')}}})),
               "normalizer: expected prefixes of at most 16 bytes, found 'xxxxxxxxxxxxxxxxx'");
  expect_error(
      with(Json::array({Json{{"type", "Replace"}, {"pattern", {{"Regex", "[a"}}}, {"content", ""}}})),
      "normalizer: expected a regular expression, found '[a': premature end of char-class");
}

TEST(TokenizerLoad, RefusesBadDecoders) {
  const auto with = [](const Json& decoder) {
    return error_with([&](Json& f) {
      f["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "_"}};
      f["decoder"] = decoder;
    });
  };
  const auto steps = [](const std::vector<const char*>& types) {
    Json list = Json::array();
    for (const char* type : types)
      list.push_back(
          {{"type", type}, {"pattern", {{"String", "_"}}}, {"content", " "}, {"start", 1}, {"stop", 0}});
    return Json{{"type", "Sequence"}, {"decoders", list}};
  };
  const std::string expected =
      ": expected ByteLevel, or a Sequence of Replace, Metaspace, WordPiece, Strip and one of "
      "ByteFallback and BPEDecoder, then Fuse, then Strip";
  expect_error(with(steps({"Fuse", "ByteFallback"})), "unsupported decoder Fuse, ByteFallback" + expected);
  expect_error(with(steps({"Fuse", "Replace"})), "unsupported decoder Fuse, Replace" + expected);
  expect_error(with(steps({"ByteFallback", "ByteFallback"})),
               "unsupported decoder ByteFallback, ByteFallback" + expected);
  expect_error(with(steps({"Fuse", "Strip", "Strip"})), "unsupported decoder Fuse, Strip, Strip" + expected);
  expect_error(with(steps({"CTC"})), "unsupported decoder CTC" + expected);
  Json ends = steps({"Fuse", "Strip"});
  ends["decoders"][1]["content"] = "ab";
  expect_error(with(ends), "decoder: content: expected one character, found 'ab'");
}

TEST(TokenizerLoad, ReadsMetaspaceOldAndNew) {
  const auto loaded = [](const Json& metaspace) {
    Json file = small_tokenizer();
    file["pre_tokenizer"] = metaspace;
    file["pre_tokenizer"]["type"] = "Metaspace";
    file["decoder"] = file["pre_tokenizer"];
    return load_json(file);
  };
  EXPECT_EQ(loaded({{"replacement", "_"}}).encode("a a"), (Ids{'_', 'a', '_', 'a'}));
  EXPECT_EQ(loaded({{"replacement", "_"}, {"add_prefix_space", true}}).encode("a"), (Ids{'_', 'a'}));
  EXPECT_EQ(loaded({{"replacement", "_"}, {"add_prefix_space", false}}).encode("a"), (Ids{'a'}));
  EXPECT_EQ(
      loaded({{"replacement", "_"}, {"prepend_scheme", "never"}, {"add_prefix_space", false}}).encode("a"),
      (Ids{'a'}));
  const auto refused = [&](const Json& metaspace) { return error_of([&] { loaded(metaspace); }); };
  expect_error(refused({{"replacement", "__"}}),
               "pre_tokenizer: replacement: expected one character, found '__'");
  expect_error(refused({{"replacement", ""}}),
               "pre_tokenizer: replacement: expected one character, found ''");
  expect_error(refused({{"replacement", "_"}, {"prepend_scheme", "last"}}),
               "pre_tokenizer: prepend_scheme: expected always, first or never, found 'last'");
  expect_error(refused({{"replacement", "_"}, {"prepend_scheme", "first"}, {"add_prefix_space", false}}),
               "pre_tokenizer: add_prefix_space is false, but prepend_scheme is first");
}

TEST(TokenizerLoad, ReadsTemplates) {
  Json file = small_tokenizer();
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const auto special = [](const std::string& name) {
    return Json{{"SpecialToken", {{"id", name}, {"type_id", 0}}}};
  };
  const Json tokens = {{"b", {{"id", "b"}, {"ids", {1, 2}}}}, {"e", {{"id", "e"}, {"ids", {3}}}}};
  const auto around = [&](const Json& pieces) {
    return Json{{"type", "TemplateProcessing"}, {"single", pieces}, {"special_tokens", tokens}};
  };
  file["post_processor"] = around(Json::array({special("b"), text, special("e")}));
  EXPECT_EQ(load_json(file).encode("a"), (Ids{1, 2, 'a', 3}));
  EXPECT_EQ(load_json(file).encode("a", false), (Ids{'a'}));
  file["post_processor"] = {
      {"type", "Sequence"},
      {"processors", Json::array({Json{{"type", "ByteLevel"}}, around(Json::array({special("e"), text})),
                                  around(Json::array({special("b"), text, special("e")}))})}};
  EXPECT_EQ(load_json(file).encode("a"), (Ids{1, 2, 3, 'a', 3}));

  const auto with = [&](const Json& post) {
    return error_with([&](Json& f) { f["post_processor"] = post; });
  };
  expect_error(
      with({{"type", "Rot13"}}),
      "unsupported post_processor Rot13: expected TemplateProcessing, BertProcessing, RobertaProcessing "
      "or ByteLevel");
  expect_error(with(around(Json::array())), "post_processor: single: expected the sequence A, found none");
  expect_error(with(around(Json::array({text, text}))),
               "post_processor: single: expected the sequence A once, found another sequence after it");
  expect_error(with(around(Json::array({Json{{"Sequence", {{"id", "B"}}}}}))),
               "post_processor: single: expected the sequence A once, found 'B'");
  expect_error(with(around(Json::array({special("zork"), text}))),
               "post_processor: special_tokens: expected an entry for 'zork', which the template names");
  expect_error(with(around(Json(65, special("b")))), "single: expected at most 64 pieces, found 65");
  expect_error(with(around(Json(40, special("b")))), "expected a template of at most 64 special tokens");
  for (const Json& bad : {Json(262), Json(-1), Json(1.5), Json("1"), Json(1e300)}) {
    Json post = around(Json::array({special("b"), text}));
    post["special_tokens"]["b"]["ids"] = Json::array({bad});
    expect_error(with(post), "special_tokens: 'b': ids: expected ids of the vocabulary, found");
  }
}

TEST(TokenizerLoad, BoundsWhatAFileCanCost) {
  // By the processor's time: what else runs on the machine does not count.
  const auto seconds = [](const auto& action) {
    const std::clock_t begin = std::clock();
    action();
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  const std::string huge(15'000'000, 'x');
  EXPECT_LT(seconds([&] {
              expect_error(error_with([&](Json& f) { f["added_tokens"].push_back(added_token(huge, 262)); }),
                           "added_tokens: entry 0: token '" + huge.substr(0, 60) +
                               "...' (15000000 bytes): expected a text of at most 4096 bytes");
            }),
            10.0);
  expect_error(error_with([&](Json& f) { f["model"]["vocab"][huge] = 262; }),
               "(15000000 bytes): expected a text of at most 4096 bytes");
  Json longest = small_tokenizer();
  longest["model"]["vocab"][huge.substr(0, 4096)] = 262;
  EXPECT_EQ(load_json(longest).vocab_size(), 263);
  expect_error(
      error_with([&](Json& f) {
        for (int id = 262; id < 262 + 530; ++id)
          f["added_tokens"].push_back(added_token(fmt::format("{}{}", id, huge.substr(0, 4000)), id));
      }),
      "expected added tokens of at most 2097152 bytes together, found more");
}

TEST(TokenizerLoad, RefusesAFileThatIsTooLong) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", "{}");
  std::filesystem::resize_file(folder.path() / "tokenizer.json", (std::uint64_t{64} << 20) + 1);
  const std::string message = error_of([&] { Tokenizer::load(folder.path()); });
  EXPECT_TRUE(holds(message, "tokenizer.json") && holds(message, "67108864")) << message;
}

TEST(TokenizerLoad, MergesThatLeadNowhereEnd) {
  // An empty token, merges with it, and the same merge again and again: none can make a word longer.
  Json file = small_tokenizer();
  file["model"]["vocab"][""] = 262;
  file["model"]["vocab"]["aa"] = 263;
  file["model"]["vocab"]["aaa"] = 264;
  for (const auto& [left, right] : std::vector<std::pair<std::string, std::string>>{
           {"", ""}, {"a", ""}, {"", "a"}, {"a", "a"}, {"aa", "a"}, {"a", "aa"}, {"a", "a"}})
    file["model"]["merges"].push_back(Json::array({left, right}));
  const Tokenizer tokenizer = load_json(file);
  EXPECT_EQ(tokenizer.encode("aaaa").size(), 2U);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(std::string(999, 'a'))), std::string(999, 'a'));
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
  const std::string form = "merges: entry 6: expected a text 'left right' or a pair of texts, found ";
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
  expect_error(text_error("{\"version\": \"1.0\", \"version\": \"1.0\"}"), "duplicate key 'version'");
  expect_error(text_error("{\"model\": " + std::string(100000, '[')), "nested deeper than 64 levels");
}

TEST(TokenizerLoad, NamesWhatIsMissing) {
  const TemporaryFolder folder;
  const auto message = [&] { return error_of([&] { Tokenizer::load(folder.path()); }); };
  EXPECT_EQ(message(),
            folder.path().string() +
                ": expected tokenizer.json, vocab.json and merges.txt, or tokenizer.model, found none");
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
  folder.write("tokenizer_config.json", R"({"add_prefix_space": true, "eos_token":
      {"content": "<e>", "special": true, "lstrip": true}})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.encode("<a><b>h <e>"), (Ids{262, 263, ' ', 'h', 264}));
  EXPECT_EQ(tokenizer.end_of_text(), 264);
  EXPECT_TRUE(tokenizer.is_special(264));
  EXPECT_FALSE(tokenizer.is_special(262));
  folder.write("tokenizer_config.json", R"({"added_tokens_decoder": {"-1": {"content": "<e>"}}})");
  EXPECT_TRUE(holds(error_of([&] { Tokenizer::load(folder.path()); }),
                    "tokenizer_config.json: added_tokens_decoder: expected ids as keys, found '-1'"));
  folder.write("tokenizer_config.json", "{}");
  folder.write("added_tokens.json", "{\"<b>\": 263, \"<a>\": \"x\"}");
  EXPECT_TRUE(holds(error_of([&] { Tokenizer::load(folder.path()); }),
                    "added_tokens.json: <a>: expected a whole number"));
}

TEST(TokenizerLoad, OldFormPutsTokensAroundATextWhereItsConfigSaysSo) {
  const TemporaryFolder folder;
  write_old_form(folder, "h e\n");
  folder.write("added_tokens.json", "{\"<a>\": 262, \"<|endoftext|>\": 263}");
  const auto encoded = [&](const std::string& config) {
    folder.write("tokenizer_config.json", config);
    return Tokenizer::load(folder.path()).encode("he");
  };
  EXPECT_EQ(encoded(R"({"bos_token": "<a>"})"), (Ids{256}));
  EXPECT_EQ(encoded(R"({"bos_token": "<a>", "add_bos_token": false})"), (Ids{256}));
  EXPECT_EQ(encoded(R"({"bos_token": "<a>", "add_bos_token": true})"), (Ids{262, 256}));
  EXPECT_EQ(encoded(R"({"add_bos_token": true, "eos_token": {"content": "<a>"}, "add_eos_token": true})"),
            (Ids{263, 256, 262}));
  EXPECT_EQ(encoded(R"({"bos_token": "<x>", "add_bos_token": true})"), (Ids{264, 256}));  // a new token
  folder.write("added_tokens.json", "{}");
  EXPECT_TRUE(
      holds(error_of([&] { encoded(R"({"add_bos_token": true})"); }),
            "tokenizer_config.json: add_bos_token is true, but bos_token '<|endoftext|>' is not in the "
            "vocabulary"));
}

TEST(TokenizerLoad, OldFormOfQwen2HasItsOwnRules) {
  const TemporaryFolder folder;
  write_old_form(folder, "h e\n");
  EXPECT_EQ(Tokenizer::load(folder.path()).encode("\n he"), (Ids{'\n', ' ', 256}));
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.encode("e\xCC\x81"), (Ids{0xC3, 0xA9}));
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
               R"({"eos_token": "<|endoftext|>", "pad_token": "<|pad|>", "unk_token": null})");
  folder.write(
      "special_tokens_map.json",
      R"({"eos_token": {"content": "<|stop|>"}, "mask_token": "<new>", "additional_special_tokens": ["hello"]})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.end_of_text(), 263);  // the last to say
  EXPECT_EQ(tokenizer.encode("<|stop|>xhello"), (Ids{263, 'x', 259}));
  for (const TokenId id : {259, 263, 264, 265}) EXPECT_TRUE(tokenizer.is_special(id)) << id;
  for (const TokenId id : {258, 262}) EXPECT_FALSE(tokenizer.is_special(id)) << id;
  EXPECT_EQ(tokenizer.id_of("<new>"), 265);
  folder.write("special_tokens_map.json", R"({"eos_token": 5})");
  EXPECT_TRUE(holds(error_of([&] { Tokenizer::load(folder.path()); }),
                    "special_tokens_map.json: eos_token: expected a token's text, found '5'"));
}

TEST(TokenizerSpec, ManyAddedTokensTakeLinearTime) {
  constexpr TokenId kMany = 200000;
  TokenizerSpec spec;
  const std::clock_t begin = std::clock();
  for (TokenId id = 0; id < kMany; ++id) {
    AddedToken token;
    token.content = fmt::format("<{}>", id);
    token.id = id;
    spec.add(token, "here");
    EXPECT_TRUE(spec.is_added(token.content));
  }
  EXPECT_LT(std::clock() - begin, 10 * CLOCKS_PER_SEC);
  const auto pieces = AddedTokens(spec.added).split("<199999><200000>");
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0].id, 199999);
}

}  // namespace
}  // namespace assay
