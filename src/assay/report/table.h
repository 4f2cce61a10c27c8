// A table of text: how it looks on a terminal, in Markdown and as a picture.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace assay::report {

struct Table {
  std::vector<std::string> head;
  std::vector<bool> is_number;  // numbers are aligned to the right
  std::vector<std::vector<std::string>> rows;
  // By column: where a table is too wide, columns of the highest rank go first, the rightmost of equals
  // first; those of rank 0 always stay. Empty: all stay.
  std::vector<int> rank = {};
  // By column: what a head is called where a table is too wide, before columns go; empty: as ever.
  std::vector<std::string> short_head = {};

  void add_column(std::string title, bool has_numbers, int column_rank = 0, std::string short_title = "");
};

// A table that is too wide says once, below it, what several texts of its first column end with, before
// columns go; one that is still too wide then has the widest of its texts cut. `width` 0: any width.
std::string to_text(const Table& table, std::size_t width = 0);
std::string to_markdown(const Table& table);
std::string table_svg(const Table& table);

// Printable form of untrusted text on one line: line breaks and control characters escaped, cut at `limit`
// bytes on a character boundary.
std::string one_line(const std::string& text, std::size_t limit);

}  // namespace assay::report
