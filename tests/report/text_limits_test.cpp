// Text at its limits: widths that just fit, characters at the ends of ranges, markup at the ends of words.
#include <gtest/gtest.h>

#include "assay/report/render.h"
#include "assay/report/text_layout.h"

namespace assay::report {
namespace {

using Texts = std::vector<std::string>;

TEST(TextLimits, CutsWhatDoesNotFit) {
  EXPECT_EQ(cut_to_width("abcdef", 3), "abc");
  EXPECT_EQ(cut_to_width("abcdef", 4), "a...");
  EXPECT_EQ(cut_to_width("abc", 3), "abc");
  EXPECT_EQ(cut_to_width("abcd", 2), "ab");
  EXPECT_EQ(cut_to_width("日本", 3), "日");
  EXPECT_EQ(cut_to_width("日本日", 5), "日...");
  EXPECT_EQ(cut_to_width("日本日", 4), "...");
  // A man and a woman who are joined are one character of four columns, at the beginning too.
  const std::string pair = "\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9";
  EXPECT_EQ(display_width(pair), 4U);
  EXPECT_EQ(cut_to_width(pair + "abc", 6), "...");
  EXPECT_EQ(cut_to_width(pair + "abcd", 7), pair + "...");
  EXPECT_EQ(cut_to_width("\xff\xfe\xfd\xfc", 3), "\xff\xfe\xfd");
}

// U+2028 to U+202E and U+2066 to U+2069; their neighbours are shown.
TEST(TextLimits, DirectionsAreReplaced) {
  const std::string replaced = "\xef\xbf\xbd";
  for (const char* hidden :
       {"\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaa", "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x81\xa9"})
    EXPECT_EQ(terminal_text(std::string("a") + hidden + "b"), "a" + replaced + "b");
  for (const char* shown : {"\xe2\x80\xa7", "\xe2\x80\xaf", "\xe2\x81\xa5", "\xe2\x81\xaa", "\xef\xbf\xbd"})
    EXPECT_EQ(terminal_text(std::string("a") + shown + "b"), std::string("a") + shown + "b");
  EXPECT_EQ(terminal_text("\xc2\x80\xc2\x9f\xc2\xa0"), "\\xc2\\x80\\xc2\\x9f\xc2\xa0");
  EXPECT_EQ(terminal_text(""), "");
}

TEST(TextLimits, MarkupIsEscapedWhereItWouldBeMarkup) {
  EXPECT_EQ(markdown_words("\\`*<>|~"), "\\\\\\`\\*\\<\\>\\|\\~");
  EXPECT_EQ(markdown_words("#-+=!.()&"), "#-+=!.()&");
  EXPECT_EQ(markdown_words("_a"), "\\_a");
  EXPECT_EQ(markdown_words("a_"), "a\\_");
  EXPECT_EQ(markdown_words("a_b_1"), "a_b_1");
  EXPECT_EQ(markdown_words("a _b"), "a \\_b");
  EXPECT_EQ(markdown_words("a_ b"), "a\\_ b");
  EXPECT_EQ(markdown_words("a__b"), "a\\_\\_b");
  EXPECT_EQ(markdown_words("\xc3\xa9_\xc3\xa9"), "\xc3\xa9_\xc3\xa9");
  EXPECT_EQ(markdown_words("[a](b) [a][b] [a]:b"), "[a\\](b) [a\\][b] [a\\]:b");
  EXPECT_EQ(markdown_words("[a] (b)]"), "[a] (b)]");
}

TEST(TextLimits, WordsFillALine) {
  EXPECT_EQ(wrapped("one two", 7), (Texts{"one two"}));
  EXPECT_EQ(wrapped("one two", 6), (Texts{"one", "two"}));
  EXPECT_EQ(wrapped("- one two", 5, 2), (Texts{"- one", "  two"}));
  EXPECT_EQ(wrapped("abcdefgh", 4), (Texts{"abcd", "efgh"}));
  EXPECT_EQ(wrapped("a bcdefgh", 4), (Texts{"a", "bcde", "fgh"}));
  EXPECT_EQ(wrapped("  a  b  ", 9), (Texts{"a b"}));
  EXPECT_EQ(wrapped("日 b", 1), (Texts{"日", "b"}));
  EXPECT_EQ(wrapped("日", 1), (Texts{"日"}));
  EXPECT_EQ(wrapped("ab cd", 2, 5), (Texts{"ab", " c", " d"})) << "an indent leaves one column";
  EXPECT_EQ(wrapped("ab cdef", 4, 2), (Texts{"ab", "  cd", "  ef"}));
  EXPECT_EQ(wrapped("ab 日日", 5, 2), (Texts{"ab", "  日", "  日"}));
}

// Twenty columns at least.
TEST(RenderLimits, ATerminalHasTwentyColumns) {
  Document document;
  Section section{"A title of thirty characters..", {}};
  section.add(Paragraph{"Twenty columns here: and more of them."});
  section.add(List{{"An item that is longer than twenty."}});
  section.add(Lines{{"A line that is longer than twenty."}});
  document.sections = {section};
  const std::string text =
      "A title of thirty...\n"
      "====================\n"
      "Twenty columns here:\n"
      "and more of them.\n"
      "\n"
      "- An item that is\n"
      "  longer than\n"
      "  twenty.\n"
      "\n"
      "A line that is lo...\n";
  EXPECT_EQ(to_terminal(document, 20), text);
  EXPECT_EQ(to_terminal(document, 10), text);
  EXPECT_EQ(to_terminal(document, 0), text);
  EXPECT_NE(to_terminal(document, 21), text);
}

// What has nothing to show leaves no empty line and no heading.
TEST(RenderLimits, NothingIsLeftOfNothing) {
  Document document;
  document.title = "T*";
  Section first{"", {}};
  first.add(Figure{"b_c", {.title = "a*"}});
  first.add(Table{{"h"}, {false}, {}});
  first.add(Paragraph{"One."});
  first.add(Table{{"h"}, {false}, {}});
  first.add(Paragraph{"Two."});
  Section second{"Only", {}};
  second.add(List{});
  Section third{"日本", {}, Shown::on_terminals};
  third.add(Paragraph{"Three."});
  Section last{"Last", {}, Shown::on_pages};
  last.add(Lines{{"a\nb"}});
  last.add(Paragraph{"+ no list"});
  last.add(Paragraph{"- none"});
  last.add(List{{"= no rule", "#1"}});
  document.sections = {first, second, third, last};
  EXPECT_EQ(to_terminal(document, 40), "One.\n\nTwo.\n\n日本\n====\nThree.\n");
  EXPECT_EQ(
      to_markdown(document),
      "# T\\*\n\n![a\\*](plots/b_c.svg)\n\nOne.\n\nTwo.\n\n## Last\n\n```\na\\nb\n```\n\n\\+ no list\n\n\\- "
      "none\n\n"
      "- \\= no rule\n- \\#1\n");
  EXPECT_EQ(to_terminal(Document{}, 40), "");
  EXPECT_EQ(to_markdown(Document{}), "# \n");
}

TEST(RenderLimits, AFenceGrowsAsFarAsItMust) {
  Document document;
  Section section{"", {}};
  section.add(Lines{{"`` and ````` five", "three ```"}});
  document.sections = {section};
  EXPECT_EQ(to_markdown(document), "# \n\n``````\n`` and ````` five\nthree ```\n``````\n");
}

}  // namespace
}  // namespace assay::report
