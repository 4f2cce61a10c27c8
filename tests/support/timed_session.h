// Sessions whose starts and runs move a clock of the test: what a sweep makes of its time can be told to the
// second.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "assay/harness/sweep.h"

namespace assay::test {

struct TimedScript {
  TimePoint now;
  double start_s = 0, first_s = 0;  // that of a session, and of a case's first run
  // Seconds of a run; `made` numbers sessions from 0 in the order of their starts.
  std::function<double(const Case&, int made)> run_s = [](const Case&, int) { return 1.0; };
  std::vector<std::string> log;  // "start", "first a", "a"
  int made = 0;

  void pass(double seconds) {
    now += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  TimeSource clock() {
    return [this] { return now; };
  }
};

class TimedSession : public Session {
 public:
  TimedSession(TimedScript& script, int made) : script_(script), made_(made) {}
  SessionFacts facts() override {
    SessionFacts facts;
    facts.kernels = "timed";
    facts.threads = made_;
    return facts;
  }
  FirstRun first_run(const Case& spec) override {
    script_.log.push_back("first " + spec.label);
    script_.pass(script_.first_s);
    FirstRun first;
    first.seconds = script_.first_s;
    first.ids = {{0}};
    return first;
  }
  Sample run(const Case& spec) override {
    script_.log.push_back(spec.label);
    Sample sample;
    sample.total_latency_s = script_.run_s(spec, made_);
    script_.pass(sample.total_latency_s);
    return sample;
  }
  CorpusLosses score(const CorpusRequest&) override { return {}; }
  std::vector<AuditRow> audit(const std::vector<Prompt>&, std::int64_t) override { return {}; }

 private:
  TimedScript& script_;
  int made_;
};

inline Sessions timed_sessions(TimedScript& script, bool have_processes,
                               std::function<Bytes(const RunConfig&)> memory_of = {}, Bytes budget = {}) {
  return Sessions(
      [&script](const RunConfig&) {
        script.log.emplace_back("start");
        script.pass(script.start_s);
        return std::make_unique<TimedSession>(script, script.made++);
      },
      std::move(memory_of), budget, have_processes);
}

}  // namespace assay::test
