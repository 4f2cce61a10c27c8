// Measures cases side by side: warmed up until steady, in blocks that hold every case once in random order,
// so that drift hits all alike, until the intervals are narrow or the time is over.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "assay/harness/journal.h"
#include "assay/harness/worker_session.h"
#include "assay/results/results.h"

namespace assay {

using SubjectMaker = std::function<std::unique_ptr<Session>(const Configuration&)>;

// The configurations at work: each made when it is first needed, kept while there is memory for it.
class Sessions {
 public:
  // `memory_of`: what a configuration with its largest case will take; without it, or where it says 0,
  // nothing is predicted. `budget` 0 = no limit.
  explicit Sessions(SubjectMaker make, std::function<Bytes(const Configuration&)> memory_of = {},
                    Bytes budget = {});

  // Makes it where it is not there. Throws Error: the first failure of a configuration is final.
  Session& of(const Configuration& configuration);
  // Facts of one that is, or was, there.
  const SessionFacts& facts(const Configuration& configuration);
  // Known from a journal, so that nothing needs to be loaded for them.
  void remember(const Configuration& configuration, SessionFacts facts);
  // After its process is lost; the next use makes it again.
  void drop(const Configuration& configuration);
  // Ends those that are not named: their memory is needed.
  void keep_only(const std::vector<Configuration>& configurations);
  // Cuts cases into groups whose configurations fit the budget together, the first configuration in each.
  std::vector<std::vector<Configuration>> groups(const std::vector<Configuration>& configurations) const;
  // Empty, or why it cannot fit: "out of memory predicted: 5000 MB needed, 4000 MB allowed".
  std::string why_not(const Configuration& configuration) const;

 private:
  SubjectMaker make_;
  std::function<Bytes(const Configuration&)> memory_of_;
  Bytes budget_;
  std::map<std::string, std::unique_ptr<Session>> live_;
  std::map<std::string, SessionFacts> facts_;
  std::map<std::string, std::string> failures_;
};

using OnProgress = std::function<void(const std::string& now, std::int64_t done, std::int64_t all,
                                      double seconds_left)>;  // seconds_left < 0: not known yet

struct SweepOptions {
  std::int64_t repeats = 0;  // blocks, exactly; 0: from six until every interval is narrow
  double narrow = 0.02;      // half of an interval / its median
  double time_s = 20;        // adaptive: no block begins after it, once there are fewest_blocks()
  double max_time_s = 0;     // of a sweep: no block begins after it; 0 = no limit
  std::int64_t fewest = 1;   // blocks that begin whatever max_time_s says
  std::uint64_t seed = 1;    // of the order within blocks
  Journal* journal = nullptr;
  OnProgress on_progress;
  ShouldStop should_stop;
};

struct CaseResult {
  Case what;
  RowStatus status = RowStatus::ok;
  std::string reason;  // of an error
  SessionFacts facts;
  FirstRun first;
  std::map<int, Sample> samples;  // by block
  std::vector<Warning> warnings;
  int warm_ups = 0;

  std::vector<double> each(double Sample::*member) const;  // in block order
};

struct SweepResult {
  std::vector<CaseResult> cases;  // as given, equal ones once; those never begun are missing
  bool is_interrupted = false;
  const CaseResult* find(const std::string& key) const;
};

// A case that fails is a result with its reason; the others go on. Throws UsageError for options out of
// range.
SweepResult run_sweep(Sessions& sessions, const std::string& name, const std::vector<Case>& cases,
                      const SweepOptions& options);

// Blocks that an adaptive sweep of so many cases takes at least: as many as the interval of each comparison
// with the first needs.
int fewest_blocks(std::size_t cases);

// Samples of two cases from the blocks that hold both.
std::pair<std::vector<double>, std::vector<double>> paired(const CaseResult& a, const CaseResult& b,
                                                           double Sample::*member);

}  // namespace assay
