// Measures cases side by side: each is warmed up until it is steady; then rounds run every case once, in
// random order, so that drift affects all alike, until the intervals are narrow or the time is over.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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
  explicit Sessions(SessionMaker make, std::function<Bytes(const RunConfig&)> memory_of = {},
                    Bytes budget = {});

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
  // Cuts cases into groups whose configurations fit the budget together, the first configuration in each.
  std::vector<std::vector<RunConfig>> groups(const std::vector<RunConfig>& configurations) const;
  // Empty, or why it cannot fit: "out of memory predicted: 5000 MB needed, 4000 MB allowed".
  std::string why_not(const RunConfig& configuration) const;

 private:
  SessionMaker make_;
  std::function<Bytes(const RunConfig&)> memory_of_;
  Bytes budget_;
  // By the configuration's key.
  std::map<std::string, std::unique_ptr<Session>> live_;
  std::map<std::string, SessionFacts> facts_;
  std::map<std::string, std::string> failures_;
};

struct CaseResult {
  Case what;
  RowStatus status = RowStatus::ok;
  std::string reason;  // of an error
  SessionFacts facts;
  FirstRun first;
  std::map<int, Sample> samples;  // by round
  std::vector<Warning> warnings;
  int warm_ups = 0;

  bool is_measured() const { return status == RowStatus::ok && !samples.empty(); }
  std::vector<double> each(double Sample::*member) const;  // in the order of rounds
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

// The fewest rounds of an adaptive sweep: as many as the interval of each comparison with the first case
// needs.
int fewest_rounds(std::size_t cases);

// Samples of two cases from the rounds that hold both.
std::pair<std::vector<double>, std::vector<double>> paired(const CaseResult& a, const CaseResult& b,
                                                           double Sample::*member);

}  // namespace assay
