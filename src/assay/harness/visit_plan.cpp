// How many processes a sweep takes, and rounds in each.
#include <algorithm>

#include "assay/harness/sweep.h"

namespace assay {

namespace {

constexpr int kMaxRounds = 10, kMaxProcesses = 10;
constexpr int kRoundsInOneProcess = static_cast<int>(statistics::kMinForInterval);

}  // namespace

VisitPlan plan_visits(const VisitCost& cost, const SweepOptions& options) {
  constexpr double kShort_s = 60, kLong_s = 240;
  constexpr int kLoadsWorth = 9;  // rounds
  const int rounds = static_cast<int>(options.repeats.value_or(kMinRounds));
  const double replicate = std::max(1e-9, cost.start_s + rounds * cost.round_s);
  const auto fit = [&](double seconds) { return static_cast<int>(std::min(1e6, seconds / replicate)); };
  VisitPlan plan{1, rounds};
  if (options.processes)
    plan.processes = static_cast<int>(*options.processes);
  else if (kUsualProcesses * replicate <= kShort_s)
    plan.processes = std::clamp(fit(options.time_s), kUsualProcesses, kMaxProcesses);
  else if (kMinProcesses * replicate <= kLong_s || cost.start_s <= kLoadsWorth * cost.round_s)
    plan.processes = std::clamp(fit(kShort_s), kMinProcesses, kUsualProcesses - 1);
  else if (!options.repeats)
    plan.rounds = kRoundsInOneProcess;
  if (!options.repeats && cost.round_s > 0) {
    const double left = options.time_s / plan.processes - cost.start_s;
    plan.rounds = std::clamp(static_cast<int>(std::min(1e6, left / cost.round_s)), plan.rounds, kMaxRounds);
  }
  return plan;
}

}  // namespace assay
