// Added tokens in text, as the `tokenizers` library finds them.
#include "assay/text/added_tokens.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "small_tokenizer.h"

namespace assay {
namespace {

AddedToken token(std::string content, TokenId id) {
  AddedToken added;
  added.content = std::move(content);
  added.id = id;
  return added;
}

// Pieces as "text" or "[id:text]", which is how they can be read.
std::string pieces(const std::vector<AddedToken>& tokens, const std::string& text) {
  std::string shown;
  const AddedTokens added(tokens);
  const auto show = [&](const TextPiece& piece, const std::string& whole) {
    const std::string part = whole.substr(piece.begin, piece.end - piece.begin);
    shown += piece.id >= 0 ? fmt::format("[{}:{}]", piece.id, part) : part + "|";
  };
  for (const TextPiece& piece : added.split(text)) {
    const std::string between = text.substr(piece.begin, piece.end - piece.begin);
    if (piece.id >= 0) {
      show(piece, text);
    } else {
      for (const TextPiece& part : added.split_normalized(between)) show(part, between);
    }
  }
  return shown;
}

TEST(AddedTokens, LeftmostThenLongest) {
  const std::vector<AddedToken> tokens = {token("<x>", 1), token("<x>y", 2), token("x>y", 3), token("bc", 4),
                                          token("abcd", 5)};
  EXPECT_EQ(pieces(tokens, "a<x>b"), "a|[1:<x>]b|");
  EXPECT_EQ(pieces(tokens, "<x>yy"), "[2:<x>y]y|");
  EXPECT_EQ(pieces(tokens, "x>y<x>"), "[3:x>y][1:<x>]");
  EXPECT_EQ(pieces(tokens, "abcabcd"), "a|[4:bc][5:abcd]");
  EXPECT_EQ(pieces(tokens, ""), "");
  EXPECT_EQ(pieces({}, "plain"), "plain|");
}

TEST(AddedTokens, SingleWordTouchesNoWordCharacter) {
  AddedToken x = token("<x>", 1);
  x.single_word = true;
  EXPECT_EQ(pieces({x}, "<x>, <x>"), "[1:<x>], |[1:<x>]");
  EXPECT_EQ(pieces({x}, "a<x>"), "a<x>|");
  EXPECT_EQ(pieces({x}, "<x>1"), "<x>1|");
  EXPECT_EQ(pieces({x}, "_<x> <x>"), "_<x> |[1:<x>]");
  EXPECT_EQ(pieces({x}, "\xCC\xB0<x>"), "\xCC\xB0<x>|");  // a combining mark is a word character
  // A longer match that is discarded takes its text with it.
  EXPECT_EQ(pieces({x, token(">", 2)}, "a<x>"), "a<x>|");
}

TEST(AddedTokens, StripTakesWhiteSpace) {
  AddedToken left = token("<l>", 1), right = token("<r>", 2);
  left.lstrip = true;
  right.rstrip = true;
  EXPECT_EQ(pieces({left, right}, "a \t<l> b"), "a|[1: \t<l>] b|");
  EXPECT_EQ(pieces({left, right}, "a <r>\xE3\x80\x80\n b"), "a |[2:<r>\xE3\x80\x80\n ]b|");
  EXPECT_EQ(pieces({left, right}, "<r>  <l>"), "[2:<r>  ][1:<l>]");
  EXPECT_EQ(pieces({left, right}, "<r>\xE2\x80\x8B"), "[2:<r>]\xE2\x80\x8B|");  // zero-width space is none
}

TEST(AddedTokens, TokensInsideStrippedSpace) {
  AddedToken right = token("<r>", 1), blank_left = token("\n", 2);
  right.rstrip = true;
  // The library finds them all the same, and goes on from where they end.
  EXPECT_EQ(pieces({right, token("\n", 2)}, "<r> \n b"), "[1:<r> \n ][2:\n] b|");
  EXPECT_EQ(pieces({right, token(" B", 2)}, "<r> B"), "[1:<r> ][2: B]");
  blank_left.lstrip = true;
  EXPECT_EQ(pieces({right, blank_left}, "<r> \nb"), "[1:<r> \n]b|");  // nothing is left of it
}

TEST(AddedTokens, NormalizedOnesSeeWhatTheOthersLeave) {
  AddedToken late = token("b<x", 1);
  late.normalized = true;
  EXPECT_EQ(pieces({late, token("<x>", 2)}, "b<x>b<x"), "b|[2:<x>][1:b<x]");
  late.single_word = true;  // and take the edges of the piece for edges of the text
  EXPECT_EQ(pieces({late, token("a", 2)}, "ab<xa"), "[2:a][1:b<x][2:a]");
}

TEST(PatternFinder, FindsTheLongestAtEachByte) {
  std::mt19937 random(3);
  const auto random_text = [&](std::size_t length) {
    std::string text;
    for (std::size_t i = 0; i < length; ++i) text += static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> patterns;
    for (int i = 0; i < 6; ++i) patterns.push_back(random_text(1 + random() % 5));
    std::sort(patterns.begin(), patterns.end());
    patterns.erase(std::unique(patterns.begin(), patterns.end()), patterns.end());
    const std::string text = random_text(40);
    std::vector<std::size_t> longest(text.size(), 0), found(text.size(), 0);
    for (std::size_t at = 0; at < text.size(); ++at)
      for (const std::string& pattern : patterns)
        if (text.compare(at, pattern.size(), pattern) == 0)
          longest[at] = std::max(longest[at], pattern.size());
    for (const auto& match : PatternFinder({patterns.begin(), patterns.end()}).find(text))
      found[match.begin] = patterns[match.pattern].size();
    ASSERT_EQ(found, longest) << text;
  }
}

TEST(AddedTokens, HostileTokensTakeLinearTime) {
  AddedToken blank = token(" ", 2);
  blank.rstrip = true;
  std::vector<AddedToken> tokens = {token(std::string(100000, 'a') + "b", 1), blank};
  const std::string text = std::string(1 << 20, 'a') + std::string(1 << 20, ' ') + "z";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(AddedTokens(tokens).split(text).size(), (std::size_t{1} << 20) + 2);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(seconds.count(), 20.0);
}

}  // namespace
}  // namespace assay
