// One token for each word of the pre-tokenizer.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/text/piece_trie.h"

namespace assay {

class WordLevel {
 public:
  WordLevel(PieceTrie words, std::optional<TokenId> unknown) : words_(std::move(words)), unknown_(unknown) {}

  // Appends the id of the word. Throws Error for a word that is no token where none stands for such.
  void encode(std::string_view word, std::vector<TokenId>& out) const;

 private:
  PieceTrie words_;
  std::optional<TokenId> unknown_;
};

}  // namespace assay
