// The tokenizer as a whole: encoding, decoding, special tokens, threads.
#include "assay/text/tokenizer.h"

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "assay/text/utf8.h"
#include "small_tokenizer.h"

namespace assay {
namespace {

// Well-formed text of all planes, with the characters that matter to the scanner well represented.
std::string random_text(std::mt19937& random, int characters) {
  const auto below = [&](unsigned limit) { return static_cast<char32_t>(random() % limit); };
  std::string text;
  for (int i = 0; i < characters; ++i) {
    const char32_t kind = below(8);
    char32_t c = below(0x110000);
    if (kind < 3) c = static_cast<unsigned char>("  \n\t'stlrevmd09hewo!<|>"[below(23)]);
    if (kind == 3) c = 0x20 + below(0x60);
    if (kind == 4) c = below(0x800);
    if (kind == 5) c = 0x1FF0 + below(0x80);
    if (c >= 0xD800 && c < 0xE000) c = 'x';
    append_utf8(text, c);
  }
  return text;
}

TEST(Tokenizer, EncodesByMerges) {
  const Tokenizer tokenizer = load_json(small_tokenizer());
  EXPECT_EQ(tokenizer.encode("hello world's"), (Ids{259, 260, 'o', 'r', 'l', 'd', 261}));
  EXPECT_EQ(tokenizer.encode("hell he"), (Ids{258, ' ', 256}));
  EXPECT_EQ(tokenizer.encode(""), Ids{});
  EXPECT_EQ(tokenizer.encode(std::string_view("\0", 1)), (Ids{0}));
  EXPECT_EQ(tokenizer.encode("HELLO'S"), (Ids{'H', 'E', 'L', 'L', 'O', '\'', 'S'}));
}

TEST(Tokenizer, MergesStayWithinWords) {
  // "'s" merges as a contraction, but not across the words " '" and "s"; nor do the trailing blanks join.
  const Tokenizer tokenizer = load_json(small_tokenizer());
  EXPECT_EQ(tokenizer.encode("a's"), (Ids{'a', 261}));
  EXPECT_EQ(tokenizer.encode("a 's"), (Ids{'a', ' ', '\'', 's'}));
  EXPECT_EQ(tokenizer.encode("a  w "), (Ids{'a', ' ', 260, ' '}));
}

TEST(Tokenizer, WithoutTheRegexTextIsOneWord) {
  Json file = small_tokenizer();
  file["pre_tokenizer"]["use_regex"] = false;
  EXPECT_EQ(load_json(file).encode("a 's"), (Ids{'a', ' ', 261}));
}

TEST(Tokenizer, PrefixSpaceGoesBeforeEachPieceWithoutOne) {
  Json file = small_tokenizer();
  file["pre_tokenizer"]["add_prefix_space"] = true;
  file["added_tokens"].push_back(added_token("<x>", 262));
  const Tokenizer tokenizer = load_json(file);
  EXPECT_EQ(tokenizer.encode("wow"), (Ids{260, 'o', 'w'}));
  EXPECT_EQ(tokenizer.encode(" wow"), (Ids{260, 'o', 'w'}));
  EXPECT_EQ(tokenizer.encode("\nw"), (Ids{' ', '\n', 'w'}));
  EXPECT_EQ(tokenizer.encode("w<x>w<x> w"), (Ids{260, 262, 260, 262, 260}));
  EXPECT_EQ(tokenizer.encode(""), Ids{});
  EXPECT_EQ(tokenizer.encode("<x>"), (Ids{262}));
}

TEST(Tokenizer, IgnoreMergesTakesWholeWords) {
  Json file = small_tokenizer();
  file["model"]["vocab"]
      ["\xC4\xA0"
       "abc"] = 262;
  EXPECT_EQ(load_json(file).encode(" abc"), (Ids{' ', 'a', 'b', 'c'}));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(load_json(file).encode(" abc abcd"), (Ids{262, ' ', 'a', 'b', 'c', 'd'}));
}

// A text without a pre-tokenizer is one word, blanks included: that of a token with a blank inside is whole,
// though no merge leads to it. The ids are those of the `tokenizers` library.
TEST(Tokenizer, IgnoreMergesTakesWholeWordsWithBlanksInside) {
  const std::string mark = "\xE2\x96\x81";
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}},
             back = {{"type", "Replace"}, {"pattern", {{"String", mark}}}, {"content", " "}},
             vocab = {{mark, 0}, {"a", 1}, {"b", 2}, {mark + "b", 3}, {"a" + mark + "b", 4}};
  Json file = {{"version", "1.0"},
               {"added_tokens", Json::array()},
               {"normalizer", replace},
               {"pre_tokenizer", nullptr},
               {"post_processor", nullptr},
               {"decoder", {{"type", "Sequence"}, {"decoders", {back, {{"type", "Fuse"}}}}}},
               {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {mark + " b"}}}}};
  EXPECT_EQ(load_json(file).encode("a b"), (Ids{1, 3}));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(load_json(file).encode("a b"), (Ids{4}));
  EXPECT_EQ(load_json(file).encode("a b a"), (Ids{1, 3, 0, 1}));
}

