// SentencePiece's precompiled map of characters (`precompiled_charsmap`): which texts of a few characters
// become which others, as a trie in the form of Darts-clone (Yata) behind which the results lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

class Charsmap {
 public:
  // `bytes` as a SentencePiece model holds them. Throws Error, naming `where`, where they are no such map.
  Charsmap(std::string_view bytes, std::string where);

  // `text`, valid UTF-8, as the Precompiled normalizer of `tokenizers` maps it: grapheme by grapheme where
  // one has fewer than six bytes and begins with an entry, else character by character. Throws Error where
  // the text becomes `most_bytes` long or longer.
  std::string apply(std::string_view text, std::size_t most_bytes) const;

 private:
  // What stands for a text that begins with an entry: the shortest one.
  std::optional<std::string_view> entry(std::string_view text) const;

  std::vector<std::uint32_t> units_;
  std::string results_;  // each ends with a zero byte
  std::string where_;
};

// The bytes that `text` stands for in base64; nothing where it is none.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace assay
