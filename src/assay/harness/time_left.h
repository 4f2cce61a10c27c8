// How far a run of several experiments is, and what the rest of it will take.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "assay/harness/sweep.h"

namespace assay {

// Seconds that a sweep of these cases will take: warm-up, and blocks until `options` end it. `seconds_of`
// gives those of one run of a case.
double predicted_sweep_s(const std::vector<Case>& cases, const SweepOptions& options,
                         const std::function<double(const Case&)>& seconds_of);

class TimeLeft {
 public:
  struct Part {
    std::string name;
    double predicted_s = 0;
  };
  // In the order they will run in. `show` is told what an experiment tells, with "part 2 of 7, " before it
  // and the seconds left of all parts; where `knows_time` is false, nothing was predicted and no time is
  // told.
  TimeLeft(std::vector<Part> parts, bool knows_time, OnProgress show);

  // The part that runs from now on; those before it are over. One that is not listed changes nothing.
  void begin(std::string_view name, TimePoint now = Clock::now());
  // Of all parts. `left_of_part` is what the part says itself, below 0 where it does not know.
  double seconds_left(double left_of_part, TimePoint now = Clock::now()) const;
  // For SweepOptions; valid as long as this lives.
  OnProgress teller();

 private:
  // What the parts that are over took, beside what was predicted of them.
  double slowness() const;

  std::vector<Part> parts_;
  bool knows_time_;
  OnProgress show_;
  std::size_t current_ = 0;
  TimePoint begin_, begin_of_part_;
};

}  // namespace assay
