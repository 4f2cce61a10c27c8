// Text on a terminal: no line is wider than it may be, whatever the text holds, and no character is split.
#include "assay/report/text_layout.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include "assay/report/html/html.h"
#include "assay/report/render.h"

namespace assay::report {
namespace {

constexpr const char* kFamily =
    "\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7";  // man, woman, girl joined

TEST(DisplayWidth, CountsColumnsOfATerminal) {
  EXPECT_EQ(display_width(""), 0u);
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("日本"), 4u);
  EXPECT_EQ(display_width("e\xcc\x81"), 1u);  // a combining accent
  EXPECT_EQ(display_width("\xf0\x9f\x98\x80"), 2u);
  EXPECT_EQ(display_width("\xe2\x9d\xa4\xef\xb8\x8f"), 2u);  // a heart shown as an emoji
  EXPECT_EQ(display_width(kFamily), 6u);
  EXPECT_EQ(display_width("\xff\xfe"), 2u);  // malformed bytes are shown one by one
}

TEST(CutToWidth, KeepsCharactersWhole) {
  EXPECT_EQ(cut_to_width("abcdef", 6), "abcdef");
  EXPECT_EQ(cut_to_width("abcdefg", 6), "abc...");
  EXPECT_EQ(cut_to_width("日本日本", 6), "日...");
  EXPECT_EQ(cut_to_width("日本日本", 5), "日...");
  EXPECT_EQ(cut_to_width("e\xcc\x81xyz", 3), "e\xcc\x81xy");
  EXPECT_EQ(cut_to_width(std::string("ab") + kFamily, 7), "ab...");
  EXPECT_EQ(cut_to_width("abc", 0), "");
}

TEST(TerminalText, ObeysNothing) {
  EXPECT_EQ(terminal_text("a\nb\x1b[31m"), "a\\nb\\x1b[31m");
  EXPECT_EQ(terminal_text("a\xc2\x9b"
                          "31m"),
            "a\\xc2\\x9b31m");  // a control sequence of one character
  EXPECT_EQ(terminal_text("a\xe2\x80\xae"
                          "b"),
            "a\xef\xbf\xbd"
            "b");  // right-to-left override
  EXPECT_EQ(terminal_text("a\xff"), "a\\xff");
  EXPECT_EQ(terminal_text("日本"), "日本");
}

TEST(MarkdownWords, EscapesWhatWouldBeMarkup) {
  EXPECT_EQ(markdown_words("a*b <i> `c` | d_e _f_ [1, 2] [x](y)"),
            "a\\*b \\<i\\> \\`c\\` \\| d_e \\_f\\_ [1, 2] [x\\](y)");
}

TEST(Wrapped, BreaksAtBlanksAndWhereItHasTo) {
  EXPECT_EQ(wrapped("one two  three", 8), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrapped("- one two three", 9, 2), (std::vector<std::string>{"- one two", "  three"}));
  EXPECT_EQ(wrapped("abcdefghij k", 4), (std::vector<std::string>{"abcd", "efgh", "ij k"}));
  EXPECT_EQ(wrapped("日本日本", 5), (std::vector<std::string>{"日本", "日本"}));
  EXPECT_EQ(wrapped("", 5), (std::vector<std::string>{""}));
  EXPECT_EQ(wrapped("日本", 1), (std::vector<std::string>{"日", "本"}));  // narrower than a character
}

std::string hard_text(std::size_t seed) {
  const char* parts[] = {"word",
                         "a-very-long-word-without-any-blank-in-it",
                         "日本語テキスト",
                         "\xf0\x9f\x98\x80",
                         kFamily,
                         "e\xcc\x81\xcc\x82\xcc\x83",
                         "\xff\xfe",
                         "\x1b[31m",
                         "x\ny",
                         "\xe2\x80\xae",
                         "1.5",
                         "",
                         "\xf0\x9f\x87\xab\xf0\x9f\x87\xb7",
                         "\xe2\x9d\xa4\xef\xb8\x8f",
                         "\t"};
  std::string text;
  for (std::size_t i = 0; i < 12; ++i) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    text += parts[(seed >> 33U) % std::size(parts)] + std::string((seed >> 40U) % 3 == 0 ? "" : " ");
  }
  return text;
}

