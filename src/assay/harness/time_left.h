// How far a run of several studies has come, and how long the rest of it will take.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/harness/sweep.h"

namespace assay {

// Seconds that a sweep of these cases will take: warm-up, and rounds until `options` end it. `seconds_of`
// predicts one run of a case.
double predicted_sweep_s(const std::vector<Case>& cases, const SweepOptions& options,
                         const std::function<double(const Case&)>& seconds_of);

class TimeLeft {
 public:
  struct Part {
    std::string name;
    double predicted_s = 0;
  };
  // Parts in the order in which they run. `show` gets the progress of each with "part 2 of 7, " before it and
  // the seconds that are left of all parts, none where `knows_time` is false: nothing was predicted.
  TimeLeft(std::vector<Part> parts, bool knows_time, OnProgress show, TimeSource clock = Clock::now);

  // This part begins, and those before it are over. A name that is not listed changes nothing.
  void begin(std::string_view name);
  // The time left for all parts. `left_of_part`: the current part's own estimate, where it has one.
  std::optional<double> seconds_left(std::optional<double> left_of_part) const;
  // For SweepOptions; valid as long as this lives.
  OnProgress teller();

 private:
  // The time that finished parts took / the time predicted for them.
  double slowness() const;

  std::vector<Part> parts_;
  bool knows_time_;
  OnProgress show_;
  TimeSource clock_;
  std::size_t current_ = 0;
  TimePoint begin_, begin_of_part_;
};

}  // namespace assay
