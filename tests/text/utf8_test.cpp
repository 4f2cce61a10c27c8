// UTF-8: what is refused, where, and how it is replaced.
#include <string>
#include <vector>

#include "assay/text/utf8.h"
#include "small_tokenizer.h"

namespace assay {
namespace {

const std::string kReplacement(kReplacementCharacter);

std::string checked(const std::string& text) {
  return error_of([&] { check_utf8(text, "prompt.txt"); });
}

TEST(Utf8, AcceptsEveryCodePoint) {
  std::string text;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string one;
    append_utf8(one, c);
    const Utf8Step step = read_utf8(one, 0);
    ASSERT_EQ(step.kind, Utf8Kind::good) << static_cast<unsigned>(c);
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(step.length, one.size());
    ASSERT_EQ(previous_utf8(one, one.size()), 0U);
    text += one;
  }
  EXPECT_NO_THROW(check_utf8(text, "all"));
  EXPECT_EQ(replace_malformed_utf8(text), text);
}

TEST(Utf8, NamesTheByteWhereTheBadSequenceBegins) {
  EXPECT_EQ(checked("\x80"), "prompt.txt: not valid UTF-8 at byte 0");
  EXPECT_EQ(checked("abc\xFF"), "prompt.txt: not valid UTF-8 at byte 3");
  EXPECT_EQ(checked("abcdefgh\xC3"), "prompt.txt: not valid UTF-8 at byte 8");
  EXPECT_EQ(checked("caf\xC3\xA9 \xE2\x82"), "prompt.txt: not valid UTF-8 at byte 6");
  EXPECT_EQ(checked(std::string(1000, 'a') + "\xE2\x82" + "a"), "prompt.txt: not valid UTF-8 at byte 1000");
}

TEST(Utf8, RefusesOverlongFormsSurrogatesAndTooLarge) {
  for (const char* text : {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF", "\xED\xA0\x80",
                           "\xED\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFE", "\xFF", "\xBF"})
    EXPECT_EQ(checked(text), "prompt.txt: not valid UTF-8 at byte 0") << text;
  for (const char* text :
       {"\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
    EXPECT_NO_THROW(check_utf8(text, "good"));
}

// One U+FFFD for each maximal subpart, as Python's errors="replace" and Rust's from_utf8_lossy do.
TEST(Utf8, ReplacesMaximalSubparts) {
  EXPECT_EQ(replace_malformed_utf8(""), "");
  EXPECT_EQ(replace_malformed_utf8("a\xFFz"), "a" + kReplacement + "z");
  EXPECT_EQ(replace_malformed_utf8("\xE2\x82z"), kReplacement + "z");  // cut by another character: one
  EXPECT_EQ(replace_malformed_utf8("\xE2\x82"), kReplacement);         // cut by the end: one
  EXPECT_EQ(replace_malformed_utf8("\xF0\x9F\x98"), kReplacement);     // three bytes, still one
  EXPECT_EQ(replace_malformed_utf8("\xC0\x80"),
            kReplacement + kReplacement);  // neither byte can begin anything
  EXPECT_EQ(replace_malformed_utf8("\xED\xA0\x80"),
            kReplacement + kReplacement + kReplacement);  // a surrogate: three
  EXPECT_EQ(replace_malformed_utf8("\xF0\x80\x80\x80"),
            kReplacement + kReplacement + kReplacement + kReplacement);  // overlong: four
  EXPECT_EQ(replace_malformed_utf8("\xE1\x80\xE2\x82\xAC"), kReplacement + "\xE2\x82\xAC");
  EXPECT_EQ(replace_malformed_utf8("\x41\xC0\xAF\x41\xF4\x80\x80\x41"),
            "A" + kReplacement + kReplacement + "A" + kReplacement + "A");
}

TEST(Utf8, LeavesACutSequenceForMore) {
  std::string out;
  EXPECT_EQ(append_replacing_malformed(out, "ab\xE2\x82"), 2U);
  EXPECT_EQ(out, "ab");
  out.clear();
  EXPECT_EQ(append_replacing_malformed(out, "\xE2\x28"), 2U);  // can no longer become a character
  EXPECT_EQ(out, kReplacement + "(");
}

}  // namespace
}  // namespace assay
