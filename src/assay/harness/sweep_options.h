// How carefully cases are measured, and how a program follows and stops the work.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "assay/base/units.h"
#include "assay/generate/generator.h"

namespace assay {

class Journal;      // harness/journal.h
struct CaseResult;  // harness/sweep.h

// What is being done, how many of how many steps are, and the seconds that are left; unset: not known yet.
using OnProgress = std::function<void(const std::string& now, std::int64_t done, std::int64_t all,
                                      std::optional<double> seconds_left)>;

// The cases of the sweep of this name, each time that one of them ran.
using OnCases = std::function<void(const std::string& sweep, const std::vector<CaseResult>& so_far)>;

using TimeSource = std::function<TimePoint()>;

struct SweepOptions {
  // Processes that each configuration is started and loaded in, one after the other; unset: chosen from what
  // they cost (plan_visits()). Above 1 only where sessions have processes of their own.
  std::optional<std::int64_t> processes = {};
  // Rounds in each process; unset: at least kMinRounds in several, from six until every interval is narrow
  // in one.
  std::optional<std::int64_t> repeats = {};
  double narrow = 0.02;  // half the width of an interval / its centre, from which no process is added
  double time_s = 20;    // no process or round is added for narrower intervals after it
  std::optional<double> max_time_s = {};  // that a sweep takes: no round begins after it; unset: no limit
  // No case, round or process begins after it, and no process that would end after it if it took as long as
  // the one before. The first case is always measured.
  std::optional<TimePoint> deadline = {};
  std::int64_t fewest = 1;  // rounds that run whatever max_time_s says
  // One of several sweeps, each in the sessions that the one before has left; max_time_s begins at the first
  // round, so that it leaves out loading and warming up.
  bool is_in_series = false;
  std::uint64_t seed = 1;      // for the order of cases within a round
  Journal* journal = nullptr;  // where samples are kept, so that a run can be resumed
  OnProgress on_progress = {};
  OnCases on_cases = {};
  ShouldStop should_stop = {};
  TimeSource clock = Clock::now;  // for the limits above and the time left; tests have their own

  bool is_late() const { return deadline && clock() >= *deadline; }
};

}  // namespace assay
