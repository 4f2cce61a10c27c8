#include "assay/report/table.h"

#include <utf8proc.h>

#include <algorithm>
#include <cmath>

#include "assay/base/format.h"
#include "assay/report/plot.h"

namespace assay {

namespace {

struct Column {
  const char* tag;
  const char* title;
  double scale;
  int decimals;  // at least; times get more where the shortest needs them for three digits
};

constexpr Column kColumns[] = {
    {"total_latency_s", "Latency (s)", 1, 3},
    {"tokens_per_sec", "Tokens/s", 1, 1},
    {"avg_latency_per_token_ms", "ms/token", 1, 2},
    {"time_to_first_token_s", "First token (ms)", 1e3, 1},
    {"prefill_tokens_per_sec", "Prefill tok/s", 1, 0},
    {"decode_tokens_per_sec", "Decode tok/s", 1, 1},
    {"tokens_per_sec_per_sequence", "Tok/s/seq", 1, 1},
    {"padding_waste_percent", "Waste (%)", 1, 0},
    {"percent_of_roof", "Of roof (%)", 1, 0},
    {"memory_bytes", "Memory (MB)", 1.0 / (1024 * 1024), 1},
    {"resident_weights_bytes", "Resident (MB)", 1.0 / (1024 * 1024), 1},
    {"perplexity", "Perplexity", 1, 3},
    {"perplexity_ratio", "PPL ratio", 1, 3},
    {"break_even_tokens", "Pays after (tok)", 1, 0},
};

std::string cell(const Row& row, const Column& column) {
  const Value* value = row.find(column.tag);
  if (value == nullptr) return "-";
  std::string text = fmt::format("{:.{}f}", value->value * column.scale, column.decimals);
  const std::string_view tag = column.tag;
  if ((tag != "total_latency_s" && tag != "perplexity" && tag != "perplexity_ratio") || !value->interval ||
      value->value <= 0)
    return text;
  const double below = 100 * (1 - value->interval->low / value->value),
               above = 100 * (value->interval->high / value->value - 1);
  // A median of skewed times may lie near one end of its interval.
  constexpr double kAbout = 0.5;  // of the longer side
  if (std::min(below, above) >= kAbout * std::max(below, above))
    return text + fmt::format(" \u00b1{:.1f}%", (below + above) / 2);
  return text + fmt::format(" -{:.1f}/+{:.1f}%", below, above);
}

// Series for plots are no lines of the table, nor is what another line shows too.
bool is_shown(const Row& row, const ResultSet& results) {
  if (row.scenario == "step times") return false;
  return row.scenario != "perplexity" || row.status != "ok" ||
         std::none_of(results.rows.begin(), results.rows.end(), [&](const Row& other) {
           return other.scenario == "trade-off" && other.label == row.label && other.status == "ok" &&
                  other.find("perplexity") != nullptr;
         });
}

// Decimals that leave the smallest figure of a column of times three digits.
int decimals_of(const Column& column, const std::vector<const Row*>& rows) {
  constexpr int kMost = 6;
  if (std::string_view(column.tag) != "total_latency_s") return column.decimals;
  double least = 1;
  for (const Row* row : rows)
    if (const Value* value = row->find(column.tag); value != nullptr && value->value > 0)
      least = std::min(least, value->value * column.scale);
  return std::clamp(2 - static_cast<int>(std::floor(std::log10(least))), column.decimals, kMost);
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

Table build_results_table(const ResultSet& results) {
  Table table{{"Scenario", "Case", "Precision"}, {false, false, false}, {}};
  std::vector<const Row*> rows;
  for (const Row& row : results.rows)
    if (is_shown(row, results)) rows.push_back(&row);
  std::vector<Column> shown;
  for (const Column& column : kColumns) {
    if (std::none_of(rows.begin(), rows.end(),
                     [&](const Row* row) { return row->find(column.tag) != nullptr; }))
      continue;
    shown.push_back(column);
    shown.back().decimals = decimals_of(column, rows);
    table.head.emplace_back(column.title);
    table.is_number.push_back(true);
  }
  constexpr std::size_t kLongest = 120;
  for (const Row* row : rows) {
    std::vector<std::string> line;
    for (const std::string& words : {row->scenario, row->label, row->parameter("precision")})
      line.push_back(one_line(words, kLongest));
    if (row->status != "ok") line[1] += ": error: " + one_line(row->reason, kLongest);
    for (const Column& column : shown) line.push_back(cell(*row, column));
    table.rows.push_back(std::move(line));
  }
  return table;
}

Table tradeoff_table(const ResultSet& results) {
  Table table{{"Float Precision", "Memory (MB)", "Avg Latency (s)"}, {false, true, true}, {}};
  std::vector<std::string> prompts;
  for (const GeneratedText& text : results.texts)
    if (!text.prompt.empty() && std::find(prompts.begin(), prompts.end(), text.prompt) == prompts.end())
      prompts.push_back(text.prompt);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    table.head.push_back(fmt::format("Prompt {} Output", i + 1));
    table.is_number.push_back(false);
  }
  for (const Row& row : results.rows) {
    if (row.scenario != "trade-off") continue;
    const bool is_first = table.rows.empty();
    std::vector<std::string> line = {row.label + (is_first ? " (baseline)" : "")};
    const Value *memory = row.find("memory_bytes"), *latency = row.find("total_latency_s");
    line.push_back(memory == nullptr ? "Error" : fmt::format("{:.2f}", memory->value / (1024 * 1024)));
    line.push_back(latency == nullptr ? "Error" : fmt::format("{:.4f}", mean(latency->samples)));
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const std::string label = fmt::format("{}, prompt {}", row.label, i + 1);
      const auto text = std::find_if(results.texts.begin(), results.texts.end(),
                                     [&](const GeneratedText& t) { return t.label == label; });
      line.push_back(text != results.texts.end() ? text->text : i == 0 ? "Error: " + row.reason : "Error");
    }
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

std::string table_svg(const Table& table) {
  constexpr double kCharacter = 7.3, kLine = 21, kLeft = 16, kTop = 34;
  std::vector<double> widths;
  double whole = 2 * kLeft;
  for (std::size_t j = 0; j < table.head.size(); ++j) {
    std::size_t longest = display_width(table.head[j]);
    for (const auto& row : table.rows) longest = std::max(longest, display_width(row[j]));
    widths.push_back(kCharacter * static_cast<double>(std::min<std::size_t>(longest, 60) + 2));
    whole += widths.back();
  }
  const double height = kTop + kLine * static_cast<double>(table.rows.size()) + 18;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" viewBox=\"0 0 {0:g} "
      "{1:g}\" "
      "font-family=\"DejaVu Sans Mono, monospace\" font-size=\"12\">\n<rect width=\"{0:g}\" height=\"{1:g}\" "
      "fill=\"#ffffff\"/>\n",
      whole, height);
  const auto line = [&](const std::vector<std::string>& cells, double y, const char* weight) {
    double x = kLeft;
    for (std::size_t j = 0; j < cells.size(); ++j) {
      const double at = table.is_number[j] ? x + widths[j] - 8 : x;
      svg += fmt::format(
          "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-weight=\"{}\" "
          "fill=\"#222222\">{}</text>\n",
          at, y, table.is_number[j] ? "end" : "start", weight, escaped_xml(one_line(cells[j], 60)));
      x += widths[j];
    }
  };
  line(table.head, kTop - 12, "bold");
  svg += fmt::format("<line x1=\"{0:g}\" y1=\"{1:g}\" x2=\"{2:g}\" y2=\"{1:g}\" stroke=\"#222222\"/>\n",
                     kLeft, kTop - 4, whole - kLeft);
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const double y = kTop + kLine * static_cast<double>(i);
    if (i % 2 == 1)
      svg += fmt::format("<rect x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"{:g}\" fill=\"#f3f5f8\"/>\n",
                         kLeft - 6, y, whole - 2 * kLeft + 12, kLine);
    line(table.rows[i], y + 15, "normal");
  }
  return svg + "</svg>\n";
}

}  // namespace assay
