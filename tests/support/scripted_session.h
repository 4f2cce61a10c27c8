// A session whose runs the test writes down: every phase takes the time that the script gives, so that each
// figure that is made of them can be worked out by hand.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "assay/harness/sweep.h"

namespace assay::test {

// `process` numbers the sessions of one configuration from 0, in the order of their starts.
struct Script {
  std::function<Sample(const Case&, int process)> run;
  std::function<FirstRun(const Case&)> first_run = [](const Case&) {
    FirstRun first;
    first.texts = {"text"};
    first.ids = first.prompt_ids = {{1}};
    first.seconds = 0.001;
    return first;
  };
  std::function<SessionFacts(const RunConfig&)> facts = [](const RunConfig&) {
    SessionFacts facts;
    facts.kernels = "scripted";
    facts.threads = 2;
    return facts;
  };
  std::function<std::vector<AuditRow>(const std::vector<Prompt>&, std::int64_t new_tokens)> audit =
      [](const std::vector<Prompt>&, std::int64_t) { return std::vector<AuditRow>(); };
  std::function<CorpusLosses(const RunConfig&)> score = [](const RunConfig&) { return CorpusLosses{}; };
};

class ScriptedSession : public Session {
 public:
  ScriptedSession(RunConfig configuration, const Script& script, int process)
      : configuration_(std::move(configuration)), script_(script), process_(process) {}
  SessionFacts facts() override { return script_.facts(configuration_); }
  FirstRun first_run(const Case& spec) override { return script_.first_run(spec); }
  Sample run(const Case& spec) override { return script_.run(spec, process_); }
  CorpusLosses score(const CorpusRequest&) override { return script_.score(configuration_); }
  std::vector<AuditRow> audit(const std::vector<Prompt>& prompts, std::int64_t new_tokens) override {
    return script_.audit(prompts, new_tokens);
  }

 private:
  RunConfig configuration_;
  const Script& script_;
  int process_;
};

// `script` must outlive the sessions.
inline Sessions scripted_processes(const Script& script) {
  auto started = std::make_shared<std::map<std::string, int>>();
  return Sessions(
      [&script, started](const RunConfig& configuration) {
        return std::make_unique<ScriptedSession>(configuration, script, (*started)[configuration.key()]++);
      },
      {}, {}, true);
}

// One sequence: `prefill` seconds, then `steps`, the first new token from the prefill.
inline Sample scripted_sample(double prefill, std::vector<double> steps, std::int64_t prompt_tokens = 8) {
  Sample s;
  s.prefill_s = s.first_token_s = prefill;
  s.step_s = std::move(steps);
  s.total_latency_s = prefill + s.decode_s();
  s.end_to_end_s = s.total_latency_s;
  s.sequences = s.batches = 1;
  s.prompt_tokens = s.computed_prompt_tokens = prompt_tokens;
  s.new_tokens = static_cast<std::int64_t>(s.step_s.size()) + 1;
  s.ids_hash = "same";
  return s;
}

}  // namespace assay::test
