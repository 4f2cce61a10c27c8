// Bytes to printable characters and back, as GPT-2's bytes_to_unicode() lays them out.
#include "assay/text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "assay/text/utf8.h"

namespace assay {

namespace {

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<std::int16_t, 256 + 68> byte;  // the byte of each character; -1 = outside the alphabet

  constexpr Alphabet() {
    byte.fill(-1);
    // Bytes that are printable in Latin-1 stand for themselves, the other 68 follow from U+0100 on.
    char32_t next = 256;
    for (unsigned b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
      character[b] = printable ? b : next++;
      byte[character[b]] = static_cast<std::int16_t>(b);
    }
  }
};

constexpr Alphabet kAlphabet;

}  // namespace

char32_t character_of_byte(unsigned char byte) {
  return kAlphabet.character[byte];
}

std::string to_byte_alphabet(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) append_utf8(out, character_of_byte(static_cast<unsigned char>(c)));
  return out;
}

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  std::string bytes;
  std::size_t length = 0;
  for (std::size_t at = 0; at < text.size(); at += length) {
    const char32_t c = read_valid_utf8(text, at, length);
    if (c >= kAlphabet.byte.size() || kAlphabet.byte[c] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(static_cast<unsigned char>(kAlphabet.byte[c])));
  }
  return bytes;
}

}  // namespace assay
