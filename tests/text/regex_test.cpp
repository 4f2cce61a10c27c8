// Expressions that files bring along: what they match, and what a hostile one may cost.
#include "assay/text/regex.h"

#include <ctime>
#include <string>
#include <vector>

#include "assay/text/pretokenize.h"
#include "assay/text/utf8.h"
#include "small_tokenizer.h"

namespace assay {
namespace {

std::vector<std::string> matches_of(const std::string& pattern, const std::string& text) {
  const Regex regex(pattern, "here");
  RegexBudget budget(text.size());
  Regex::Search search(regex, text, budget);
  std::vector<std::string> found;
  while (const auto match = search.next())
    found.push_back(text.substr(match->begin, match->end - match->begin));
  return found;
}

// By the processor's time: what else runs on the machine does not count.
template <typename Action>
double processor_seconds(const Action& action) {
  const std::clock_t begin = std::clock();
  action();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

using Found = std::vector<std::string>;

TEST(Regex, FindsMatchesFromTheLeft) {
  EXPECT_EQ(matches_of("a+|b", "aabcab"), (Found{"aa", "b", "a", "b"}));
  EXPECT_EQ(matches_of("\\p{L}+", "na\xC3\xAFve 1"), (Found{"na\xC3\xAFve"}));
  EXPECT_EQ(matches_of("z", "abc"), Found{});
  // An empty match follows no other, and there is none in an empty text.
  EXPECT_EQ(matches_of("x*", "axxb"), (Found{"", "xx", ""}));
  EXPECT_EQ(matches_of("x*", ""), Found{});
  EXPECT_EQ(matches_of("(?=\xC3\xA9)", "\xC3\xA9\xC3\xA9"), (Found{"", ""}));
}

TEST(Regex, ClassifiesCharactersOfUnicode16) {
  for (const char32_t c : {0x1C8AU, 0xA7CBU, 0x10D4EU, 0x11380U, 0x2EBF0U, 0x31350U}) {
    std::string text;
    append_utf8(text, c);
    EXPECT_EQ(matches_of("\\p{L}", text), Found{text}) << static_cast<unsigned>(c);
    EXPECT_EQ(matches_of("\\P{L}", text), Found{}) << static_cast<unsigned>(c);
  }
  for (char32_t c = 0; c < 0x32400; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    if (const auto older = with_older_characters(text)) {
      EXPECT_EQ(older->size(), text.size()) << static_cast<unsigned>(c);
      std::size_t length = 0;
      EXPECT_EQ(char_class(read_valid_utf8(*older, 0, length)), char_class(c)) << static_cast<unsigned>(c);
    }
  }
  EXPECT_EQ(with_older_characters("plain \xE4\xB8\xAD\xF0\x9F\x98\x80"), std::nullopt);
}

TEST(Regex, GivesUpWhereAlternativesMultiply) {
  for (const char* pattern : {"(a+)+$", "(a|aa)+$", "(?:(?:a*)b?)*$"}) {
    std::string message;
    EXPECT_LT(processor_seconds(
                  [&] { message = error_of([&] { matches_of(pattern, std::string(40, 'a') + "!"); }); }),
              30.0);
    EXPECT_EQ(message.substr(0, message.find(" fails")), fmt::format("here: the pattern '{}'", pattern));
    EXPECT_TRUE(holds(message, "fails in more than 10000000 ways in a text of 41 bytes")) << message;
  }
}

TEST(Regex, TimeIsBoundedWhereEverySearchIsLong) {
  const std::string text(100'000, 'a');
  const Regex regex("(?=[^z]*+(z)?)a", "here");
  RegexBudget budget(text.size(), 2);
  Regex::Search search(regex, text, budget);
  std::string message;
  const double seconds = processor_seconds([&] {
    message = error_of([&] {
      while (search.next()) {
      }
    });
  });
  EXPECT_TRUE(
      holds(message, "here: the pattern '(?=[^z]*+(z)?)a' takes longer than 3 s on a text of 100000 bytes"))
      << message;
  EXPECT_LT(seconds, 20.0);
  EXPECT_EQ(RegexBudget(1'000'000).seconds(), 20.0);
}

TEST(Regex, LongPiecesMatch) {
  const std::string letters(1'000'000, 'a');
  EXPECT_EQ(matches_of("\\p{L}+", letters), Found{letters});
  EXPECT_EQ(matches_of("(?:a|b)+", letters), Found{letters});
  EXPECT_TRUE(holds(error_of([&] { matches_of("(?:a|b)+c", std::string(5'000'000, 'a')); }),
                    "here: the pattern '(?:a|b)+c' leaves more than 4000000 alternatives open in a text of "
                    "5000000 bytes"));
}

TEST(Regex, CompilesHostilePatternsInTime) {
  std::string nested = "a";
  for (int i = 0; i < 8; ++i) nested = "(?:" + nested + "){1,1000}";
  std::string clusters;
  for (int i = 0; i < 2000; ++i) clusters += "\\X";
  std::string folds = "(?i:";
  for (int i = 0; i < 1000; ++i) folds += "ss\xC3\x9F";
  folds += ")";
  for (const std::string& pattern :
       {nested, clusters, folds, std::string("(?:(?:(?:\\b){100000}){100000}){100000}"),
        std::string("(?:(?:(?:(?:a{0}){100000}){100000}){100000})x")}) {
    EXPECT_LT(processor_seconds([&] {
                try {
                  matches_of(pattern, "aaaa bbbb ssss");
                } catch (const Error& e) {
                  EXPECT_TRUE(std::string(e.what()).starts_with("here: ")) << e.what();
                }
              }),
              10.0)
        << pattern.substr(0, 40);
  }
}

TEST(Regex, ReplacementsMayNotGrowATextWithoutBound) {
  Json file = small_tokenizer();
  file["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "a"}}}, {"content", "aaaaaaaa"}};
  const Tokenizer tokenizer = load_json(file);
  EXPECT_EQ(tokenizer.encode("ba").size(), 9U);
  EXPECT_TRUE(
      holds(error_of([&] { tokenizer.encode(std::string(100'000, 'a')); }),
            "tokenizer.json: normalizer: expected replacements that make a text at most 4 times as long, "
            "found 'aaaaaaaa'"));
}

TEST(Regex, HostileSplitsOfAFileAreNamed) {
  Json file = small_tokenizer();
  file["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "(x+x+)+$"}}}, {"behavior", "Isolated"}, {"invert", false}};
  file["decoder"] = {{"type", "Metaspace"}, {"replacement", "_"}};
  const Tokenizer tokenizer = load_json(file);
  const std::string message = error_of([&] { tokenizer.encode(std::string(64, 'x') + '!'); });
  EXPECT_TRUE(holds(message, "tokenizer.json: pre_tokenizer: the pattern '(x+x+)+$' fails in more than"))
      << message;
}

}  // namespace
}  // namespace assay
