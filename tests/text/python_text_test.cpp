// Words, blanks and letters as Python's str has them (Python 3.11).
#include "assay/text/python_text.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(PythonText, CountsWordsAsReSplitDoes) {
  EXPECT_EQ(count_words(""), 1);
  EXPECT_EQ(count_words("a"), 1);
  EXPECT_EQ(count_words(" a  b\n"), 4);
  EXPECT_EQ(count_words("a\u00a0b\u3000c\u2028d\x1c\u0085"), 5);
  EXPECT_EQ(count_words("a\u200bb\ufeffc"), 1) << "these are no white space there";
  EXPECT_EQ(count_characters("日é a"), 4);
}

TEST(PythonText, StripsAndCapitalizes) {
  EXPECT_EQ(stripped(" \u00a0a b\x1f\n"), "a b");
  EXPECT_EQ(right_stripped(" a\u2009"), " a");
  EXPECT_EQ(stripped(" \n"), "");
  EXPECT_EQ(capitalized("he Then WENT"), "He then went");
  EXPECT_EQ(capitalized("été À"), "Été à");
  EXPECT_EQ(capitalized(""), "");
  EXPECT_EQ(capitalized("ǆ"), "ǅ");
}

}  // namespace
}  // namespace assay
