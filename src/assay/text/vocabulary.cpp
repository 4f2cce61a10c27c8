// Collects tokens and refuses ids that repeat or are absurd.
#include "assay/text/vocabulary.h"

#include <algorithm>

#include "assay/base/error.h"
#include "assay/text/utf8.h"

namespace assay {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 60;
  std::size_t end = std::min(text.size(), kShown);
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  std::string shown;
  for (const char c : text.substr(0, end)) {
    // A file must not be able to write to the terminal by way of a message.
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += c;
    }
  }
  if (end == text.size()) return fmt::format("'{}'", shown);
  return fmt::format("'{}...' ({} bytes)", shown, text.size());
}

void check_length(std::string_view token, std::string_view where) {
  if (token.size() > Vocabulary::kLongestToken)
    throw Error("{}: token {}: expected a text of at most {} bytes", where, in_quotes(token),
                Vocabulary::kLongestToken);
}

void Vocabulary::add(std::string_view text, std::int64_t id, std::string_view where) {
  if (id < 0 || id > kMaxId)
    throw Error("{}: token {}: expected an id from 0 to {}, found {}", where, in_quotes(text), kMaxId, id);
  check_length(text, where);
  if (texts_.size() == kMaxTokens)
    throw Error("{}: token {}: expected at most {} tokens, found more", where, in_quotes(text), kMaxTokens);
  const auto slot = static_cast<std::size_t>(id);
  if (slot < slot_of_id_.size() && slot_of_id_[slot] >= 0)
    throw Error("{}: token {}: expected an id of its own, found {}, which is that of {}", where,
                in_quotes(text), id, in_quotes(this->text(static_cast<TokenId>(id))));
  if (find(text)) throw Error("{}: duplicate token {} in the vocabulary", where, in_quotes(text));
  if (slot >= slot_of_id_.size()) slot_of_id_.resize(slot + 1, -1);
  slot_of_id_[slot] = static_cast<std::int32_t>(texts_.size());
  id_of_text_.emplace(texts_.emplace_back(text), static_cast<TokenId>(id));
}

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  const auto it = id_of_text_.find(text);
  return it == id_of_text_.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace assay
