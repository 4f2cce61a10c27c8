// The byte-level alphabet of GPT-2: one printable character for each of the 256 bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace assay {

// The character that stands for `byte` in vocabulary files.
char32_t character_of_byte(unsigned char byte);
// The bytes as a vocabulary file writes them.
std::string to_byte_alphabet(std::string_view bytes);
// The bytes that well-formed `text` stands for; nothing if any of its characters is outside the alphabet.
std::optional<std::string> from_byte_alphabet(std::string_view text);

}  // namespace assay
