#include "assay/cli/live_screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "assay/base/format.h"
#include "assay/report/text_layout.h"

namespace assay::cli {

namespace {

// Columns and lines of the terminal that standard error is.
winsize size_of_screen() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2 || size.ws_row < 2) {
    size.ws_col = 80;
    size.ws_row = 24;
  }
  return size;
}

}  // namespace

void add_to(report::LiveTable& table, const std::string& study, const std::vector<CaseResult>& cases) {
  for (const CaseResult& c : cases) {
    if (c.status == RowStatus::ok && c.first.ids.empty()) continue;  // it has not begun
    report::LiveCase& live = table.at(study, c.spec.key());
    live.label = c.spec.label;
    live.reason = c.status == RowStatus::ok ? "" : c.reason;
    live.first_s = c.first.seconds;
    for (const auto& [place, sample] : c.samples) live.seconds[place] = sample.total_latency_s;
  }
}

void LiveScreen::show(const std::string& status, const report::LiveTable& table) {
  if (!is_shown_) return;
  constexpr double kAgain_s = 0.5;
  const TimePoint now = Clock::now();
  if (last_ && elapsed(*last_, now).value < kAgain_s) return;
  last_ = now;
  const winsize size = size_of_screen();
  // The status, the table's head and rule, what is above, what a ratio is of, and the cursor's line.
  constexpr std::size_t kAround = 6;
  const std::size_t most = size.ws_row > kAround ? size.ws_row - kAround : 0;
  // The last column is left out: a terminal may wrap there.
  const std::size_t width = size.ws_col - std::size_t{1};
  std::vector<std::string> lines = {report::cut_to_width(report::terminal_text(status), width)};
  for (const std::string& line : table.lines(width, most)) lines.push_back(report::cut_to_width(line, width));
  clear();
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  drawn_ = lines.size();
}

void LiveScreen::clear() {
  if (drawn_ == 0) return;
  std::fputs(fmt::format("\x1b[{}A\r\x1b[J", drawn_).c_str(), stderr);
  std::fflush(stderr);
  drawn_ = 0;
}

}  // namespace assay::cli
