// Measures cases side by side, in visits: each visit starts and loads every configuration afresh, warms it
// up, and runs rounds, which hold every case once in random order, so that drift affects all alike.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "assay/harness/journal.h"
#include "assay/harness/sessions.h"
#include "assay/harness/sweep_options.h"
#include "assay/results/results.h"

namespace assay {

struct CaseResult {
  Case spec;
  RowStatus status = RowStatus::ok;
  std::string reason;  // why it failed
  SessionFacts facts;
  FirstRun first;
  std::map<SampleId, Sample> samples;
  double visit_s = 0;  // that a visit of all cases took, in the mean; 0: not known
  std::vector<Warning> warnings;
  int warm_ups = 0;

  bool is_measured() const { return status == RowStatus::ok && !samples.empty(); }
  std::vector<double> each(double Sample::*member) const;  // in the order of processes and rounds
  std::vector<SampleId> places() const;                    // where each was taken
};

struct SweepResult {
  std::vector<CaseResult> cases;  // as given, equal ones once; without those that never began
  bool is_interrupted = false;
  const CaseResult* find(const std::string& key) const;
};

// A case that fails is a result with its reason; the others go on. Throws UsageError for options out of
// range.
SweepResult run_sweep(Sessions& sessions, const std::string& name, const std::vector<Case>& cases,
                      const SweepOptions& options);

// With fewer rounds in a process, one outlier could move its median far.
inline constexpr int kMinRounds = 3;

// What a visit costs, in seconds: starting, loading and warming up all configurations; a round.
struct VisitCost {
  double start_s = 0, round_s = 0;
};
struct VisitPlan {
  int processes = 1, rounds = kMinRounds;
};
// How many processes to take, and rounds in each: five processes where their three rounds take a minute at
// most, and up to ten within time_s; else three or four, unless that takes more than four minutes and
// starting would dominate: then one. Rounds are added up to ten while time_s allows it. What the options fix
// is kept.
VisitPlan plan_visits(const VisitCost& cost, const SweepOptions& options);

// The log ratios of two cases by process, from the rounds that hold both.
std::vector<std::vector<double>> log_ratios(const CaseResult& subject, const CaseResult& baseline,
                                            double Sample::*member);

}  // namespace assay
