// Unicode's normalization forms, by the tables of utf8proc. Its own pass over a whole text takes the square
// of a run of marks to put them in order; here a run is sorted.
#include <utf8proc.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "assay/base/error.h"
#include "assay/text/char_ranges.h"
#include "assay/text/normalizer.h"
#include "assay/text/utf8.h"

namespace assay {

namespace {

// No character that begins with a smaller byte composes with one before it, is a mark, or changes by itself:
// in NFC the first that does any of this is the first combining mark, U+0300; in the other forms none of
// ASCII does.
unsigned char first_lead(NormalForm form) {
  return form == NormalForm::nfc ? 0xCC : 0xC2;
}

constexpr int kLongestDecomposition = 18;  // of any character, compatibility forms included

utf8proc_propval_t combining_class(utf8proc_int32_t c) {
  return utf8proc_get_property(c)->combining_class;
}

// Characters that utf8proc decomposes and the `tokenizers` library does not know yet.
constexpr CharRange kKeptWhole[] = {
    {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xAB69, 0xAB69},   {0x10781, 0x10785}, {0x10787, 0x107B0},
    {0x107B2, 0x107BA}, {0x11938, 0x11938}, {0x1E030, 0x1E06D}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};

void append_decomposed(char32_t c, NormalForm form, std::vector<utf8proc_int32_t>& out) {
  if (is_within(kKeptWhole, c)) return out.push_back(static_cast<utf8proc_int32_t>(c));
  const bool is_compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  utf8proc_int32_t parts[kLongestDecomposition];
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, kLongestDecomposition,
                              static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE |
                                                             (is_compatible ? UTF8PROC_COMPAT : 0)),
                              nullptr);
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

// Text of which only the first character may be one that stays as it is.
void append_normalized(std::string_view text, NormalForm form, std::vector<utf8proc_int32_t>& work,
                       std::string& out) {
  work.clear();
  for (std::size_t at = 0, length = 0; at < text.size(); at += length)
    append_decomposed(read_valid_utf8(text, at, length), form, work);
  order_marks(work);
  auto count = static_cast<utf8proc_ssize_t>(work.size());
  if (form == NormalForm::nfc || form == NormalForm::nfkc)
    count = utf8proc_normalize_utf32(work.data(), count,
                                     static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    append_utf8(out, static_cast<char32_t>(work[static_cast<std::size_t>(i)]));
}

}  // namespace

std::string to_normal_form(std::string_view text, NormalForm form) {
  const auto stays = [&](std::size_t at) { return static_cast<unsigned char>(text[at]) < first_lead(form); };
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> work;
  for (std::size_t begin = 0; begin < text.size();) {
    // Characters that stay as they are, whatever follows: but for the last, with which a mark can
    // compose.
    std::size_t end = begin, last = begin, length = 0;
    while (end < text.size() && stays(end)) {
      last = end;
      read_valid_utf8(text, end, length);
      end += length;
    }
    if (end == text.size()) last = end;
    out += text.substr(begin, last - begin);
    while (end < text.size() && !stays(end)) {
      read_valid_utf8(text, end, length);
      end += length;
    }
    append_normalized(text.substr(last, end - last), form, work, out);
    begin = end;
  }
  return out;
}

}  // namespace assay
