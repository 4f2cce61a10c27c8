// What the BertNormalizer and Nmt normalizers of the `tokenizers` library do, character by character.
#include <utf8proc.h>

#include "assay/text/char_ranges.h"
#include "assay/text/normalizer.h"
#include "assay/text/pretokenize.h"
#include "assay/text/utf8.h"

namespace assay {

namespace {

constexpr CharRange kChinese[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                  {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
                                  {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};

// The library takes control characters and marks from tables of older versions of Unicode: what is so since.
constexpr CharRange kLaterControls[] = {
    {0x890, 0x891}, {0x8E2, 0x8E2}, {0x110CD, 0x110CD}, {0x13430, 0x13438}};
constexpr CharRange kLaterNonSpacing[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8E1},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},
    {0xB55, 0xB55},     {0xC04, 0xC04},     {0xC3C, 0xC3C},     {0xD00, 0xD00},     {0xD3B, 0xD3C},
    {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0x180F, 0x180F},   {0x1885, 0x1886},   {0x1ABF, 0x1ACE},
    {0x1DF6, 0x1DFB},   {0xA82C, 0xA82C},   {0xA8C5, 0xA8C5},   {0xA8FF, 0xA8FF},   {0xA9BD, 0xA9BD},
    {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070},
    {0x11073, 0x11074}, {0x110C2, 0x110C2}, {0x111C9, 0x111C9}, {0x111CF, 0x111CF}, {0x1123E, 0x1123E},
    {0x1133B, 0x1133B}, {0x11438, 0x1143F}, {0x11442, 0x11444}, {0x11446, 0x11446}, {0x1145E, 0x1145E},
    {0x1182F, 0x11837}, {0x11839, 0x1183A}, {0x1193B, 0x1193C}, {0x1193E, 0x1193E}, {0x11943, 0x11943},
    {0x119D4, 0x119D7}, {0x119DA, 0x119DB}, {0x119E0, 0x119E0}, {0x11A01, 0x11A0A}, {0x11A33, 0x11A38},
    {0x11A3B, 0x11A3E}, {0x11A47, 0x11A47}, {0x11A51, 0x11A56}, {0x11A59, 0x11A5B}, {0x11A8A, 0x11A96},
    {0x11A98, 0x11A99}, {0x11C30, 0x11C36}, {0x11C38, 0x11C3D}, {0x11C3F, 0x11C3F}, {0x11C92, 0x11CA7},
    {0x11CAA, 0x11CB0}, {0x11CB2, 0x11CB3}, {0x11CB5, 0x11CB6}, {0x11D31, 0x11D36}, {0x11D3A, 0x11D3A},
    {0x11D3C, 0x11D3D}, {0x11D3F, 0x11D45}, {0x11D47, 0x11D47}, {0x11D90, 0x11D91}, {0x11D95, 0x11D95},
    {0x11D97, 0x11D97}, {0x11EF3, 0x11EF4}, {0x16F4F, 0x16F4F}, {0x16FE4, 0x16FE4}, {0x1CF00, 0x1CF2D},
    {0x1CF30, 0x1CF46}, {0x1E000, 0x1E006}, {0x1E008, 0x1E018}, {0x1E01B, 0x1E021}, {0x1E023, 0x1E024},
    {0x1E026, 0x1E02A}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E944, 0x1E94A}};
constexpr char32_t kOnceNonSpacing = 0x1734;

utf8proc_category_t category_of(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_cleaned_away(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  if (c == 0 || c == 0xFFFD) return true;
  if (c < 0x80) return c < 0x20 || c == 0x7F;
  const utf8proc_category_t category = category_of(c);
  if (category == UTF8PROC_CATEGORY_CF) return !is_within(kLaterControls, c);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CO;
}

bool is_accent(char32_t c) {
  if (c < 0x300) return false;
  return c == kOnceNonSpacing || (category_of(c) == UTF8PROC_CATEGORY_MN && !is_within(kLaterNonSpacing, c));
}

template <typename Append>
std::string mapped(std::string_view text, const Append& append) {
  std::string out;
  out.reserve(text.size());
  std::size_t length = 0;
  for (std::size_t at = 0; at < text.size(); at += length) {
    const char32_t c = read_valid_utf8(text, at, length);
    append(c, text.substr(at, length), out);
  }
  return out;
}

}  // namespace

std::string to_bert_text(std::string_view text, const BertText& how) {
  std::string out(text);
  if (how.cleans)
    out = mapped(out, [](char32_t c, std::string_view same, std::string& to) {
      if (is_cleaned_away(c)) return;
      to += char_class(c) == CharClass::space ? std::string_view(" ") : same;
    });
  if (how.parts_chinese)
    out = mapped(out, [](char32_t c, std::string_view same, std::string& to) {
      if (!is_within(kChinese, c)) {
        to += same;
      } else {
        to.append(" ").append(same).append(" ");
      }
    });
  if (how.strips_accents)
    out =
        mapped(to_normal_form(out, NormalForm::nfd), [](char32_t c, std::string_view same, std::string& to) {
          if (!is_accent(c)) to += same;
        });
  return how.lowers_case ? to_lower_case(out) : out;
}

std::string to_nmt_text(std::string_view text) {
  return mapped(text, [](char32_t c, std::string_view same, std::string& to) {
    const bool goes =
        (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    if (goes) return;
    const bool is_blank = c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 ||
                          (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                          c == 0xFEFF || c == 0xFFFD;
    to += is_blank ? std::string_view(" ") : same;
  });
}

}  // namespace assay