// A shell reads the lines as the one command, and no word of it is broken.
TEST(CommandLines, BreakAtBlanksWithABackslash) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(command_lines("assay run demo", 20, 4), (Lines{"    assay run demo"}));
  EXPECT_EQ(command_lines("assay run demo --processes 33 -o out", 22, 4),
            (Lines{"    assay run demo \\", "      --processes 33 \\", "      -o out"}));
  // The backslash counts; the last line has none.
  EXPECT_EQ(command_lines("ab cd ef", 5, 0), (Lines{"ab \\", "  cd \\", "  ef"}));
  EXPECT_EQ(command_lines("ab cd", 5, 0), (Lines{"ab cd"}));
  EXPECT_EQ(command_lines("ab " + std::string(30, 'x') + " cd", 10, 2),
            (Lines{"  ab \\", "    " + std::string(30, 'x') + " \\", "    cd"}));
  EXPECT_EQ(command_lines("run 'a b  c' \"d \\\" e\" f\\ g", 6, 0),
            (Lines{"run \\", "  'a b  c' \\", "  \"d \\\" e\" \\", "  f\\ g"}));
  EXPECT_EQ(command_lines("", 10, 2), Lines{});
  EXPECT_EQ(command_lines("'not closed and long", 8, 0), (Lines{"'not closed and long"}));
}

TEST(Render, CommandsOfAListAreTyped) {
  Document document;
  Section& section = document.sections.emplace_back(Section{"T", {}});
  const std::string command = "assay run demo -o results --processes 33 --lengths 32,128,512,1008 --seed 7";
  section.add(List{{"Undecided: " + command, "Run `x` or: a <b> c.", "none"}, {"", "a <b>", "a", command}});
  EXPECT_EQ(to_terminal(document, 50),
            "T\n=\n- Undecided:\n"
            "    assay run demo -o results --processes 33 \\\n"
            "      --lengths 32,128,512,1008 --seed 7\n"
            "- Run `x` or:\n    a <b>\n  c.\n"
            "- none\n");
  EXPECT_NE(
      to_markdown(document).find("- Undecided: `" + command + "`\n- Run \\`x\\` or: `a <b>` c.\n- none\n"),
      std::string::npos)
      << to_markdown(document);
  EXPECT_NE(to_html(document).find("<li>Undecided: <code>" + command +
                                   "</code></li>\n<li>Run `x` or: <code>a &lt;b&gt;</code> c.</li>"),
            std::string::npos)
      << to_html(document);
  section.blocks = {{List{{"by: a`b``c"}, {"a`b``c"}}}};
  EXPECT_NE(to_markdown(document).find("- by: ``` a`b``c ```\n"), std::string::npos) << to_markdown(document);
}

TEST(Render, ProseIsNotAsWideAsTables) {
  Document document;
  Section section{"", {}};
  std::string words;
  for (int i = 0; i < 40; ++i) words += "word ";
  section.add(Paragraph{words});
  section.add(List{{words}});
  Table table;
  table.add_column(std::string(150, 'h'), false);
  table.rows = {{"cell"}};
  section.add(table);
  document.sections.push_back(section);
  const std::string text = to_terminal(document, 160);
  EXPECT_NE(text.find(std::string(150, 'h')), std::string::npos);
  EXPECT_EQ(text.substr(0, text.find('\n')).size(), 99U) << "twenty words";
  EXPECT_NE(text.find("\n- word"), std::string::npos);
  const std::size_t item = text.find("\n- ") + 1;
  EXPECT_LE(text.find('\n', item) - item, 100U);
}

TEST(Render, NoLineIsEverTooWide) {
  for (std::size_t width = 40; width <= 200; ++width) {
    Document document;
    document.title = hard_text(width);
    Section section{hard_text(width + 1), {}};
    section.add(Paragraph{hard_text(width + 2)});
    section.add(List{{hard_text(width + 3), hard_text(width + 4)}});
    section.add(Lines{{hard_text(width + 5)}});
    Table table;
    const std::size_t columns = 1 + width % 9;
    for (std::size_t j = 0; j < columns; ++j)
      table.add_column(hard_text(width * 7 + j).substr(0, 12), j % 2 == 1, static_cast<int>(j % 4));
    for (std::size_t i = 0; i < 3; ++i) {
      std::vector<std::string> row;
      for (std::size_t j = 0; j < columns; ++j) row.push_back(hard_text(width * 31 + i * 7 + j));
      table.rows.push_back(row);
    }
    section.add(table);
    document.sections.push_back(section);
    const std::string text = to_terminal(document, width);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      ASSERT_NE(end, std::string::npos);
      const std::string line = text.substr(at, end - at);
      EXPECT_LE(display_width(line), width) << line;
      EXPECT_EQ(line.find_first_of("\t\x1b"), std::string::npos);
      at = end + 1;
    }
  }
}

}  // namespace
}  // namespace assay::report
