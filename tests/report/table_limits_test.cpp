// Tables that are too wide, to the column: which text gives way, how far, and what stays.
#include "assay/report/table.h"

#include <gtest/gtest.h>

namespace assay::report {
namespace {

Table row_of_widths(const std::vector<std::pair<std::size_t, bool>>& columns) {
  Table table;
  std::vector<std::string> cells;
  for (const auto& [width, is_number] : columns) {
    table.add_column("h", is_number);
    cells.emplace_back(width, is_number ? '1' : 't');
  }
  table.rows = {cells};
  return table;
}
// The widths of the columns, from the rule under the head.
std::vector<std::size_t> widths_at(const Table& table, std::size_t width) {
  const std::string text = to_text(table, width);
  const std::size_t begin = text.find('\n') + 1;
  const std::string rule = text.substr(begin, text.find('\n', begin) - begin);
  std::vector<std::size_t> widths;
  for (std::size_t at = 0; at < rule.size();) {
    const std::size_t end = std::min(rule.find("  ", at), rule.size());
    widths.push_back(end - at);
    at = end + 2;
  }
  return widths;
}
using Widths = std::vector<std::size_t>;

// 12 + 2 + 10 + 2 + 5 = 31 columns: the widest text goes below the next one, then they take turns.
TEST(TableLimits, TheWidestTextGivesWay) {
  const Table table = row_of_widths({{12, false}, {10, false}, {5, true}});
  EXPECT_EQ(widths_at(table, 31), (Widths{12, 10, 5}));
  EXPECT_EQ(widths_at(table, 30), (Widths{11, 10, 5}));
  EXPECT_EQ(widths_at(table, 29), (Widths{9, 10, 5}));
  EXPECT_EQ(widths_at(table, 28), (Widths{9, 10, 5}));
  EXPECT_EQ(widths_at(table, 27), (Widths{9, 8, 5}));
  EXPECT_EQ(widths_at(table, 25), (Widths{8, 8, 5}));
  // No text gets narrower than 8: then lines are cut.
  EXPECT_EQ(to_text(table, 24),
            "h         h          ...\n"
            "--------  --------  ----\n"
            "ttttt...  ttttt...  1...\n");
}

TEST(TableLimits, NumbersAreNeverCutBeforeTexts) {
  EXPECT_EQ(widths_at(row_of_widths({{14, true}, {12, false}}), 25), (Widths{14, 9}));
  // A number's width is no limit for a text.
  EXPECT_EQ(widths_at(row_of_widths({{12, false}, {10, false}, {11, true}}), 35), (Widths{9, 10, 11}));
  EXPECT_EQ(widths_at(row_of_widths({{30, true}}), 20), (Widths{20}));
  EXPECT_EQ(to_text(row_of_widths({{12, false}, {30, true}}), 20),
            "h                ...\n"
            "--------  ----------\n"
            "ttttt...  1111111...\n");
}

TEST(TableLimits, OfEqualTextsTheFirstGivesWay) {
  EXPECT_EQ(widths_at(row_of_widths({{12, false}, {12, false}}), 25), (Widths{11, 12}));
  EXPECT_EQ(widths_at(row_of_widths({{12, false}, {12, false}}), 23), (Widths{9, 12}));
  EXPECT_EQ(widths_at(row_of_widths({{9, false}}), 8), (Widths{8}));
  EXPECT_EQ(widths_at(row_of_widths({{8, false}, {3, true}}), 12), (Widths{8, 2})) << "8 is not cut";
}

TEST(TableLimits, RanksDecideWhichColumnGoes) {
  Table table{{"Name"}, {false}, {{"n", "1", "22"}}};
  table.add_column("A", true, 2);
  table.add_column("B", true);
  EXPECT_EQ(table.rank, (std::vector<int>{0, 2, 0}));
  EXPECT_EQ(table.is_number, (std::vector<bool>{false, true, true}));
  EXPECT_EQ(to_text(table), "Name  A   B\n----  -  --\nn     1  22\n");
  EXPECT_EQ(to_text(table, 10), "Name   B\n----  --\nn     22\n");
  EXPECT_EQ(to_text(table, 7), "Name...\n----  -\nn   ...\n") << "those of rank 0 stay";
  // A table without ranks keeps all, one of which every column may go may end without any.
  EXPECT_EQ(to_text({{"Column", "x"}, {false, false}, {{"a", "b"}}}, 8), "Colum...\n------  \na    ...\n");
  Table all;
  all.add_column("0123456789", true, 1);
  all.rows = {{"1"}};
  EXPECT_EQ(to_text(all, 9), "\n\n\n");
  EXPECT_EQ(to_text(all, 10), "0123456789\n----------\n         1\n");
  EXPECT_EQ(to_text(Table{}), "\n\n");
}

TEST(TableLimits, HeadsAreShortenedBeforeColumnsGo) {
  Table table;
  table.add_column("name", false);
  table.add_column("a long head", true, 1, "a");
  table.add_column("another", true, 2, "b");
  table.rows = {{"n", "12", "34"}};
  const auto head_at = [&](std::size_t width) {
    return to_text(table, width).substr(0, to_text(table, width).find('\n'));
  };
  EXPECT_EQ(head_at(0), "name  a long head  another");
  EXPECT_EQ(head_at(26), "name  a long head  another");
  EXPECT_EQ(head_at(25), "name  a long head   b") << "the first that has room keeps its whole head";
  EXPECT_EQ(head_at(20), "name   a  another");
  EXPECT_EQ(head_at(12), "name   a   b");
  EXPECT_EQ(head_at(11), "name   a");
}

// Before columns go, and only where several texts share it.
TEST(TableLimits, ASharedEndingIsSaidOnce) {
  Table table{{"Precision"}, {false}, {}};
  table.add_column("PPL", true, 1);
  table.rows = {{"as stored", "1"}, {"nf4 of dequantized weights", "2"}, {"fp4 of dequantized weights", "3"}};
  EXPECT_EQ(to_text(table, 31),
            "Precision                   PPL\n"
            "--------------------------  ---\n"
            "as stored                     1\n"
            "nf4 of dequantized weights    2\n"
            "fp4 of dequantized weights    3\n");
  EXPECT_EQ(to_text(table, 30),
            "Precision  PPL\n"
            "---------  ---\n"
            "as stored    1\n"
            "nf4 *        2\n"
            "fp4 *        3\n"
            "* of dequantized weights\n");
  EXPECT_TRUE(to_text(table, 20).ends_with("3\n* of dequantized ...\n")) << to_text(table, 20);
  table.rows.pop_back();
  EXPECT_EQ(to_text(table, 30).find('*'), std::string::npos);
  table.rows = {{"as stored", "1"}, {"nf4 of dequantized", "2"}, {"fp4 of dequantized", "3"}};
  EXPECT_EQ(to_text(table, 16).find('*'), std::string::npos) << "too short to be worth it";
  table.rows = {
      {std::string(26, 'x'), "1"}, {"nf4 of dequantized weights", "2"}, {"fp4 of dequantized weights", "3"}};
  EXPECT_EQ(to_text(table, 16).find('*'), std::string::npos) << "another text is as wide";
}

TEST(TableLimits, CellsAreShownAndNotObeyed) {
  EXPECT_EQ(to_text({{"h\x1b"}, {false}, {{"a\nb"}}}), "h\\x1b\n-----\na\\nb\n");
  EXPECT_EQ(to_markdown({{"a*", "b"}, {false, true}, {{"x_", "1"}, {"y", "2"}}}),
            "| a\\* | b |\n|---|---:|\n| x\\_ | 1 |\n| y | 2 |\n");
}

TEST(TableLimits, OneLineHasItsLimit) {
  EXPECT_EQ(one_line("abc", 3), "abc");
  EXPECT_EQ(one_line("abcd", 3), "abc...");
  EXPECT_EQ(one_line("abc", 0), "...");
  EXPECT_EQ(one_line("\xc3\xa9z", 1), "...");
  EXPECT_EQ(one_line("z\xe6\x97\xa5", 3), "z...");
  EXPECT_EQ(one_line("z\xe6\x97\xa5", 4), "z\xe6\x97\xa5");
}

}  // namespace
}  // namespace assay::report
