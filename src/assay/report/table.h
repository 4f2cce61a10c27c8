// A table of text: how it looks on a terminal and in Markdown.
#pragma once

#include <string>
#include <vector>

#include "assay/results/results.h"

namespace assay {

struct Table {
  std::vector<std::string> head;
  std::vector<bool> is_number;  // numbers are aligned to the right
  std::vector<std::vector<std::string>> rows;
};

// One line per row of the results, by scenario: latency, tokens/s, ms per token, memory, perplexity and what
// else was measured; a failed row shows its reason instead of figures. Beside latency and perplexity stand
// the ends of the 95 % interval, in percent of the figure: one number where they lie about as far off.
// Perplexities that a row of the trade-off shows have no line of their own.
Table build_results_table(const ResultSet& results);
// The trade-off experiment as the course asks for it: Float Precision, Memory (MB), Avg Latency (s), and a
// column for the text of each prompt; a configuration that failed has Error in each, and its reason in the
// first text.
Table tradeoff_table(const ResultSet& results);
// As a picture.
std::string table_svg(const Table& table);

std::string to_text(const Table& table);
std::string to_markdown(const Table& table);

// Printable form of untrusted text on one line: line breaks and control characters escaped, cut at `limit`
// bytes on a character boundary.
std::string one_line(const std::string& text, std::size_t limit);

}  // namespace assay
