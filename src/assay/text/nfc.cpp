// Unicode's normalization form C, by the tables of utf8proc. Its own pass over a whole text takes the square
// of a run of marks to put them in order; here a run is sorted.
#include <utf8proc.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "assay/base/error.h"
#include "assay/text/normalizer.h"
#include "assay/text/utf8.h"

namespace assay {

namespace {

// No character below composes with one before it, is a mark, or changes by itself. (The first that does any
// of this is the first combining mark.)
constexpr char32_t kFirstMark = 0x300;
constexpr unsigned char kLeadOfFirstMark = 0xCC;

constexpr int kLongestDecomposition = 18;  // of any character, compatibility forms included

utf8proc_propval_t combining_class(utf8proc_int32_t c) {
  return utf8proc_get_property(c)->combining_class;
}

void append_decomposed(char32_t c, std::vector<utf8proc_int32_t>& out) {
  utf8proc_int32_t parts[kLongestDecomposition];
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, kLongestDecomposition,
                              static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE), nullptr);
  if (count < 0 || count > kLongestDecomposition)
    throw Error("U+{:04X} cannot be decomposed: {}", static_cast<std::uint32_t>(c),
                utf8proc_errmsg(std::min<utf8proc_ssize_t>(count, 0)));
  out.insert(out.end(), parts, parts + count);
}

// Marks by their classes, those of one class in the order they have.
void order_marks(std::vector<utf8proc_int32_t>& text) {
  std::vector<std::pair<utf8proc_propval_t, utf8proc_int32_t>> marks;
  for (std::size_t begin = 0; begin < text.size();) {
    marks.clear();
    std::size_t end = begin;
    for (; end < text.size(); ++end) {
      const utf8proc_propval_t mark_class = combining_class(text[end]);
      if (mark_class == 0) break;
      marks.emplace_back(mark_class, text[end]);
    }
    std::stable_sort(marks.begin(), marks.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < marks.size(); ++i) text[begin + i] = marks[i].second;
    begin = end + 1;
  }
}

// Text of which only the first character may lie below the first mark.
void append_nfc(std::string_view text, std::vector<utf8proc_int32_t>& work, std::string& out) {
  work.clear();
  for (std::size_t at = 0, length = 0; at < text.size(); at += length)
    append_decomposed(read_valid_utf8(text, at, length), work);
  order_marks(work);
  const utf8proc_ssize_t count =
      utf8proc_normalize_utf32(work.data(), static_cast<utf8proc_ssize_t>(work.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    append_utf8(out, static_cast<char32_t>(work[static_cast<std::size_t>(i)]));
}

bool is_below_first_mark(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]) < kLeadOfFirstMark;
}

}  // namespace

std::string to_nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> work;
  for (std::size_t begin = 0; begin < text.size();) {
    // Characters that stay as they are, whatever follows: those below the first mark, but for the last.
    std::size_t end = begin, last = begin, length = 0;
    while (end < text.size() && is_below_first_mark(text, end)) {
      last = end;
      read_valid_utf8(text, end, length);
      end += length;
    }
    if (end == text.size()) last = end;
    out += text.substr(begin, last - begin);
    while (end < text.size() && !is_below_first_mark(text, end)) {
      read_valid_utf8(text, end, length);
      end += length;
    }
    append_nfc(text.substr(last, end - last), work, out);
    begin = end;
  }
  return out;
}

}  // namespace assay
