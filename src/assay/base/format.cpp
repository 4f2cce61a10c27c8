#include "assay/base/format.h"

#include <algorithm>

namespace assay {

namespace {

// Levenshtein's distance, one row at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Bytes of the character that begins at `at`; 0 where they are no UTF-8 or a C1 control, which terminals take
// for the start of a sequence of controls.
std::size_t printable_length(std::string_view text, std::size_t at) {
  const unsigned first = byte_at(text, at);
  if (first < 0x80) return first < 0x20 || first == 0x7f ? 0 : 1;
  const std::size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte_at(text, at + i) & 0xc0U) != 0x80) return 0;
  const unsigned second = byte_at(text, at + 1);
  if ((first == 0xc2 && second < 0xa0) || (first == 0xe0 && second < 0xa0) ||
      (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
      (first == 0xf4 && second > 0x8f))
    return 0;
  return length;
}

bool begins_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
}

}  // namespace

std::string escape_controls(std::string_view text) {
  std::string line;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = printable_length(text, i);
    const char c = text[i];
    if (length > 0)
      line += text.substr(i, length);
    else if (c == '\n' || c == '\r' || c == '\t')
      line += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    else
      line += fmt::format("\\x{:02x}", byte_at(text, i));
    i += std::max<std::size_t>(length, 1);
  }
  return line;
}

std::string printable(std::string_view from_file) {
  constexpr std::size_t kLongest = 200, kEnd = 60, kRead = 4 * kLongest;
  // No more than is shown is looked at: a name may have megabytes.
  if (from_file.size() <= kRead) {
    const std::string whole = escape_controls(from_file);
    if (whole.size() <= kLongest) return whole;
  }
  const std::string begin = escape_controls(from_file.substr(0, kLongest)),
                    end = escape_controls(
                        from_file.substr(from_file.size() - std::min(from_file.size(), kLongest)));
  std::size_t cut = std::min(begin.size(), kLongest - kEnd - 3),
              rest = end.size() - std::min(end.size(), kEnd);
  while (cut > 0 && cut < begin.size() && !begins_character(begin[cut])) --cut;
  while (rest < end.size() && !begins_character(end[rest])) ++rest;
  return begin.substr(0, cut) + "..." + end.substr(rest);
}

std::string counted(std::int64_t number, std::string_view what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string_view nearest_name(std::string_view text, const std::vector<std::string>& names) {
  std::string_view nearest;
  std::size_t best = ~std::size_t{0};
  for (const std::string& name : names) {
    const std::size_t distance = edit_distance(text.substr(0, 64), name);
    if (distance >= best) continue;
    best = distance;
    nearest = name;
  }
  return nearest;
}

}  // namespace assay
