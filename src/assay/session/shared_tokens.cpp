#include "assay/session/shared_tokens.h"

namespace assay {

namespace {

std::string_view bytes_of_passage(std::span<const TokenId> ids, std::size_t first) {
  return {reinterpret_cast<const char*>(ids.data() + first), SharedTokens::kPassage * sizeof(TokenId)};
}

}  // namespace

SharedTokens::SharedTokens(std::span<const TokenId> text) {
  for (std::size_t i = 0; i + kPassage <= text.size(); ++i) passages_.insert(bytes_of_passage(text, i));
}

bool SharedTokens::has_part_of(std::span<const TokenId> ids) const {
  for (std::size_t i = 0; i + kPassage <= ids.size(); ++i)
    if (passages_.contains(bytes_of_passage(ids, i))) return true;
  return false;
}

}  // namespace assay
