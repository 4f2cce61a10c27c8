// What a run has measured so far, told once: so that whoever waits sees figures long before its end.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "assay/base/units.h"
#include "assay/harness/sweep.h"

namespace assay {

// After as many seconds from the start of a run. Where loading and the first run take longer, it is said why
// there is no table.
inline constexpr double kFirstTable_s = 120;

struct FirstFigures {
  std::string sweep = {}, label = {};
  double seconds = 0;       // the median of the timed runs; without any, the first run's
  double tokens_per_s = 0;  // 0: not known
  std::size_t timed_runs = 0;
  bool operator==(const FirstFigures&) const = default;
};

class FirstTable {
 public:
  using Show = std::function<void(const std::vector<FirstFigures>&)>;
  explicit FirstTable(Show show, TimeSource clock = Clock::now);
  OnCases teller();    // looks each time a case has run; valid as long as this lives
  void show_if_due();  // for work that is no sweep; nothing where no case has run yet

 private:
  void add(const std::string& sweep, const std::vector<CaseResult>& cases);

  Show show_;
  TimeSource clock_;
  TimePoint begin_;
  std::vector<std::pair<std::string, std::vector<FirstFigures>>> figures_;  // by sweep
  bool is_shown_ = false;
};

}  // namespace assay
