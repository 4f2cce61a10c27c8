// Collects tokens and refuses ids that repeat or are absurd.
#include "assay/text/vocabulary.h"

#include "assay/base/error.h"
#include "assay/text/utf8.h"

namespace assay {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 60;
  if (text.size() <= kShown) return fmt::format("'{}'", text);
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return fmt::format("'{}...' ({} bytes)", text.substr(0, end), text.size());
}

void Vocabulary::add(std::string_view text, std::int64_t id, std::string_view where) {
  if (id < 0 || id > kLargestId)
    throw Error("{}: token {}: expected an id from 0 to {}, found {}", where, in_quotes(text), kLargestId,
                id);
  const auto slot = static_cast<std::size_t>(id);
  if (slot < slot_of_id_.size() && slot_of_id_[slot] >= 0)
    throw Error("{}: token {}: expected an id of its own, found {}, which is that of {}", where,
                in_quotes(text), id, in_quotes(this->text(static_cast<TokenId>(id))));
  if (find(text)) throw Error("{}: token {} stands twice in the vocabulary", where, in_quotes(text));
  if (slot >= slot_of_id_.size()) slot_of_id_.resize(slot + 1, -1);
  slot_of_id_[slot] = static_cast<std::int32_t>(texts_.size());
  id_of_text_.emplace(texts_.emplace_back(text), static_cast<TokenId>(id));
}

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  const auto it = id_of_text_.find(text);
  return it == id_of_text_.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace assay
