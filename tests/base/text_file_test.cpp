// Line ends and byte order marks, as Python's open(file, encoding="utf-8-sig") reads them.
#include <gtest/gtest.h>

#include "assay/base/text_file.h"

namespace assay {
namespace {

std::string universal(const std::string& text) {
  return with_newlines(text, Newlines::universal).text;
}

TEST(TextFile, LineEndsAreThoseOfPython) {
  EXPECT_EQ(universal("a\r\nb"), "a\nb");
  EXPECT_EQ(universal("a\rb\r"), "a\nb\n");
  EXPECT_EQ(universal("\r\r\n\n\r"), "\n\n\n\n");  // CR, CR LF, LF, CR
  EXPECT_EQ(universal("\n\ra"), "\n\na");
  EXPECT_EQ(universal(""), "");
  EXPECT_EQ(universal("a\nb"), "a\nb");
  // str.splitlines() knows others, and reading a file does not.
  EXPECT_EQ(universal("a\v\f\xC2\x85\xE2\x80\xA8"), "a\v\f\xC2\x85\xE2\x80\xA8");
}

TEST(TextFile, AByteOrderMarkInFrontIsLeftOut) {
  EXPECT_EQ(universal("\xEF\xBB\xBF"
                      "ab"),
            "ab");
  EXPECT_EQ(universal("\xEF\xBB\xBF\xEF\xBB\xBF"), "\xEF\xBB\xBF");  // the second is a character
  EXPECT_EQ(universal("a\xEF\xBB\xBF"), "a\xEF\xBB\xBF");
  EXPECT_EQ(universal("\xEF\xBB"), "\xEF\xBB");
}

TEST(TextFile, SaysWhatItChanged) {
  EXPECT_EQ(with_newlines("a\nb", Newlines::universal).change, "");
  EXPECT_EQ(with_newlines("a\r\nb\n", Newlines::universal).change,
            "1 line end of CR LF or CR was read as LF");
  EXPECT_EQ(with_newlines("\xEF\xBB\xBF\r\n\r", Newlines::universal).change,
            "2 line ends of CR LF or CR were read as LF, and a byte order mark was left out");
  EXPECT_EQ(with_newlines("\xEF\xBB\xBF", Newlines::universal).change, "a byte order mark was left out");
}

TEST(TextFile, PiecesAreReadAsTheWhole) {
  const std::string text =
      "\xEF\xBB\xBF"
      "a\r\nb\r\r\n\nc\r";
  const TextFile whole = with_newlines(text, Newlines::universal);
  for (std::size_t first = 3; first <= text.size(); ++first)
    for (std::size_t second = first; second <= text.size(); ++second) {
      NewlineReader reader(Newlines::universal);
      std::string read = reader.add(text.substr(0, first));
      read += reader.add(text.substr(first, second - first));
      read += reader.add(text.substr(second));
      read += reader.end();
      EXPECT_EQ(read, whole.text) << first << " " << second;
      EXPECT_EQ(reader.change(), whole.change);
    }
}

TEST(TextFile, KeepLeavesEveryByte) {
  const std::string text =
      "\xEF\xBB\xBF"
      "a\r\nb\r";
  EXPECT_EQ(with_newlines(text, Newlines::keep).text, text);
  EXPECT_EQ(with_newlines(text, Newlines::keep).change, "");
}

}  // namespace
}  // namespace assay
