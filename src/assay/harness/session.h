// A session holds one loaded configuration that cases run on: in this process, or in a worker process
// (worker_protocol.h), which sleeps until it is its turn.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assay/generate/scorer.h"
#include "assay/harness/case.h"
#include "assay/results/results.h"
#include "assay/session/divergence.h"
#include "assay/session/load.h"
#include "assay/session/task_score.h"

namespace assay {

// Facts about a loaded configuration; part of every row.
struct SessionFacts {
  ModelFacts model;  // its dtype is the label of what really runs
  std::string device, kernels, tuning;
  int threads = 0;
  std::int64_t context = 0;
  std::vector<Warning> warnings;
  std::int64_t weight_bytes = 0;  // elements in their formats, without the padding of a packed layout
};

// Log-probabilities of a text.
struct CorpusLosses {
  std::string corpus_sha256, protocol;
  std::vector<double> log_probabilities;  // one for each scored token, in text order
  std::int64_t tokens = 0;
  double seconds = 0;
  std::vector<Warning> warnings = {};
};
struct CorpusRequest {
  std::string file;
  std::optional<std::int64_t> context = {}, stride = {};  // unset: the scorer's defaults
  ScoreThrough through = ScoreThrough::prefill;
};

// A text, or where no file is named token ids, or a sample that the baseline writes, on which models are
// compared token by token.
struct DivergeRequest {
  std::string file = {};
  std::vector<TokenId> ids = {};
  std::int64_t sample_tokens = 0;  // a sample's (session/sampled_text.h), whose windows are its sequences
  std::optional<std::int64_t> context = {}, stride = {};  // as in DivergenceOptions
  std::optional<std::int64_t> max_tokens = {};            // the text's first ones; unset: all
  // Greedy generation from the text's first tokens is compared too, where there are new ones.
  std::int64_t greedy_prompt = 0, greedy_tokens = 0;
};

class Session {
 public:
  virtual ~Session() = default;
  virtual SessionFacts facts() = 0;
  virtual FirstRun first_run(const Case& spec) = 0;
  virtual Sample run(const Case& spec) = 0;
  // Asks for a run and returns, where the session is a process of its own: the next call, which must be run()
  // of the same case, waits for it. Several warm up side by side. Does nothing in this process.
  virtual void begin_run(const Case& /*spec*/) {}
  virtual CorpusLosses score(const CorpusRequest& corpus) = 0;
  virtual std::vector<AuditRow> audit(const std::vector<Prompt>& prompts, std::int64_t new_tokens) = 0;
  // Scores the items of a file. Throws Error for one that cannot be read, and for a session that has no
  // tasks.
  virtual TaskScores task(const std::string& file);
  // This model is the baseline. The candidates are sessions of the same process: of this one, or of one
  // worker. Throws Error for others.
  virtual CorpusDivergence diverge(const std::vector<Session*>& candidates, const DivergeRequest& request);
  // It is destroyed next: a process of its own begins to end, so that several end side by side.
  virtual void begin_end() {}
};

std::unique_ptr<Session> local_session(LoadedModel loaded, ShouldStop should_stop = {},
                                       Bytes held_before_loading = {});

}  // namespace assay
