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
#include "assay/harness/sweep_options.h"
#include "assay/harness/worker_session.h"
#include "assay/results/results.h"

namespace assay {

using SessionMaker = std::function<std::unique_ptr<Session>(const RunConfig&)>;

// The live sessions, one per configuration: made when first needed, kept while there is memory for it.
class Sessions {
 public:
  // `memory_of`: what a configuration with its largest case will take; without it, or where it says 0,
  // nothing is predicted. `budget` 0 = no limit.
  // `have_processes`: whether each session is a process of its own, so that making it again gives another
  // sample of what differs from process to process.
  // `device_budget`: of a configuration whose device has memory of its own; 0 where it has none.
  explicit Sessions(SessionMaker make, std::function<Bytes(const RunConfig&)> memory_of = {},
                    Bytes budget = {}, bool have_processes = false,
                    std::function<Bytes(const RunConfig&)> device_budget = {});
  bool have_processes() const { return have_processes_; }

  // Makes the session where there is none. Throws Error; a configuration that failed once is not tried again.
  Session& of(const RunConfig& configuration);
  // Facts of a session that is, or was, live; makes it where there was none.
  const SessionFacts& facts(const RunConfig& configuration);
  // Facts that a journal holds, so that nothing needs to be loaded for them.
  void remember(const RunConfig& configuration, SessionFacts facts);
  // Ends a session, such as one whose process is lost; the next use makes it again.
  void drop(const RunConfig& configuration);
  // Ends all other sessions, for their memory.
  void keep_only(const std::vector<RunConfig>& configurations);
  // The next use of each makes it again.
  void end_all();
  // Cuts cases into groups whose configurations fit the budget together, the first configuration in each.
  std::vector<std::vector<RunConfig>> groups(const std::vector<RunConfig>& configurations) const;
  // Why it cannot fit, or none: "out of memory predicted: 5000 MiB needed, 4000 MiB allowed".
  std::optional<std::string> why_not(const RunConfig& configuration) const;

 private:
  Bytes budget_for(const RunConfig& configuration) const;
  // Of the memory that it is allowed.
  double memory_share(const RunConfig& configuration) const;

  SessionMaker make_;
  std::function<Bytes(const RunConfig&)> memory_of_;
  Bytes budget_;
  bool have_processes_;
  std::function<Bytes(const RunConfig&)> device_budget_;
  // By the configuration's key.
  std::map<std::string, std::unique_ptr<Session>> live_;
  std::map<std::string, SessionFacts> facts_;
  std::map<std::string, std::string> failures_;
};

struct CaseResult {
  Case spec;
  RowStatus status = RowStatus::ok;
  std::string reason;  // of an error
  SessionFacts facts;
  FirstRun first;
  std::map<SampleId, Sample> samples;
  double visit_s = 0;  // that a visit of all cases took, in the mean; 0: not known
  std::vector<Warning> warnings;
  int warm_ups = 0;

  bool is_measured() const { return status == RowStatus::ok && !samples.empty(); }
  std::vector<double> each(double Sample::*member) const;  // in the order of processes and rounds
  std::vector<SampleId> places() const;                    // of each
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
