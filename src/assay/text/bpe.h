// Byte-pair encoding of one word: merges pairs of symbols, lowest rank first, leftmost among equals.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "assay/text/pair_map.h"
#include "assay/text/tokenizer.h"

namespace assay {

// `left` followed by `right` becomes `merged`; a rule's rank is its place in the list.
struct MergeRule {
  TokenId left, right, merged;
};

// What a word is at first, before anything is merged.
enum class BpeSymbols : std::uint8_t {
  bytes,
  characters,  // words are valid UTF-8
};

struct BpeRules {
  std::vector<MergeRule> merges;
  BpeSymbols symbols = BpeSymbols::bytes;
  // The token of each single byte; -1 = the vocabulary has none. With characters, the tokens that stand for
  // the bytes of a character without a token of its own, where all of its bytes have one (`byte_fallback`).
  std::array<TokenId, 256> byte_tokens;
  PairMap<TokenId> characters;  // the token of each character, under (place_in_word(), code point)
  // What the vocabulary writes before a character that is not its word's first, and after the last one.
  std::string prefix, suffix;
  // Stands for a byte or character without a token. Without it such are dropped, as the `tokenizers` library
  // does.
  std::optional<TokenId> unknown;
  bool fuse_unknown = false;  // one unknown token for a run of such
  // Words that are a token as they stand, whatever the merges say (`ignore_merges`).
  std::unordered_map<std::string, TokenId> whole_words;
};

// A character at another place in its word is another token where there is a prefix or a suffix.
constexpr std::uint32_t place_in_word(bool is_first, bool is_last) {
  return (is_first ? 0U : 1U) | (is_last ? 2U : 0U);
}

class Bpe {
 public:
  explicit Bpe(BpeRules rules);

  // Appends the ids of the word. n log n in the word. Throws Error beyond 2^32 - 2 bytes.
  void encode(std::string_view word, std::vector<TokenId>& out) const;

 private:
  struct Merge {
    std::uint32_t rank;
    TokenId merged;
  };
  std::optional<Merge> merge_of(TokenId left, TokenId right) const;
  template <typename Sink>
  void start_symbols(std::string_view word, const Sink& sink) const;
  template <typename Sink>
  void start_characters(std::string_view word, const Sink& sink) const;
  void encode_short(std::string_view word, std::vector<TokenId>& out) const;
  void encode_long(std::string_view word, std::vector<TokenId>& out) const;

  BpeRules rules_;
  PairMap<Merge> merges_;
};

// The words met while one text is encoded, with where their ids stand in its result. Lives as long as one
// call, so nothing is shared between threads; a word that falls on another's place takes it, so the size is
// bounded.
class WordCache {
 public:
  explicit WordCache(std::size_t text_bytes);

  // Appends the ids of an equal word met before and returns true; else makes room for `word`, which must stay
  // where it is in memory, and whose ids the caller appends to `out` and then hands over to keep().
  bool append(std::string_view word, std::vector<TokenId>& out);
  void keep(const std::vector<TokenId>& out);

 private:
  static constexpr std::size_t kLongestWord = 64;
  struct Entry {
    const char* word = nullptr;
    std::size_t first_id = 0;
    std::uint32_t length = 0;
    std::uint32_t ids = 0;
  };
  std::vector<Entry> entries_;  // a power of two, or none for short texts
  Entry* open_ = nullptr;       // what keep() completes
};

}  // namespace assay
