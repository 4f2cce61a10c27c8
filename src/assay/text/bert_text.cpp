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

utf8proc_category_t category_of(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_cleaned_away(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  if (c == 0 || c == 0xFFFD) return true;
  if (c < 0x80) return c < 0x20 || c == 0x7F;
  const utf8proc_category_t category = category_of(c);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO;
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
          if (c < 0x300 || category_of(c) != UTF8PROC_CATEGORY_MN) to += same;
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
