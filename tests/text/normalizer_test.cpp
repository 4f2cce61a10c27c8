// Normalization form C, and what normalizers may cost; that all of them give what the `tokenizers` library
// does is held by the kinds of tokenizers (tokenizer_kinds_test.cpp, tokenizer_variants_test.cpp).
#include <chrono>
#include <string>

#include "assay/text/normalizer.h"
#include "assay/text/utf8.h"
#include "small_tokenizer.h"

namespace assay {
namespace {

std::string utf8_of(std::initializer_list<char32_t> characters) {
  std::string text;
  for (const char32_t c : characters) append_utf8(text, c);
  return text;
}

std::string to_nfc(std::string_view text) {
  return to_normal_form(text, NormalForm::nfc);
}

TEST(Nfc, LeavesComposedTextAlone) {
  for (const std::string& text : {std::string(), std::string("plain\n\ttext\0with a nul", 22),
                                  utf8_of({0xE9, ' ', 0x17F, 0x2FF}), utf8_of({0x4E2D, 0x6587, 0x1F600}),
                                  utf8_of({0xAC00, 0xD7A3}), utf8_of({0xFB01, 0x2126 - 1, 0xFFFF, 0x10FFFF})})
    EXPECT_EQ(to_nfc(text), text);
}

TEST(Nfc, ComposesAndOrdersMarks) {
  EXPECT_EQ(to_nfc("cafe\xCC\x81!"), utf8_of({'c', 'a', 'f', 0xE9, '!'}));
  EXPECT_EQ(to_nfc(utf8_of({'a', 0x302, 0x323})), utf8_of({0x1EAD}));  // the mark below comes first
  EXPECT_EQ(to_nfc(utf8_of({0x1E9B, 0x323})), utf8_of({0x1E9B, 0x323}));
  EXPECT_EQ(to_nfc(utf8_of({0x212B, 0x2126})), utf8_of({0xC5, 0x3A9}));     // singletons
  EXPECT_EQ(to_nfc(utf8_of({0x958})), utf8_of({0x915, 0x93C}));             // never composed
  EXPECT_EQ(to_nfc(utf8_of({0x1112, 0x1161, 0x11AB})), utf8_of({0xD55C}));  // Hangul
  EXPECT_EQ(to_nfc(utf8_of({0xAC00, 0x11A8, 'x'})), utf8_of({0xAC01, 'x'}));
  EXPECT_EQ(to_nfc(utf8_of({0x301, 'a', 0x301})), utf8_of({0x301, 0xE1}));
  // A mark of the same class stands between: the second stays.
  EXPECT_EQ(to_nfc(utf8_of({'a', 0x30A, 0x301, 0x302})), utf8_of({0x1FB, 0x302}));
  EXPECT_EQ(to_nfc(utf8_of({'>', 0x338, '>', '=', 0x338})), utf8_of({0x226F, '>', 0x2260}));
}

// Marks in the worst order: a sort by neighbours would take minutes.
TEST(Nfc, IsFastWhateverTheMarks) {
  std::string text = "a";
  for (int i = 0; i < 1'000'000; ++i) append_utf8(text, i < 500'000 ? 0x301 : 0x323);
  const auto begin = std::chrono::steady_clock::now();
  const std::string normal = to_nfc(text);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(normal.substr(0, 5), utf8_of({0x1EA1, 0x323}));
  EXPECT_EQ(normal.size(), text.size());
}

TEST(Nfc, IsAStepOfTheNormalizer) {
  Json file = small_tokenizer();
  file["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "NFC"}},
        {{"type", "Replace"}, {"pattern", {{"String", "\xC3\xA9"}}}, {"content", "hello"}}}}};
  const Tokenizer tokenizer = load_json(file);
  EXPECT_EQ(tokenizer.encode("e\xCC\x81"), (Ids{259}));
  EXPECT_EQ(tokenizer.encode("e"), (Ids{'e'}));
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", Json::array()}};
  for (int i = 0; i < 9; ++i) file["normalizer"]["normalizers"].push_back({{"type", "NFC"}});
  EXPECT_TRUE(holds(error_of([&] { load_json(file); }), "expected at most 8 steps, found more"));
}

}  // namespace
}  // namespace assay
