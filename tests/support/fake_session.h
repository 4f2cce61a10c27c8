// A session that computes nothing: each run takes as long as the test says, so that what a study makes of its
// runs can be told beforehand.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "assay/base/error.h"
#include "assay/harness/sweep.h"

namespace assay::test {

using Latency = std::function<double(const RunConfig&, const Case&)>;  // seconds of one run

class FakeSession : public Session {
 public:
  FakeSession(RunConfig configuration, Latency latency, std::vector<std::string>* log = nullptr)
      : configuration_(std::move(configuration)), latency_(std::move(latency)), log_(log) {}
  SessionFacts facts() override {
    SessionFacts facts;
    facts.kernels = "fake";
    facts.threads = 1;
    return facts;
  }
  FirstRun first_run(const Case& spec) override {
    if (spec.label == "fails") throw Error("it always fails");
    FirstRun first;
    first.texts = {"text"};
    first.ids = first.prompt_ids = {{1}};
    first.seconds = 0.1;
    return first;
  }
  // Remembers the order.
  Sample run(const Case& spec) override {
    if (log_ != nullptr) log_->push_back(spec.label);
    Sample sample;
    sample.total_latency_s = latency_(configuration_, spec);
    sample.new_tokens = sample.sequences = sample.batches = sample.prompt_tokens = 1;
    sample.ids_hash = "same";
    return sample;
  }
  CorpusLosses score(const CorpusRequest&) override { return {}; }
  std::vector<AuditRow> audit(const std::vector<Prompt>&, std::int64_t) override { return {}; }

 private:
  RunConfig configuration_;
  Latency latency_;
  std::vector<std::string>* log_;
};

// For sessions that count as processes of their own: `made` numbers each from 0 in the order of their starts.
using LatencyInProcess = std::function<double(const RunConfig&, const Case&, int made)>;
inline Sessions fake_processes(LatencyInProcess latency, int* made) {
  return Sessions(
      [latency = std::move(latency), made](const RunConfig& configuration) {
        const int own = (*made)++;
        return std::make_unique<FakeSession>(
            configuration, [latency, own](const RunConfig& c, const Case& w) { return latency(c, w, own); });
      },
      {}, {}, true);
}

inline Sessions fake_sessions(Latency latency, std::vector<std::string>* log = nullptr) {
  return Sessions([latency = std::move(latency), log](const RunConfig& configuration) {
    return std::make_unique<FakeSession>(configuration, latency, log);
  });
}

}  // namespace assay::test
