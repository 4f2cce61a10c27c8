// The classes of code points, and a scanner that does by hand what the regular expression says.
#include "assay/text/pretokenize.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "assay/text/char_ranges.h"
#include "assay/text/normalizer.h"
#include "assay/text/utf8.h"

namespace assay {

namespace {

// White_Space of the Unicode Character Database.
constexpr CharRange kSpaces[] = {{0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                 {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                 {0x205F, 0x205F}, {0x3000, 0x3000}};

// What Unicode 15.1 and 16 assign and utf8proc 2.8 (Unicode 15.0) does not know yet.
constexpr CharRange kNewLetters[] = {
    {0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3}, {0x10D4A, 0x10D65},
    {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x11380, 0x11389}, {0x1138B, 0x1138B}, {0x1138E, 0x1138E},
    {0x11390, 0x113B5}, {0x113B7, 0x113B7}, {0x113D1, 0x113D1}, {0x113D3, 0x113D3}, {0x11BC0, 0x11BE0},
    {0x13460, 0x143FA}, {0x16100, 0x1611D}, {0x16D40, 0x16D6C}, {0x18CFF, 0x18CFF}, {0x1E5D0, 0x1E5ED},
    {0x1E5F0, 0x1E5F0}, {0x2EBF0, 0x2EE5D}};
constexpr CharRange kNewDigits[] = {{0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9},
                                    {0x16130, 0x16139}, {0x16D70, 0x16D79}, {0x1CCF0, 0x1CCF9},
                                    {0x1E5F1, 0x1E5FA}};
constexpr CharRange kNewMarks[] = {
    {0x0897, 0x0897},   {0x10D69, 0x10D6D}, {0x10EFC, 0x10EFC}, {0x113B8, 0x113C0}, {0x113C2, 0x113C2},
    {0x113C5, 0x113C5}, {0x113C7, 0x113CA}, {0x113CC, 0x113D0}, {0x113D2, 0x113D2}, {0x113E1, 0x113E2},
    {0x11F5A, 0x11F5A}, {0x1611E, 0x1612F}, {0x1E5EE, 0x1E5EF}};
// Alphabetic without being a letter, mark or number: circled and squared Latin letters.
constexpr CharRange kAlphabeticSymbols[] = {
    {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};

CharClass look_up_class(char32_t c) {
  if (is_within(kSpaces, c)) return CharClass::space;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return CharClass::letter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) return CharClass::number;
  if (is_within(kNewLetters, c)) return CharClass::letter;
  if (is_within(kNewDigits, c)) return CharClass::number;
  return CharClass::other;
}

// Two bits for each code point of the planes that have letters, numbers and spaces (0 to 3): 64 KiB.
class ClassTable {
 public:
  ClassTable() : packed_(kPlanes / 4) {
    for (char32_t c = 0; c < kPlanes; ++c) {
      const auto bits = static_cast<unsigned>(look_up_class(c)) << (c % 4 * 2);
      packed_[c / 4] = static_cast<std::uint8_t>(packed_[c / 4] | bits);
    }
  }
  CharClass operator[](char32_t c) const {
    return c < kPlanes ? static_cast<CharClass>(packed_[c / 4] >> (c % 4 * 2) & 3) : CharClass::other;
  }

 private:
  static constexpr char32_t kPlanes = 0x40000;
  std::vector<std::uint8_t> packed_;
};

const ClassTable& class_table() {
  static const ClassTable table;
  return table;
}

constexpr std::array<CharClass, 128> kAsciiClass = [] {
  std::array<CharClass, 128> classes{};
  for (unsigned c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter) classes[c] = CharClass::letter;
    if (c >= '0' && c <= '9') classes[c] = CharClass::number;
    if (c == ' ' || (c >= 9 && c <= 13)) classes[c] = CharClass::space;
  }
  return classes;
}();

CharClass class_at(std::string_view text, std::size_t at, std::size_t& length) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 128) return length = 1, kAsciiClass[byte];
  return class_table()[read_valid_utf8(text, at, length)];
}

// Where the run of characters of one class ends; `last` receives where its last character begins.
std::size_t run_end(std::string_view text, std::size_t at, CharClass wanted, std::size_t& last) {
  std::size_t length = 0;
  for (; at < text.size() && class_at(text, at, length) == wanted; at += length) last = at;
  return at;
}

// Bytes of the contraction at `at`, where an apostrophe stands; 0 = none. Lower case only, as GPT-2's
// expression says.
std::size_t contraction_length(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at + 1, 2);
  if (rest.empty()) return 0;
  if (rest[0] == 's' || rest[0] == 't' || rest[0] == 'm' || rest[0] == 'd') return 2;
  return rest == "re" || rest == "ve" || rest == "ll" ? 3 : 0;
}

// The same in any case. The long s (U+017F) is an s where case is ignored.
std::size_t caseless_contraction_length(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at + 1, 2);
  if (rest == "\xC5\xBF") return 3;
  std::string lower = "'";
  for (const char c : rest) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return contraction_length(lower, 0);
}

