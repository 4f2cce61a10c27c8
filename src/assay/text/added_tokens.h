// Finds added tokens in text before it is cut into words, as the `tokenizers` library does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "assay/text/normalizer.h"
#include "assay/text/pair_map.h"
#include "assay/text/tokenizer.h"

namespace assay {

struct AddedToken {
  std::string content;
  TokenId id = -1;
  bool special = false;      // left out when decoding skips special tokens
  bool single_word = false;  // found only where no word character touches it
  bool lstrip = false;       // takes the white space on its left
  bool rstrip = false;       // and on its right
  bool normalized = false;   // looked for, itself normalized, in the normalized text that others have left
};

// A piece of text: an added token, or text between them where `id` is -1.
struct TextPiece {
  std::size_t begin, end;
  TokenId id;
};

// Finds the leftmost, and there the longest, of some patterns: an Aho-Corasick automaton (Aho and Corasick
// 1975) of the reversed patterns, run from the end of the text, meets at each byte the longest pattern
// beginning there.
class PatternFinder {
 public:
  explicit PatternFinder(const std::vector<std::string_view>& patterns);  // none empty, none twice

  struct Match {
    std::size_t begin;
    std::uint32_t pattern;
  };
  // The longest pattern at each byte where one begins, last byte first. Linear in the text.
  std::vector<Match> find(std::string_view text) const;
  std::size_t length(std::uint32_t pattern) const { return lengths_[pattern]; }  // in bytes

 private:
  std::uint32_t step(std::uint32_t state, unsigned char byte) const;

  static constexpr std::uint32_t kRoot = 0;
  struct State {
    std::uint32_t fallback = kRoot;  // the longest suffix that is a state too
    std::int32_t longest = -1;       // the longest pattern that is a suffix
  };
  std::vector<State> states_;
  std::vector<std::size_t> lengths_;
  std::array<std::uint32_t, 256> from_root_{};
  PairMap<std::uint32_t> children_;
};

class AddedTokens {
 public:
  explicit AddedTokens(const std::vector<AddedToken>& tokens);
  // With `splits_special` special tokens are not found. `budget` is what loading may take.
  AddedTokens(const std::vector<AddedToken>& tokens, const Normalizer& normalizer, bool splits_special,
              RegexBudget& budget);

  // The pieces of valid UTF-8 `text`, none of them empty text, by the tokens that are not normalized.
  std::vector<TextPiece> split(std::string_view text) const;
  // The pieces of normalized text between those, by the tokens that are.
  std::vector<TextPiece> split_normalized(std::string_view text) const;

 private:
  AddedTokens(const std::vector<AddedToken>& tokens, RegexBudget budget);
  struct Group {
    std::vector<AddedToken> tokens;
    PatternFinder finder;
  };
  static Group group_of(std::vector<AddedToken> members);
  std::vector<TextPiece> split_by(const Group& group, std::string_view text) const;

  Group plain_, normalized_;
  bool splits_special_;
};

}  // namespace assay