TEST(Tokenizer, UnknownBytes) {
  Json file = small_tokenizer();
  file["model"]["vocab"].erase("#");
  EXPECT_EQ(load_json(file).encode("a##b"), (Ids{'a', 'b'}));
  file["model"]["unk_token"] = "!";
  EXPECT_EQ(load_json(file).encode("a##b"), (Ids{'a', '!', '!', 'b'}));
  file["model"]["fuse_unk"] = true;
  EXPECT_EQ(load_json(file).encode("a##b"), (Ids{'a', '!', 'b'}));
}

TEST(Tokenizer, AddedTokensBecomeOneId) {
  const Tokenizer tokenizer =
      with_added({added_token("<|end|>", 262, {"special"}), added_token("hello there", 263)});
  EXPECT_EQ(tokenizer.encode("<|end|>hello there"), (Ids{262, 263}));
  EXPECT_EQ(tokenizer.decode(Ids{262, 'a', 263}), "<|end|>ahello there");
  EXPECT_EQ(tokenizer.decode(Ids{262, 'a', 263}, true), "ahello there");
  EXPECT_TRUE(tokenizer.is_special(262));
  EXPECT_FALSE(tokenizer.is_special(263));
  EXPECT_FALSE(tokenizer.is_special(-1));
  EXPECT_FALSE(tokenizer.is_special(264));
  EXPECT_EQ(tokenizer.vocab_size(), 264);
  EXPECT_EQ(tokenizer.id_of("<|end|>"), 262);
  EXPECT_EQ(tokenizer.token_text(262), "<|end|>");
  EXPECT_EQ(tokenizer.token_text(260), "\xC4\xA0w");
  EXPECT_EQ(tokenizer.id_of("no such"), std::nullopt);
}

TEST(Tokenizer, AddedTokensKeepTheirTextWhateverItsCharacters) {
  // U+00E9 is in the byte alphabet (it stands for byte E9), U+65E5 is not.
  const Tokenizer tokenizer = with_added({added_token("caf\xC3\xA9", 262), added_token("\xE6\x97\xA5", 263)});
  const std::string text = "caf\xC3\xA9 \xE6\x97\xA5";
  EXPECT_EQ(tokenizer.encode(text), (Ids{262, ' ', 263}));
  EXPECT_EQ(tokenizer.decode(Ids{262, ' ', 263}), text);
}

TEST(Tokenizer, ModelTokensOutsideTheAlphabetDecodeToTheirText) {
  Json file = small_tokenizer();
  file["model"]["vocab"]["a\xE6\x97\xA5"] = 262;
  file["model"]["vocab"]["two words"] = 263;
  const Tokenizer tokenizer = load_json(file);
  EXPECT_EQ(tokenizer.decode(Ids{262, 263}), "a\xE6\x97\xA5two words");
}

TEST(Tokenizer, DecodeGivesBytesBackExactly) {
  const Tokenizer plain = load_json(small_tokenizer());
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    const std::string text = random_text(random, static_cast<int>(random() % 200));
    ASSERT_EQ(plain.decode(plain.encode(text)), text);
  }
  EXPECT_EQ(plain.decode(Ids{0xFF, 0xC3}), "\xFF\xC3");  // not UTF-8, and not touched
}

TEST(Tokenizer, IdsWithoutATokenAreNoText) {
  Json file = small_tokenizer();
  file["model"]["vocab"]["far"] = 300;
  const Tokenizer tokenizer = load_json(file);
  EXPECT_EQ(tokenizer.vocab_size(), 301);
  EXPECT_EQ(tokenizer.decode(Ids{-1, 'a', 299, 301, 1 << 30, 'b'}), "ab");
  EXPECT_EQ(tokenizer.token_text(299), "");
  EXPECT_EQ(tokenizer.token_text(300), "far");
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const Tokenizer tokenizer = load_json(small_tokenizer());
  EXPECT_EQ(error_of([&] { tokenizer.encode("caf\xE9 noir"); }), "text: not valid UTF-8 at byte 3");
  EXPECT_EQ(error_of([&] { tokenizer.encode("\xE2\x82"); }), "text: not valid UTF-8 at byte 0");
}

TEST(Tokenizer, RepeatedWordsGiveTheIdsOfOneAlone) {
  // Long enough for the cache of words to be in use, with every word many times over.
  const Tokenizer tokenizer = load_json(small_tokenizer());
  Ids expected;
  std::string text;
  for (int i = 0; i < 2000; ++i) {
    const std::string word = fmt::format("hello{} well's", i % 37);
    text += "\n" + word;
    const Ids ids = tokenizer.encode("\n" + word);
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(tokenizer.encode(text), expected);
}

TEST(Tokenizer, AMegabyteOfOneWord) {
  const Tokenizer tokenizer = load_json(small_tokenizer());
  for (const char* part : {"a", "hell", " ", "'", "\xC3\xA9", "\n "}) {
    std::string text;
    while (text.size() < (1 << 20)) text += part;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << part;
  }
}

TEST(Tokenizer, ThreadsMayShareIt) {
  const Tokenizer tokenizer = load_json(small_tokenizer());
  std::mt19937 random(5);
  std::vector<std::string> texts;
  std::vector<Ids> expected;
  for (int i = 0; i < 40; ++i) {
    texts.push_back(random_text(random, 400));
    expected.push_back(tokenizer.encode(texts.back()));
  }
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int& count : wrong)
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < texts.size(); ++i)
        count += tokenizer.encode(texts[i]) != expected[i] ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, (std::vector<int>(4, 0)));
}

}  // namespace
}  // namespace assay