bool is_line_end(char c) {
  return c == '\r' || c == '\n';
}

std::size_t gpt2_word_end(std::string_view text, std::size_t begin) {
  if (text[begin] == '\'') {
    if (const std::size_t length = contraction_length(text, begin); length > 0) return begin + length;
  }
  std::size_t length = 0, last = begin;
  CharClass kind = class_at(text, begin, length);
  if (text[begin] == ' ' && begin + 1 < text.size()) kind = class_at(text, begin + 1, length);
  if (kind != CharClass::space) return run_end(text, begin + (text[begin] == ' ' ? 1 : 0), kind, last);

  // \s+(?!\S): a run of spaces gives its last one back to the word that follows, unless it has no other.
  const std::size_t end = run_end(text, begin, CharClass::space, last);
  return end == text.size() || last == begin ? end : last;
}

std::size_t llama3_word_end(std::string_view text, std::size_t begin, int most_digits) {
  if (text[begin] == '\'') {
    if (const std::size_t length = caseless_contraction_length(text, begin); length > 0)
      return begin + length;
  }
  std::size_t length = 0, next_length = 0, last = begin;
  const CharClass kind = class_at(text, begin, length);
  if (kind == CharClass::letter) return run_end(text, begin, kind, last);
  if (kind == CharClass::number) {
    std::size_t end = begin + length;
    for (int digits = 1; digits < most_digits && end < text.size(); ++digits, end += length)
      if (class_at(text, end, length) != kind) break;
    return end;
  }

  // Any one character but a line's end goes with the letters that follow it.
  const std::size_t next = begin + length;
  const bool has_next = next < text.size();
  const CharClass next_kind = has_next ? class_at(text, next, next_length) : CharClass::space;
  if (!is_line_end(text[begin]) && next_kind == CharClass::letter)
    return run_end(text, next, CharClass::letter, last);

  if (kind == CharClass::other || (text[begin] == ' ' && next_kind == CharClass::other)) {
    std::size_t end = run_end(text, kind == CharClass::other ? begin : next, CharClass::other, last);
    while (end < text.size() && is_line_end(text[end])) ++end;
    return end;
  }

  // \s*[\r\n]+: of a run of spaces, up to its last end of a line.
  const std::size_t end = run_end(text, begin, CharClass::space, last);
  for (std::size_t at = end; at > begin; --at)
    if (is_line_end(text[at - 1])) return at;
  return end == text.size() || last == begin ? end : last;
}

}  // namespace

CharClass char_class(char32_t code_point) {
  return class_table()[code_point];
}

bool is_word_char(char32_t c) {
  if (c < 128) return kAsciiClass[c] == CharClass::letter || kAsciiClass[c] == CharClass::number || c == '_';
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  // Categories lie in the order L*, M*, Nd, Nl, No, Pc, ...; No is no part of \w.
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) return true;
  if (category == UTF8PROC_CATEGORY_PC || c == 0x200C || c == 0x200D) return true;
  return is_within(kAlphabeticSymbols, c) || is_within(kNewLetters, c) || is_within(kNewDigits, c) ||
         is_within(kNewMarks, c);
}

std::optional<WordPattern> word_pattern(std::string_view regex) {
  constexpr std::string_view kGpt2 =
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  constexpr std::string_view kBefore = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})";
  constexpr std::string_view kAfter = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  if (regex == kGpt2) return WordPattern::gpt2;
  if (!regex.starts_with(kBefore)) return std::nullopt;
  regex.remove_prefix(kBefore.size());
  if (regex == kAfter) return WordPattern::qwen2;
  if (regex.starts_with("{1,3}") && regex.substr(5) == kAfter) return WordPattern::llama3;
  return std::nullopt;
}

std::size_t word_end(WordPattern pattern, std::string_view text, std::size_t begin) {
  switch (pattern) {
    case WordPattern::gpt2:
      return gpt2_word_end(text, begin);
    case WordPattern::llama3:
      return llama3_word_end(text, begin, 3);
    case WordPattern::qwen2:
      return llama3_word_end(text, begin, 1);
  }
  return text.size();
}

std::string Metaspace::apply(std::string_view text, bool is_first) const {
  std::string out = replace_all(text, " ", replacement);
  const bool wants_prefix = prepend == Prepend::always || (prepend == Prepend::first && is_first);
  if (wants_prefix && !out.starts_with(replacement)) out.insert(0, replacement);
  return out;
}

std::size_t marked_word_end(std::string_view mark, bool keeps_runs, std::string_view text,
                            std::size_t begin) {
  std::size_t after = begin;
  if (text.substr(after).starts_with(mark)) after += mark.size();
  while (keeps_runs && text.substr(after).starts_with(mark)) after += mark.size();
  return std::min(text.find(mark, after), text.size());
}

}  // namespace assay
