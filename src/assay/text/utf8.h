// Reading UTF-8 one sequence at a time, with what is wrong told apart from what is only unfinished.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace assay {

enum class Utf8Kind : std::uint8_t {
  good,
  malformed,  // can never become a character, whatever follows
  cut,        // the text ends inside what may still become one
};

struct Utf8Step {
  char32_t code_point = 0;  // where good
  std::uint8_t length = 0;  // bytes of the character, or of the maximal subpart of an ill-formed one
  Utf8Kind kind = Utf8Kind::good;
};

// The sequence at `at` (< text.size()), by table 3-7 of the Unicode Standard.
Utf8Step read_utf8(std::string_view text, std::size_t at);

// The code point at `at` in text known to be well-formed; `length` receives its bytes.
inline char32_t read_valid_utf8(std::string_view text, std::size_t at, std::size_t& length) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]));
  };
  const char32_t lead = byte(0);
  if (lead < 0x80) return length = 1, lead;
  if (lead < 0xE0) return length = 2, (lead & 0x1F) << 6 | (byte(1) & 0x3F);
  if (lead < 0xF0) return length = 3, (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  return length = 4, (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
}

// Where the character before `at` (> 0) begins, in text known to be well-formed.
inline std::size_t previous_utf8(std::string_view text, std::size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

void append_utf8(std::string& out, char32_t code_point);

// Appends `text` to `out` with U+FFFD for each malformed sequence. Stops before a cut one at the end, and
// returns how many bytes were taken.
std::size_t append_replacing_malformed(std::string& out, std::string_view text);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace assay
