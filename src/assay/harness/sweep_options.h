// How carefully cases are measured, and how a program follows and stops the work.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "assay/generate/generator.h"

namespace assay {

class Journal;  // harness/journal.h

// What is being done, how many of how many steps are, and the seconds that are left; unset: not known yet.
using OnProgress = std::function<void(const std::string& now, std::int64_t done, std::int64_t all,
                                      std::optional<double> seconds_left)>;

struct SweepOptions {
  std::optional<std::int64_t> repeats =
      {};                // rounds, exactly; unset: from six until every interval is narrow
  double narrow = 0.02;  // half the width of an interval / its median
  double time_s = 20;    // adaptive: no round begins after it, once there are fewest_rounds()
  std::optional<double> max_time_s = {};  // of a sweep: no round begins after it; unset: no limit
  std::int64_t fewest = 1;                // rounds that run whatever max_time_s says
  std::uint64_t seed = 1;                 // for the order of cases within a round
  Journal* journal = nullptr;             // where samples are kept, so that a run can be resumed
  OnProgress on_progress = {};
  ShouldStop should_stop = {};
};

}  // namespace assay
