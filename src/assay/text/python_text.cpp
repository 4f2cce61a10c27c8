#include "assay/text/python_text.h"

#include <utf8proc.h>

#include "assay/text/normalizer.h"
#include "assay/text/utf8.h"

namespace assay {

bool is_python_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::int64_t count_words(std::string_view text) {
  std::int64_t words = 1;
  bool was_space = false;
  for (std::size_t at = 0, length = 0; at < text.size(); at += length) {
    const bool is_space = is_python_space(read_valid_utf8(text, at, length));
    if (is_space && !was_space) ++words;
    was_space = is_space;
  }
  return words;
}

std::int64_t count_characters(std::string_view text) {
  std::int64_t count = 0;
  for (const char byte : text) count += (static_cast<unsigned char>(byte) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

std::string_view right_stripped(std::string_view text) {
  while (!text.empty()) {
    const std::size_t last = previous_utf8(text, text.size());
    std::size_t length = 0;
    if (!is_python_space(read_valid_utf8(text, last, length))) break;
    text = text.substr(0, last);
  }
  return text;
}

std::string_view stripped(std::string_view text) {
  while (!text.empty()) {
    std::size_t length = 0;
    if (!is_python_space(read_valid_utf8(text, 0, length))) break;
    text.remove_prefix(length);
  }
  return right_stripped(text);
}

std::string capitalized(std::string_view text) {
  if (text.empty()) return {};
  std::size_t length = 0;
  const char32_t first = read_valid_utf8(text, 0, length);
  std::string all;
  append_utf8(all, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(first))));
  return all + to_lower_case(text.substr(length));
}

}  // namespace assay
