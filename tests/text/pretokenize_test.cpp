// The scanner against the regular expression it stands for.
#include "assay/text/pretokenize.h"

#include <string>
#include <vector>

#include "assay/text/utf8.h"
#include "small_tokenizer.h"

namespace assay {
namespace {

using Words = std::vector<std::string>;

Words words_of(const std::string& text, WordPattern pattern = WordPattern::gpt2) {
  Words words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = word_end(pattern, text, begin);
    if (end <= begin || end > text.size()) throw Error("no progress at {}", begin);
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

TEST(Pretokenize, TakesOneBlankWithAWord) {
  EXPECT_EQ(words_of("Hello world"), (Words{"Hello", " world"}));
  EXPECT_EQ(words_of(" a 1 !"), (Words{" a", " 1", " !"}));
  EXPECT_EQ(words_of("abc123!?"), (Words{"abc", "123", "!?"}));
  EXPECT_EQ(words_of("a_b-c"), (Words{"a", "_", "b", "-", "c"}));
}

TEST(Pretokenize, ContractionsAreLowerCase) {
  EXPECT_EQ(words_of("it's I'm he'd we'll you've they're can't"),
            (Words{"it", "'s", " I", "'m", " he", "'d", " we", "'ll", " you", "'ve", " they", "'re", " can",
                   "'t"}));
  EXPECT_EQ(words_of("IT'S WE'LL"), (Words{"IT", "'", "S", " WE", "'", "LL"}));
  EXPECT_EQ(words_of("we'lL 'Re"), (Words{"we", "'", "lL", " '", "Re"}));
}

TEST(Pretokenize, ContractionsNeedNoWordAround) {
  EXPECT_EQ(words_of("'sad"), (Words{"'s", "ad"}));
  EXPECT_EQ(words_of("'t'x'l'"), (Words{"'t", "'", "x", "'", "l", "'"}));
  EXPECT_EQ(words_of("'"), (Words{"'"}));
  EXPECT_EQ(words_of("'l"), (Words{"'", "l"}));
  EXPECT_EQ(words_of("'rx 'vx"), (Words{"'", "rx", " '", "vx"}));
  // The blank, or the run of marks before, takes the apostrophe with it.
  EXPECT_EQ(words_of(" 's"), (Words{" '", "s"}));
  EXPECT_EQ(words_of("''s"), (Words{"''", "s"}));
  EXPECT_EQ(words_of("\"'s"), (Words{"\"'", "s"}));
}

TEST(Pretokenize, RunOfBlanksGivesItsLastBack) {
  EXPECT_EQ(words_of("a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(words_of("a  b"), (Words{"a", " ", " b"}));
  EXPECT_EQ(words_of("a\n\nb"), (Words{"a", "\n", "\n", "b"}));
  EXPECT_EQ(words_of("a\tb"), (Words{"a", "\t", "b"}));
  EXPECT_EQ(words_of("a \tb"), (Words{"a", " ", "\t", "b"}));
  EXPECT_EQ(words_of("a\t b"), (Words{"a", "\t", " b"}));
  EXPECT_EQ(words_of("a\n\n\n 1"), (Words{"a", "\n\n\n", " 1"}));
}

TEST(Pretokenize, RunOfBlanksAtTheEndStaysWhole) {
  EXPECT_EQ(words_of("a "), (Words{"a", " "}));
  EXPECT_EQ(words_of("a   "), (Words{"a", "   "}));
  EXPECT_EQ(words_of(" \n\t "), (Words{" \n\t "}));
  EXPECT_EQ(words_of(""), (Words{}));
}

TEST(Pretokenize, WhiteSpaceBeyondAscii) {
  // No-break space, ideographic space, next line: white space, but never the blank that goes with a word.
  EXPECT_EQ(words_of("a\xC2\xA0z"), (Words{"a", "\xC2\xA0", "z"}));
  EXPECT_EQ(words_of("a\xE3\x80\x80\xE3\x80\x80z"), (Words{"a", "\xE3\x80\x80", "\xE3\x80\x80", "z"}));
  EXPECT_EQ(words_of("a\xC2\x85 z"), (Words{"a", "\xC2\x85", " z"}));
  // Zero-width space, byte order mark, U+001C: not White_Space.
  EXPECT_EQ(words_of("a\xE2\x80\x8B!"), (Words{"a", "\xE2\x80\x8B!"}));
  EXPECT_EQ(words_of("a\xEF\xBB\xBF!"), (Words{"a", "\xEF\xBB\xBF!"}));
  EXPECT_EQ(words_of("a\x1C!"), (Words{"a", "\x1C!"}));
}

TEST(Pretokenize, ClassesBeyondAscii) {
  EXPECT_EQ(words_of("na\xC3\xAFve \xD0\x9F\xD1\x80"), (Words{"na\xC3\xAFve", " \xD0\x9F\xD1\x80"}));
  EXPECT_EQ(words_of("\xC2\xBD\xE2\x85\xA7"
                     "1"),
            (Words{"\xC2\xBD\xE2\x85\xA7"
                   "1"}));                                           // a half, Roman eight
  EXPECT_EQ(words_of("e\xCC\x81g"), (Words{"e", "\xCC\x81", "g"}));  // a combining mark is no letter
  EXPECT_EQ(words_of("a\xE2\x80\x99s"),
            (Words{"a", "\xE2\x80\x99", "s"}));  // nor is a curly quote an apostrophe
}

TEST(Pretokenize, Llama3TakesOneCharacterWithLetters) {
  const auto words = [](const std::string& text) { return words_of(text, WordPattern::llama3); };
  EXPECT_EQ(words("Hello world"), (Words{"Hello", " world"}));
  EXPECT_EQ(words("(a \"b\tc"), (Words{"(a", " \"", "b", "\tc"}));
  EXPECT_EQ(words("a_b__c"), (Words{"a", "_b", "__", "c"}));
  EXPECT_EQ(words("a\xC2\xA0z \xE3\x80\x80z"), (Words{"a", "\xC2\xA0z", " ", "\xE3\x80\x80z"}));
  EXPECT_EQ(words("\nx\ry"), (Words{"\n", "x", "\r", "y"}));    // but not the end of a line
  EXPECT_EQ(words("1a 1b"), (Words{"1", "a", " ", "1", "b"}));  // nor a number
}

TEST(Pretokenize, Llama3ContractionsHaveAnyCase) {
  const auto words = [](const std::string& text) { return words_of(text, WordPattern::llama3); };
  EXPECT_EQ(words("it's IT'S we'Ll'VE'"), (Words{"it", "'s", " IT", "'S", " we", "'Ll", "'VE", "'"}));
  EXPECT_EQ(words("a'\xC5\xBFx"), (Words{"a", "'\xC5\xBF", "x"}));  // the long s
  EXPECT_EQ(words("'xs 's"), (Words{"'xs", " '", "s"}));
}

TEST(Pretokenize, Llama3NumbersHaveThreeDigitsAndQwen2One) {
  EXPECT_EQ(words_of("1234567 89", WordPattern::llama3), (Words{"123", "456", "7", " ", "89"}));
  EXPECT_EQ(words_of("12 3", WordPattern::qwen2), (Words{"1", "2", " ", "3"}));
  EXPECT_EQ(words_of("\xC2\xBD\xE2\x85\xA7"
                     "12",
                     WordPattern::llama3),
            (Words{"\xC2\xBD\xE2\x85\xA7"
                   "1",
                   "2"}));
}

TEST(Pretokenize, Llama3KeepsEndsOfLinesTogether) {
  const auto words = [](const std::string& text) { return words_of(text, WordPattern::llama3); };
  EXPECT_EQ(words("a!\r\n\n b"), (Words{"a", "!\r\n\n", " b"}));
  EXPECT_EQ(words("a \n \n  b"), (Words{"a", " \n \n", " ", " b"}));
  EXPECT_EQ(words("a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(words("a   !"), (Words{"a", "  ", " !"}));
  EXPECT_EQ(words("a  1"), (Words{"a", " ", " ", "1"}));
  EXPECT_EQ(words(" \n  "), (Words{" \n", "  "}));
  EXPECT_EQ(words("a\xE2\x80\xA8 b"), (Words{"a", "\xE2\x80\xA8", " b"}));  // not a line end to it
}

TEST(Pretokenize, KnowsThePatternsOfFiles) {
  const std::string llama3 =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const std::string qwen2 =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  EXPECT_EQ(word_pattern(llama3), WordPattern::llama3);
  EXPECT_EQ(word_pattern(qwen2), WordPattern::qwen2);
  EXPECT_EQ(word_pattern(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"),
            WordPattern::gpt2);
  EXPECT_EQ(word_pattern(llama3 + "|x"), std::nullopt);
  EXPECT_EQ(word_pattern(llama3.substr(1)), std::nullopt);
  EXPECT_EQ(word_pattern(""), std::nullopt);
}

TEST(Metaspace, PutsAMarkWhereItsSchemeSays) {
  Metaspace metaspace{"_", Metaspace::Prepend::always, true};
  EXPECT_EQ(metaspace.apply("a b  c", false), "_a_b__c");
  EXPECT_EQ(metaspace.apply(" a", false), "_a");
  EXPECT_EQ(metaspace.apply("_a", true), "_a");
  metaspace.prepend = Metaspace::Prepend::first;
  EXPECT_EQ(metaspace.apply("a", true), "_a");
  EXPECT_EQ(metaspace.apply("a", false), "a");
  metaspace.prepend = Metaspace::Prepend::never;
  EXPECT_EQ(metaspace.apply("a ", true), "a_");
}

TEST(Metaspace, MarksBeginWords) {
  const auto words = [](const std::string& text, bool keeps_runs) {
    Words all;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = marked_word_end("__", keeps_runs, text, begin);
      if (end <= begin || end > text.size()) throw Error("no progress at {}", begin);
      all.push_back(text.substr(begin, end - begin));
      begin = end;
    }
    return all;
  };
  EXPECT_EQ(words("a__b____c__", false), (Words{"a", "__b", "__", "__c", "__"}));
  EXPECT_EQ(words("a__b____c__", true), (Words{"a", "__b", "____c", "__"}));
  EXPECT_EQ(words("____", false), (Words{"__", "__"}));
  EXPECT_EQ(words("____", true), (Words{"____"}));
  EXPECT_EQ(words("ab", true), (Words{"ab"}));
}

// Counted once over all code points of the `tokenizers` library 0.23 (Unicode 16).
TEST(Pretokenize, CountsOfEachClass) {
  int counts[4] = {};
  for (char32_t c = 0; c < 0x110000; ++c)
    if (c < 0xD800 || c >= 0xE000) ++counts[static_cast<int>(char_class(c))];
  EXPECT_EQ(counts[static_cast<int>(CharClass::letter)], 141028);
  EXPECT_EQ(counts[static_cast<int>(CharClass::number)], 1911);
  EXPECT_EQ(counts[static_cast<int>(CharClass::space)], 25);
}

TEST(Pretokenize, KnowsLettersOfUnicode16) {
  EXPECT_EQ(char_class(0x1C89), CharClass::letter);
  EXPECT_EQ(char_class(0x2EE5D), CharClass::letter);
  EXPECT_EQ(char_class(0x10D40), CharClass::number);
  EXPECT_EQ(char_class(0x1C8B), CharClass::other);
  EXPECT_EQ(char_class(0x10FFFF), CharClass::other);
}

TEST(Pretokenize, WordCharacters) {
  for (const char32_t c : {U'a', U'Z', U'0', U'_', U'\u00E9', U'\u0301', U'\u200D', U'\u24B6', U'\u203F',
                           U'\u2160', U'\U000113C2', U'\u0897'})
    EXPECT_TRUE(is_word_char(c)) << static_cast<unsigned>(c);
  for (const char32_t c :
       {U' ', U'-', U'\'', U'\u00BD', U'\u00B2', U'\u2019', U'\u200B', U'\u3000', U'\U0001F600'})
    EXPECT_FALSE(is_word_char(c)) << static_cast<unsigned>(c);
}

}  // namespace
}  // namespace assay
