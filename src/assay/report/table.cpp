#include "assay/report/table.h"

#include <utf8proc.h>

#include <algorithm>

#include "assay/base/format.h"

namespace assay {

namespace {

struct Column {
  const char* tag;
  const char* title;
  double scale;
  int decimals;
};

constexpr Column kColumns[] = {
    {"total_latency_s", "Latency (s)", 1, 3},
    {"tokens_per_sec", "Tokens/s", 1, 1},
    {"avg_latency_per_token_ms", "ms/token", 1, 2},
    {"time_to_first_token_s", "First token (ms)", 1e3, 1},
    {"prefill_tokens_per_sec", "Prefill tok/s", 1, 0},
    {"decode_tokens_per_sec", "Decode tok/s", 1, 1},
    {"memory_bytes", "Memory (MB)", 1.0 / (1024 * 1024), 1},
    {"perplexity", "Perplexity", 1, 3},
};

std::string cell(const Row& row, const Column& column) {
  const Value* value = row.find(column.tag);
  return value == nullptr ? "-" : fmt::format("{:.{}f}", value->value * column.scale, column.decimals);
}

std::string parameter(const Row& row, const std::string& key) {
  for (const auto& [name, value] : row.parameters)
    if (name == key) return value;
  return "";
}

// Columns a terminal needs for the text.
std::size_t display_width(const std::string& text) {
  std::size_t width = 0;
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    utf8proc_int32_t point = 0;
    const utf8proc_ssize_t n = utf8proc_iterate(at, left, &point);
    if (n <= 0) return text.size();
    width += static_cast<std::size_t>(std::max(0, utf8proc_charwidth(point)));
    at += n;
    left -= n;
  }
  return width;
}

std::string padded(const std::string& text, std::size_t width, bool is_number) {
  const std::size_t own = display_width(text);
  const std::string blanks(width > own ? width - own : 0, ' ');
  return is_number ? blanks + text : text + blanks;
}

}  // namespace

std::string one_line(const std::string& text, std::size_t limit) {
  std::string line = escape_controls(text);
  if (line.size() <= limit) return line;
  std::size_t cut = limit;
  while (cut > 0 && (static_cast<unsigned char>(line[cut]) & 0xc0U) == 0x80U) --cut;
  return line.substr(0, cut) + "...";
}

Table results_table(const ResultSet& results) {
  Table table{{"Scenario", "Case", "Precision"}, {false, false, false}, {}};
  std::vector<Column> shown;
  for (const Column& column : kColumns) {
    const bool is_used = std::any_of(results.rows.begin(), results.rows.end(),
                                     [&](const Row& row) { return row.find(column.tag) != nullptr; });
    if (!is_used) continue;
    shown.push_back(column);
    table.head.emplace_back(column.title);
    table.is_number.push_back(true);
  }
  for (const Row& row : results.rows) {
    std::vector<std::string> line = {row.scenario, row.label, parameter(row, "precision")};
    if (row.status != "ok") line[1] += ": error: " + one_line(row.reason, 120);
    for (const Column& column : shown) line.push_back(cell(row, column));
    table.rows.push_back(std::move(line));
  }
  return table;
}

std::string to_text(const Table& table) {
  std::vector<std::size_t> widths;
  for (std::size_t j = 0; j < table.head.size(); ++j) {
    widths.push_back(display_width(table.head[j]));
    for (const auto& row : table.rows) widths[j] = std::max(widths[j], display_width(row[j]));
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t j = 0; j < cells.size(); ++j)
      text += (j == 0 ? "" : "  ") + padded(cells[j], widths[j], table.is_number[j]);
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  std::string text = line(table.head), rule;
  for (std::size_t j = 0; j < widths.size(); ++j) rule += (j == 0 ? "" : "  ") + std::string(widths[j], '-');
  text += rule + "\n";
  for (const auto& row : table.rows) text += line(row);
  return text;
}

std::string to_markdown(const Table& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (std::string cell : cells) {
      for (std::size_t at = cell.find('|'); at != std::string::npos; at = cell.find('|', at + 2))
        cell.insert(at, "\\");
      text += " " + cell + " |";
    }
    return text + "\n";
  };
  std::string text = line(table.head) + "|";
  for (const bool is_number : table.is_number) text += is_number ? "---:|" : "---|";
  text += "\n";
  for (const auto& row : table.rows) text += line(row);
  return text;
}

}  // namespace assay
