// Tokens by id and by text.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "assay/text/tokenizer.h"

namespace assay {

class Vocabulary {
 public:
  // Larger ids are refused: a table of all ids is kept.
  static constexpr TokenId kMaxId = 1 << 24;

  // Longer texts are refused: the longest in use have some hundred bytes.
  static constexpr std::size_t kLongestToken = 4096;
  // More tokens are refused: the largest vocabularies in use have a quarter of a million.
  static constexpr std::size_t kMaxTokens = std::size_t{1} << 21;

  // Throws Error, naming `where`, when the id is out of range or taken, the text stands already or is too
  // long, or there are too many tokens.
  void add(std::string_view text, std::int64_t id, std::string_view where);

  std::optional<TokenId> find(std::string_view text) const;
  bool has(TokenId id) const {
    return id >= 0 && id < end_id() && slot_of_id_[static_cast<std::size_t>(id)] >= 0;
  }
  const std::string& text(TokenId id) const {  // for an id that it has
    return texts_[place(id)];
  }
  // Which token in the order of adding it is, counted from 0.
  std::size_t place(TokenId id) const {
    return static_cast<std::size_t>(slot_of_id_[static_cast<std::size_t>(id)]);
  }
  TokenId end_id() const { return static_cast<TokenId>(slot_of_id_.size()); }  // one more than the largest id
  std::size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // a deque: the views of id_of_text_ stay good
  std::vector<std::int32_t> slot_of_id_;
  std::unordered_map<std::string_view, TokenId> id_of_text_;
};

// Throws Error, naming `where`, for a token longer than Vocabulary::kLongestToken.
void check_length(std::string_view token, std::string_view where);

// Token text as messages show it: short, in quotes, without control characters.
std::string in_quotes(std::string_view text);

}  // namespace assay
