// Cuts text into the words that byte-level BPE works on, by GPT-2's regular expression.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace assay {

enum class CharClass : std::uint8_t {
  other,
  letter,  // \p{L}
  number,  // \p{N}
  space,   // \s, which is White_Space
};

CharClass char_class(char32_t code_point);

// \w as the `single_word` flag of added tokens means it: letters, marks, digits, connectors, joiners.
bool is_word_char(char32_t code_point);

// Where the match that begins at `begin` (< text.size()) ends, for
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// The matches cover any text without gaps. `text` must be valid UTF-8.
std::size_t word_end(std::string_view text, std::size_t begin);

}  // namespace assay
