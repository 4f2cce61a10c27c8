// Tokens that are words or say where in a word they stand, and what is refused of their files.
#include <functional>
#include <string>

#include "small_tokenizer.h"

namespace assay {
namespace {

Json words_of_space(const Json& vocabulary) {
  Json file = small_tokenizer();
  file["model"] = {{"vocab", vocabulary}, {"unk_token", "?"}};
  file["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
  file["decoder"] = nullptr;
  return file;
}

// As in the library, a text without unknown words needs no unknown token.
TEST(TokenizerWords, NamesAWordThatIsNoToken) {
  const Tokenizer tokenizer = load_json(words_of_space({{"e2e4", 0}, {"e7e5", 1}}));
  EXPECT_EQ(tokenizer.encode(" e2e4 e7e5"), (Ids{0, 1}));
  EXPECT_EQ(tokenizer.decode(Ids{0, 1}), "e2e4 e7e5");
  EXPECT_EQ(error_of([&] { tokenizer.encode("e2e4 O-O"); }),
            "text: the word 'O-O' is not in the vocabulary, and the tokenizer has no unknown token");
  EXPECT_EQ(load_json(words_of_space({{"e2e4", 0}, {"?", 7}})).encode("e2e4 O-O"), (Ids{0, 7}));
}

// The text of a token that ends a word is complete but for the blank, which the next token brings.
TEST(TokenizerWords, GivesTheSuffixOfAWordAsABlankBetweenWords) {
  Json file = words_of_space({{"ab</w>", 0}, {"c", 1}, {"d</w>", 2}, {"e</w>f", 3}});
  file["decoder"] = {{"type", "BPEDecoder"}, {"suffix", "</w>"}};
  const Tokenizer tokenizer = load_json(file);
  EXPECT_EQ(tokenizer.decode(Ids{0, 1, 2}), "ab cd");
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.push(0), "ab");
  EXPECT_EQ(stream.push(1), " c");
  EXPECT_EQ(stream.push(2), "d");
  EXPECT_EQ(stream.push(3), " e");
  EXPECT_EQ(stream.finish(), "f");
  EXPECT_EQ(tokenizer.decode(Ids{3}), "ef");
  EXPECT_EQ(tokenizer.decode(Ids{3, 3}), "e fef");
  file["decoder"] = {{"type", "Sequence"}, {"decoders", {file["decoder"], {{"type", "ByteFallback"}}}}};
  EXPECT_TRUE(
      holds(error_of([&] { load_json(file); }), "unsupported decoder BPEDecoder, ByteFallback: expected"));
}

TEST(TokenizerWords, ALongestWordOfWordPieceHasAsManyCharactersAsItMay) {
  Json file = words_of_space({{"ab", 0}, {"?", 1}, {"##c", 2}});
  file["model"]["type"] = "WordPiece";
  file["model"]["max_input_chars_per_word"] = 2;
  EXPECT_EQ(load_json(file).encode("ab abc"), (Ids{0, 1}));
}

// A word of several marks is one word to the suffix, and is not cut before them.
TEST(TokenizerWords, MarksEndNoWordWithASuffix) {
  Json file = small_tokenizer();
  file["pre_tokenizer"] = nullptr;
  file["model"] = {{"type", "BPE"},
                   {"vocab", {{"a", 0}, {"\u2581", 1}, {"b</w>", 2}, {"a</w>", 3}}},
                   {"merges", Json::array()},
                   {"end_of_word_suffix", "</w>"}};
  const std::string mark = "\u2581";
  EXPECT_EQ(load_json(file).encode("a" + mark + "b"), (Ids{0, 1, 2}));
}

// As the library counts, whatever ids the vocabulary leaves out.
TEST(TokenizerWords, AnAddedTokenFollowsTheNumberOfTokensOfTheModel) {
  Json file = words_of_space({{"?", 0}, {"b", 5}});
  file["added_tokens"] = {added_token("<x>", 2)};
  const Tokenizer tokenizer = load_json(file);
  EXPECT_EQ(tokenizer.encode("b <x>"), (Ids{5, 2}));
  EXPECT_TRUE(tokenizer.warnings().empty());
}

void expect_refused(const std::function<void(Json&)>& change, const std::string& expected) {
  Json file = small_tokenizer();
  change(file);
  const std::string error = error_of([&] { load_json(file); });
  EXPECT_TRUE(holds(error, expected)) << error;
}

TEST(TokenizerWords, RefusesWhatIsAroundThem) {
  expect_refused(
      [](Json& f) {
        f["pre_tokenizer"] = {{"type", "FixedLength"}, {"length", 0}};
      },
      "pre_tokenizer: length: expected");
  expect_refused(
      [](Json& f) {
        f["post_processor"] = {{"type", "RobertaProcessing"}, {"sep", {"</s>", 99999}}, {"cls", {"<s>", 0}}};
      },
      "post_processor: sep: expected ids of the vocabulary, found '99999'");
  expect_refused(
      [](Json& f) {
        f["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"a", 1}}, {"cls", "a"}};
      },
      "post_processor: cls: expected an array, found");
}

}  // namespace
}  // namespace assay
