// Unigram (Kudo 2018): cuts a word into the pieces of the highest sum of scores.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "assay/text/piece_trie.h"

namespace assay {

struct UnigramRules {
  PieceTrie pieces;
  std::vector<double> scores;      // by id; log-probabilities
  std::optional<TokenId> unknown;  // stands for a run of characters that no piece begins with
  // The token of each byte, which then stand for such a run; -1: the vocabulary has none.
  std::array<TokenId, 256> byte_tokens;
};

// The best cut is found from left to right, and of equal ones that whose last piece is the longest stands, as
// in the `tokenizers` library.
class Unigram {
 public:
  explicit Unigram(UnigramRules rules);

  // Appends the ids of the word, valid UTF-8. Linear in the word, times the length of the longest piece.
  // Throws Error for an unknown character where no token stands for such.
  void encode(std::string_view word, std::vector<TokenId>& out) const { encode(word, out, {}); }
  // The same without these pieces; the one of what is unknown stands for that all the same.
  void encode(std::string_view word, std::vector<TokenId>& out,
              const std::unordered_set<TokenId>& left_out) const;

 private:
  // How the best cut of the text up to some byte ends.
  struct Best {
    double score = 0;
    std::uint32_t begin = kNone;  // where its last piece begins
    TokenId id = -1;
  };
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  void reach(Best& best, double score, std::size_t begin, TokenId id) const;
  void append_unknown(std::string_view run, std::vector<TokenId>& out,
                      const std::unordered_set<TokenId>& left_out) const;

  UnigramRules rules_;
  double unknown_score_;
};

}  // namespace assay
