// Renderers on small documents made by hand: the exact text.
#include "assay/report/render.h"

#include <gtest/gtest.h>

namespace assay::report {
namespace {

Document small_document() {
  Document document;
  document.title = "A report";
  Section conclusion{"Takeaways", {}};
  conclusion.is_conclusion = true;
  conclusion.add(
      List{{"The first takeaway is so long that it does not fit one line of forty columns.", "Second."}});
  Section body{"Latency", {}};
  body.add(Paragraph{"Every prompt ran with * and |."});
  Table table{{"Case", "Latency (ms)"}, {false, true}, {{"a | b", "1.5"}, {"c", "12.0"}}};
  body.add(table);
  body.add(Lines{{"Final perplexity: 5.25", "Latency     : 0.100 s"}});
  body.add(Figure{"a", {.title = "A plot"}});
  body.add(Paragraph{"Only pages say this."}, Shown::on_pages);
  body.add(Paragraph{"Only terminals say this."}, Shown::on_terminals);
  Section detail{"Detail", {}, Shown::on_pages};
  detail.add(Paragraph{"# no heading"});
  Section empty{"Empty", {}};
  document.sections = {conclusion, body, detail, empty};
  return document;
}

TEST(Render, ATerminalEndsWithTheConclusions) {
  EXPECT_EQ(to_terminal(small_document(), 40),
            "Latency\n"
            "=======\n"
            "Every prompt ran with * and |.\n"
            "\n"
            "Case   Latency (ms)\n"
            "-----  ------------\n"
            "a | b           1.5\n"
            "c              12.0\n"
            "\n"
            "Final perplexity: 5.25\n"
            "Latency     : 0.100 s\n"
            "\n"
            "Only terminals say this.\n"
            "\n"
            "Takeaways\n"
            "=========\n"
            "- The first takeaway is so long that it\n"
            "  does not fit one line of forty\n"
            "  columns.\n"
            "- Second.\n");
}

TEST(Render, APageBeginsWithTheConclusionsAndHoldsEverything) {
  EXPECT_EQ(to_markdown(small_document()),
            "# A report\n"
            "\n"
            "## Takeaways\n"
            "\n"
            "- The first takeaway is so long that it does not fit one line of forty columns.\n"
            "- Second.\n"
            "\n"
            "## Latency\n"
            "\n"
            "Every prompt ran with \\* and \\|.\n"
            "\n"
            "| Case | Latency (ms) |\n"
            "|---|---:|\n"
            "| a \\| b | 1.5 |\n"
            "| c | 12.0 |\n"
            "\n"
            "```\n"
            "Final perplexity: 5.25\n"
            "Latency     : 0.100 s\n"
            "```\n"
            "\n"
            "![A plot](plots/a.svg)\n"
            "\n"
            "Only pages say this.\n"
            "\n"
            "## Detail\n"
            "\n"
            "\\# no heading\n");
}

TEST(Render, AFenceIsLongerThanAnyInIt) {
  Document document;
  Section section{"", {}};
  section.add(Lines{{"a ``` b"}});
  document.sections = {section};
  EXPECT_EQ(to_markdown(document), "# \n\n````\na ``` b\n````\n");
}

Table wide_table() {
  Table table;
  table.add_column("Name", false);
  table.add_column("First", true, 1);
  table.add_column("Third", true, 3);
  table.add_column("Second", true, 2);
  table.add_column("Third too", true, 3);
  table.rows = {{"a name", "1", "3", "2", "33"}};
  return table;
}

TEST(Table, TheLeastImportantColumnsGoFirst) {
  EXPECT_EQ(to_text(wide_table()),
            "Name    First  Third  Second  Third too\n"
            "------  -----  -----  ------  ---------\n"
            "a name      1      3       2         33\n");
  EXPECT_EQ(to_text(wide_table(), 38),
            "Name    First  Third  Second\n"
            "------  -----  -----  ------\n"
            "a name      1      3       2\n");
  EXPECT_EQ(to_text(wide_table(), 25),
            "Name    First  Second\n"
            "------  -----  ------\n"
            "a name      1       2\n");
  EXPECT_EQ(to_text(wide_table(), 13), "Name    First\n------  -----\na name      1\n");
  EXPECT_EQ(to_text(wide_table(), 12), "Name\n------\na name\n");
}

TEST(Table, TheWidestTextIsCutWhereNoColumnCanGo) {
  Table table;
  table.add_column("Precision", false);
  table.add_column("Text", false);
  table.rows = {{"nf4", "a long text that a model generated"}};
  EXPECT_EQ(to_text(table, 30),
            "Precision  Text\n"
            "---------  -------------------\n"
            "nf4        a long text that...\n");
}

}  // namespace
}  // namespace assay::report
