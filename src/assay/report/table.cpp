#include "assay/report/table.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "assay/base/format.h"
#include "assay/report/plot.h"
#include "assay/report/text_layout.h"

namespace assay::report {

namespace {

std::string aligned(const std::string& text, std::size_t width, bool is_number) {
  const std::size_t own = display_width(text);
  const std::string blanks(width > own ? width - own : 0, ' ');
  return is_number ? blanks + text : text + blanks;
}

// The ending, from a blank on, that texts of the first column have in common and that takes most room there;
// empty where it is short or only one has it.
std::string shared_ending(const std::vector<std::vector<std::string>>& rows) {
  constexpr std::size_t kShortest = 16;
  std::map<std::string_view, std::size_t> counts;
  for (const auto& row : rows) {
    const std::string_view text = row.front();
    for (std::size_t at = text.find(' ', 1); at < text.size() && text.size() - at >= kShortest;
         at = text.find(' ', at + 1))
      ++counts[text.substr(at)];
  }
  std::string_view best;
  std::size_t most = 0;
  for (const auto& [ending, count] : counts) {
    if (count < 2 || count * ending.size() <= most) continue;
    most = count * ending.size();
    best = ending;
  }
  return std::string(best);
}

// Lays a table out in so many columns of a terminal.
class TextTable {
 public:
  TextTable(const Table& table, std::size_t width)
      : table_(table), width_(width), head_(table.head), rows_(table.rows) {
    for (std::size_t j = 0; j < head_.size(); ++j) kept_.push_back(j);
    measure();
    if (width_ == 0) return;
    if (total() > width_) {
      for (std::size_t j = 0; j < table.short_head.size(); ++j)
        if (!table.short_head[j].empty()) head_[j] = table.short_head[j];
      measure();
    }
    if (total() > width_) shorten_endings();
    while (total() > width_ && drop_one()) {
    }
    lengthen_heads();
    while (total() > width_ && narrow_one()) {
    }
  }

  std::string text() const {
    std::string rule;
    for (const std::size_t j : kept_) rule += (rule.empty() ? "" : "  ") + std::string(widths_[j], '-');
    std::string all = line(head_) + rule.substr(0, width_ == 0 ? rule.size() : width_) + "\n";
    for (const auto& row : rows_) all += line(row);
    return ending_.empty() ? all : all + limited("*" + terminal_text(ending_)) + "\n";
  }

 private:
  static constexpr std::size_t kGap = 2;

  // What columns have left may be room for the heads as they are.
  void lengthen_heads() {
    for (const std::size_t j : kept_) {
      const std::string own = std::exchange(head_[j], table_.head[j]);
      const std::size_t before = widths_[j];
      widths_[j] = std::max(before, display_width(terminal_text(head_[j])));
      if (total() <= width_) continue;
      head_[j] = own;
      widths_[j] = before;
    }
  }

  // What several labels end with is said once, below the table.
  void shorten_endings() {
    ending_ = shared_ending(rows_);
    if (ending_.empty()) return;
    const std::size_t before = widths_.front();
    for (auto& row : rows_)
      if (std::string& text = row.front(); text.size() > ending_.size() && text.ends_with(ending_))
        text.replace(text.size() - ending_.size(), std::string::npos, " *");
    measure();
    if (widths_.front() < before) return;
    rows_ = table_.rows;  // another text is as wide
    ending_.clear();
    measure();
  }

  void measure() {
    widths_.clear();
    for (std::size_t j = 0; j < head_.size(); ++j) {
      std::size_t widest = display_width(terminal_text(head_[j]));
      for (const auto& row : rows_) widest = std::max(widest, display_width(terminal_text(row[j])));
      widths_.push_back(widest);
    }
  }
  std::size_t total() const {
    std::size_t sum = kept_.empty() ? 0 : kGap * (kept_.size() - 1);
    for (const std::size_t j : kept_) sum += widths_[j];
    return sum;
  }
  int rank_of(std::size_t j) const { return j < table_.rank.size() ? table_.rank[j] : 0; }

  bool drop_one() {
    const auto last = std::max_element(kept_.begin(), kept_.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(rank_of(a), a) < std::pair(rank_of(b), b);
    });
    if (last == kept_.end() || rank_of(*last) == 0) return false;
    kept_.erase(last);
    return true;
  }

  // The widest of the texts gives what is missing, as far as it stays readable.
  bool narrow_one() {
    constexpr std::size_t kNarrowest = 8;
    std::size_t widest = table_.head.size();
    for (const std::size_t j : kept_)
      if (!table_.is_number[j] && (widest == table_.head.size() || widths_[j] > widths_[widest])) widest = j;
    if (widest == table_.head.size() || widths_[widest] <= kNarrowest) return false;
    // No further than the next widest text, so that several share what is missing.
    std::size_t next = kNarrowest;
    for (const std::size_t j : kept_)
      if (!table_.is_number[j] && j != widest && widths_[j] < widths_[widest])
        next = std::max(next, widths_[j]);
    const std::size_t missing = total() - width_;
    widths_[widest] = std::max({widths_[widest] > missing ? widths_[widest] - missing : 0, next, kNarrowest});
    if (widths_[widest] == next && next > kNarrowest) --widths_[widest];
    return true;
  }

  std::string limited(const std::string& text) const {
    return width_ == 0 ? text : cut_to_width(text, width_);
  }

  std::string line(const std::vector<std::string>& cells) const {
    std::string text;
    bool is_first = true;
    for (const std::size_t j : kept_) {
      text += (is_first ? "" : std::string(kGap, ' ')) +
              aligned(cut_to_width(terminal_text(cells[j]), widths_[j]), widths_[j], table_.is_number[j]);
      is_first = false;
    }
    return limited(text.substr(0, text.find_last_not_of(' ') + 1)) + "\n";
  }

  const Table& table_;
  const std::size_t width_;
  std::vector<std::string> head_;
  std::vector<std::vector<std::string>> rows_;
  std::string ending_;  // that a star stands for; empty: none does
  std::vector<std::size_t> kept_, widths_;
};

}  // namespace

void Table::add_column(std::string title, bool has_numbers, int column_rank, std::string short_title) {
  rank.resize(head.size(), 0);
  short_head.resize(head.size());
  short_head.push_back(std::move(short_title));
  head.push_back(std::move(title));
  is_number.push_back(has_numbers);
  rank.push_back(column_rank);
}

std::string one_line(const std::string& text, std::size_t limit) {
  std::string line = escape_controls(text);
  if (line.size() <= limit) return line;
  std::size_t cut = limit;
  while (cut > 0 && (static_cast<unsigned char>(line[cut]) & 0xc0U) == 0x80U) --cut;
  return line.substr(0, cut) + "...";
}

std::string to_text(const Table& table, std::size_t width) {
  return TextTable(table, width).text();
}

std::string to_markdown(const Table& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (const std::string& cell : cells) text += " " + markdown_words(cell) + " |";
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
  constexpr std::size_t kWidest = 60;
  std::vector<double> widths;
  double whole = 2 * kLeft;
  for (std::size_t j = 0; j < table.head.size(); ++j) {
    std::size_t longest = display_width(table.head[j]);
    for (const auto& row : table.rows) longest = std::max(longest, display_width(row[j]));
    widths.push_back(kCharacter * static_cast<double>(std::min(longest, kWidest) + 2));
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
          at, y, table.is_number[j] ? "end" : "start", weight,
          escaped_xml(cut_to_width(terminal_text(cells[j]), kWidest)));
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

}  // namespace assay::report
