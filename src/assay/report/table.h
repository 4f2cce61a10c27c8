// A table of text: how it looks on a terminal and in Markdown.
#pragma once

#include <string>
#include <vector>

#include "assay/measure/results.h"

namespace assay {

struct Table {
  std::vector<std::string> head;
  std::vector<bool> is_number;  // numbers are aligned to the right
  std::vector<std::vector<std::string>> rows;
};

// One line per row of the results; a failed row shows its reason instead of figures.
Table results_table(const ResultSet& results);

std::string to_text(const Table& table);
std::string to_markdown(const Table& table);

// Printable form of untrusted text on one line: line breaks and control characters escaped, cut at `limit`
// bytes on a character boundary.
std::string one_line(const std::string& text, std::size_t limit);

}  // namespace assay
