// Checks UTF-8 and replaces what is not.
#include "assay/text/utf8.h"

#include <cstring>

#include "assay/base/error.h"
#include "assay/text/tokenizer.h"

namespace assay {

namespace {

// Bytes from `at` on that are ASCII, counted eight at a time and so rounded down.
std::size_t ascii_words(std::string_view text, std::size_t at) {
  const std::size_t begin = at;
  while (at + 8 <= text.size()) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    if ((word & 0x8080808080808080ULL) != 0) break;
    at += 8;
  }
  return at - begin;
}

struct LeadByte {
  std::uint8_t length;       // the length of the whole sequence; 0: no sequence begins with this byte
  std::uint8_t second_from;  // the only continuation byte whose range depends on the lead byte
  std::uint8_t second_to;
};

constexpr LeadByte lead_byte(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};  // no overlong forms
  if (byte == 0xED) return {3, 0x80, 0x9F};  // no surrogates
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // nothing beyond U+10FFFF
  return {0, 0, 0};
}

}  // namespace

Utf8Step read_utf8(std::string_view text, std::size_t at) {
  const LeadByte lead = lead_byte(static_cast<unsigned char>(text[at]));
  if (lead.length == 0) return {0, 1, Utf8Kind::malformed};
  for (std::uint8_t i = 1; i < lead.length; ++i) {
    if (at + i == text.size()) return {0, i, Utf8Kind::cut};
    const auto byte = static_cast<unsigned char>(text[at + i]);
    const unsigned char from = i == 1 ? lead.second_from : 0x80, to = i == 1 ? lead.second_to : 0xBF;
    if (byte < from || byte > to) return {0, i, Utf8Kind::malformed};
  }
  std::size_t length = 0;
  const char32_t code_point = read_valid_utf8(text, at, length);
  return {code_point, lead.length, Utf8Kind::good};
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

std::size_t append_replacing_malformed(std::string& out, std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (const std::size_t ascii = ascii_words(text, at); ascii > 0) {
      out.append(text, at, ascii);
      at += ascii;
      continue;
    }
    const Utf8Step step = read_utf8(text, at);
    if (step.kind == Utf8Kind::cut) break;
    if (step.kind == Utf8Kind::good) out.append(text, at, step.length);
    if (step.kind == Utf8Kind::malformed) out.append(kReplacementCharacter);
    at += step.length;
  }
  return at;
}

std::string replace_malformed_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  // A sequence cut off by the end is one maximal subpart.
  if (append_replacing_malformed(out, text) < text.size()) out.append(kReplacementCharacter);
  return out;
}

void check_utf8(std::string_view text, std::string_view where) {
  std::size_t at = 0;
  while (at < text.size()) {
    at += ascii_words(text, at);
    if (at == text.size()) return;
    const Utf8Step step = read_utf8(text, at);
    if (step.kind != Utf8Kind::good) throw Error("{}: not valid UTF-8 at byte {}", where, at);
    at += step.length;
  }
}

}  // namespace assay
