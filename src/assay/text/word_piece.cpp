#include "assay/text/word_piece.h"

#include <algorithm>

namespace assay {

void WordPiece::encode(std::string_view word, std::vector<TokenId>& out) const {
  const auto characters = std::count_if(
      word.begin(), word.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  if (static_cast<std::size_t>(characters) > rules_.most_characters) return out.push_back(rules_.unknown);
  const std::size_t first = out.size();
  for (std::size_t begin = 0; begin < word.size();) {
    std::size_t longest = 0;
    TokenId token = -1;
    (begin == 0 ? rules_.starts : rules_.continuations)
        .for_each_prefix(word.substr(begin), [&](std::size_t bytes, TokenId id) {
          longest = bytes;
          token = id;
        });
    if (longest == 0) {
      out.resize(first);
      return out.push_back(rules_.unknown);
    }
    out.push_back(token);
    begin += longest;
  }
}

}  // namespace assay
