// The table of what is measured so far: in the run's own terminal, and in another from its journal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assay/base/units.h"
#include "assay/harness/sweep.h"
#include "assay/report/live_table.h"

namespace assay::cli {

// Takes over the cases of a study that have begun.
void add_to(report::LiveTable& table, const std::string& study, const std::vector<CaseResult>& cases);

// Lines on a terminal (standard error) that are written over, cut where it ends. Shows nothing elsewhere.
class LiveScreen {
 public:
  explicit LiveScreen(bool is_shown) : is_shown_(is_shown) {}
  ~LiveScreen() { clear(); }
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  bool is_shown() const { return is_shown_; }
  // A status line above the table, drawn at once where the status is new, twice a second at most.
  void show(const std::string& status, const report::LiveTable& table);
  void clear();

 private:
  bool is_shown_;
  std::size_t drawn_ = 0;  // lines on the terminal
  std::optional<TimePoint> last_;
};

struct OutputFlags;  // cli/options.h
// assay run --watch: shows the journal of a run in `folder` until the run ends, and then its results; in a
// pipe these alone. The exit code.
int watch_run(const std::string& folder, const OutputFlags& output);

}  // namespace assay::cli
