#include "assay/harness/time_left.h"

#include <algorithm>
#include <cmath>

#include "assay/base/format.h"

namespace assay {

double predicted_sweep_s(const std::vector<Case>& cases, const SweepOptions& options,
                         const std::function<double(const Case&)>& seconds_of) {
  // Per run: measuring its roofline, a request and an answer. Per configuration: starting its worker.
  constexpr double kBesideRun_s = 0.02, kStart_s = 0.15;
  double round = 0, start = 0;
  std::vector<RunConfig> known;
  for (const Case& spec : cases) {
    round += seconds_of(spec) + kBesideRun_s;
    if (std::find(known.begin(), known.end(), spec.configuration) != known.end()) continue;
    known.push_back(spec.configuration);
    start += kStart_s;
  }
  constexpr double kWarmUps = 2;
  const VisitPlan plan = plan_visits({start + kWarmUps * round, round}, options);
  double all = plan.processes * (start + (kWarmUps + plan.rounds) * round);
  if (options.max_time_s)
    all = std::min(
        all, std::max(*options.max_time_s, start + (kWarmUps + static_cast<double>(options.fewest)) * round));
  return all;
}

TimeLeft::TimeLeft(std::vector<Part> parts, bool knows_time, OnProgress show, TimeSource clock)
    : parts_(std::move(parts)),
      knows_time_(knows_time),
      show_(std::move(show)),
      clock_(std::move(clock)),
      begin_(clock_()),
      begin_of_part_(begin_) {}

void TimeLeft::begin(std::string_view name) {
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (parts_[i].name == name) {
      current_ = i;
      begin_of_part_ = clock_();
    }
}

double TimeLeft::slowness() const {
  double predicted = 0;
  for (std::size_t i = 0; i < current_; ++i) predicted += parts_[i].predicted_s;
  if (predicted <= 0) return 1;
  // One short part says little about the others.
  constexpr double kTrust = 5;
  return (elapsed(begin_, begin_of_part_).value + kTrust) / (predicted + kTrust);
}

std::optional<double> TimeLeft::seconds_left(std::optional<double> left_of_part) const {
  if (!knows_time_ || current_ >= parts_.size()) return std::nullopt;
  const double slow = slowness();
  double left = left_of_part.value_or(
      std::max(0.0, slow * parts_[current_].predicted_s - elapsed(begin_of_part_, clock_()).value));
  for (std::size_t i = current_ + 1; i < parts_.size(); ++i) left += slow * parts_[i].predicted_s;
  return left;
}

OnProgress TimeLeft::teller() {
  if (!show_) return {};
  return [this](const std::string& now, std::int64_t done, std::int64_t all, std::optional<double> left) {
    show_(fmt::format("part {} of {}, {}", current_ + 1, parts_.size(), now), done, all, seconds_left(left));
  };
}

}  // namespace assay
