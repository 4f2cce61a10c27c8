// WordPiece (Schuster and Nakajima 2012; BERT): of a word, the longest token first, then of what is left.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/text/piece_trie.h"

namespace assay {

struct WordPieceRules {
  PieceTrie starts;                   // all tokens: a word may begin with any
  PieceTrie continuations;            // those for the rest of a word, without the prefix that marks them
  TokenId unknown = -1;               // a word that cannot be cut whole
  std::size_t most_characters = 100;  // longer words are unknown
};

class WordPiece {
 public:
  explicit WordPiece(WordPieceRules rules) : rules_(std::move(rules)) {}

  // Appends the ids of the word, valid UTF-8. Linear in the word, times the length of the longest token.
  void encode(std::string_view word, std::vector<TokenId>& out) const;

 private:
  WordPieceRules rules_;
};

}  // namespace assay
