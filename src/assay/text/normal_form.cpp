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

constexpr int kLongestDecomposition = 18;  // that any character has, compatibility forms included

// Marks whose place among others the `tokenizers` library does not know: its tables are of Unicode 9.
constexpr CharRange kUnorderedMarks[] = {
    {0x5C8, 0x5C9},     {0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xB53, 0xB54},     {0xC3C, 0xC3C},     {0xCF3, 0xCF3},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},
    {0xECE, 0xECE},     {0x1715, 0x1715},   {0x1ABF, 0x1AF0},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},
    {0x10D24, 0x10D27}, {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC}, {0x10ECB, 0x10ECF}, {0x10EF0, 0x10EFF},
    {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x11241, 0x11241}, {0x1133B, 0x1133B},
    {0x113B8, 0x113C0}, {0x113C2, 0x113C2}, {0x113C5, 0x113C5}, {0x113C7, 0x113CA}, {0x113CC, 0x113D0},
    {0x113D2, 0x113D2}, {0x113E1, 0x113E2}, {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x1193D, 0x1193E},
    {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
    {0x11B60, 0x11B67}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11DF0, 0x11DF0},
    {0x11F00, 0x11F01}, {0x11F03, 0x11F03}, {0x11F34, 0x11F3A}, {0x11F3E, 0x11F42}, {0x11F5A, 0x11F5A},
    {0x13440, 0x13440}, {0x13447, 0x13455}, {0x1611E, 0x1612F}, {0x16FF0, 0x16FF1}, {0x1D127, 0x1D128},
    {0x1D250, 0x1D252}, {0x1D25B, 0x1D25C}, {0x1D25F, 0x1D25F}, {0x1D280, 0x1D281}, {0x1E08F, 0x1E08F},
    {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF},
    {0x1E6E3, 0x1E6E3}, {0x1E6E6, 0x1E6E6}, {0x1E6EE, 0x1E6EF}, {0x1E6F5, 0x1E6F5}};

bool is_later_mark(utf8proc_int32_t c) {
  return c >= 0x5C8 && is_within(kUnorderedMarks, static_cast<char32_t>(c));
}

utf8proc_propval_t combining_class(utf8proc_int32_t c) {
  const utf8proc_propval_t mark_class = utf8proc_get_property(c)->combining_class;
  return mark_class != 0 && is_later_mark(c) ? utf8proc_propval_t{0} : mark_class;
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
  const bool is_composed = form == NormalForm::nfc || form == NormalForm::nfkc;
  for (std::size_t begin = 0, end = 0; begin < work.size(); begin = end) {
    // To the library a later mark is a character like others: none behind it composes with what is before.
    for (end = begin + 1; end < work.size() && !is_later_mark(work[end]);) ++end;
    auto count = static_cast<utf8proc_ssize_t>(end - begin);
    if (is_composed)
      count = utf8proc_normalize_utf32(work.data() + begin, count,
                                       static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    for (utf8proc_ssize_t i = 0; i < count; ++i)
      append_utf8(out, static_cast<char32_t>(work[begin + static_cast<std::size_t>(i)]));
  }
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
