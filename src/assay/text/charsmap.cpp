// Walks the double array with every index checked: a damaged map finds nothing.
#include "assay/text/charsmap.h"

#include <utf8proc.h>

#include <cstring>
#include <utility>

#include "assay/base/error.h"
#include "assay/text/tokenizer.h"
#include "assay/text/utf8.h"

namespace assay {

namespace {

std::uint32_t load_u32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

// The fields of a unit of Darts-clone.
bool has_leaf(std::uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
std::uint32_t value_of(std::uint32_t unit) {
  return unit & 0x7FFFFFFF;
}
std::uint32_t label_of(std::uint32_t unit) {
  return unit & 0x800000FF;
}
std::uint32_t offset_of(std::uint32_t unit) {
  return unit >> 10 << ((unit & 1U << 9) >> 6);
}

// Where the grapheme that begins at `begin` ends.
std::size_t grapheme_end(std::string_view text, std::size_t begin) {
  std::size_t length = 0;
  auto before = static_cast<utf8proc_int32_t>(read_valid_utf8(text, begin, length));
  utf8proc_int32_t state = 0;
  std::size_t end = begin + length;
  while (end < text.size()) {
    const auto next = static_cast<utf8proc_int32_t>(read_valid_utf8(text, end, length));
    if (utf8proc_grapheme_break_stateful(before, next, &state)) break;
    before = next;
    end += length;
  }
  return end;
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes, std::string where) : where_(std::move(where)) {
  if (bytes.size() < 4) throw Error("{}: expected a map of characters, found {} bytes", where_, bytes.size());
  const std::uint64_t trie = load_u32(bytes, 0);
  if (trie % 4 != 0 || trie == 0 || trie > bytes.size() - 4)
    throw Error("{}: expected a map of characters whose trie takes at most {} bytes, found {}", where_,
                bytes.size() - 4, trie);
  const auto units = static_cast<std::size_t>(trie / 4);
  units_.reserve(units);
  for (std::size_t i = 0; i < units; ++i) units_.push_back(load_u32(bytes, 4 + 4 * i));
  results_ = bytes.substr(4 + 4 * units);
  check_utf8(results_, where_ + ": results of a map of characters");
}

std::optional<std::string_view> Charsmap::entry(std::string_view text) const {
  std::uint32_t at = offset_of(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) break;
    at ^= byte;
    if (at >= units_.size() || label_of(units_[at]) != byte) return std::nullopt;
    const std::uint32_t unit = units_[at];
    at ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (at >= units_.size()) return std::nullopt;
    const std::size_t begin = value_of(units_[at]);
    const bool is_inside =
        begin < results_.size() && (static_cast<unsigned char>(results_[begin]) & 0xC0) != 0x80;
    if (!is_inside) return begin == results_.size() ? std::optional<std::string_view>("") : std::nullopt;
    const std::size_t end = results_.find('\0', begin);
    return std::string_view(results_).substr(begin, end == results_.npos ? end : end - begin);
  }
  return std::nullopt;
}

std::string Charsmap::apply(std::string_view text, std::size_t most_bytes) const {
  constexpr std::size_t kLongGrapheme = 6;
  std::string out;
  const auto append = [&](std::string_view part) {
    if (part.size() >= most_bytes - out.size())
      throw Error("{}: the map makes more than {} bytes of a text of {}", where_, most_bytes, text.size());
    out += part;
  };
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = grapheme_end(text, begin);
    const std::string_view grapheme = text.substr(begin, end - begin);
    if (grapheme.size() < kLongGrapheme) {
      if (const auto result = entry(grapheme)) {
        append(*result);
        continue;
      }
    }
    std::size_t length = 0;
    for (std::size_t at = 0; at < grapheme.size(); at += length) {
      read_valid_utf8(grapheme, at, length);
      const std::string_view character = grapheme.substr(at, length);
      append(entry(character).value_or(character));
    }
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool is_padding = at >= text.size() - padding;
    const std::size_t digit = is_padding ? 0 : kDigits.find(text[at]);
    if (digit == kDigits.npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if (at % 4 != 3) continue;
    for (int shift = 16; shift >= 0; shift -= 8) out.push_back(static_cast<char>(bits >> shift & 0xFF));
    bits = 0;
  }
  out.resize(out.size() - padding);
  return out;
}

}  // namespace assay
