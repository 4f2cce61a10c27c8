// What every experiment is given and gives.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assay/harness/sweep.h"
#include "assay/text/tokenizer.h"

namespace assay {

// The ground an experiment stands on: where configurations come from, and how carefully to measure.
struct ExperimentContext {
  Sessions* sessions = nullptr;
  RunConfig common;  // what lists of precisions are made of: of each of them, what applies to it
  RunConfig baseline;
  std::shared_ptr<const Tokenizer> tokenizer;  // of the model; null where it has none
  std::int64_t context = 0;
  bool is_quantized_already = false;  // the checkpoint: its own precision is all there is
  SweepOptions sweep;
  double margin = 0.02;              // relative differences within it count as none
  std::optional<NoiseBudget> noise;  // of equals: the margin is never below what it says for as many pairs
  // Bytes that a case is predicted to take; 0 or empty: nothing is known.
  std::function<Bytes(const RunConfig&, std::int64_t sequences, std::int64_t tokens)> predicted_memory;
};

// For programs that have loaded a model themselves: everything runs on it, in this process.
class LocalExperiment {
 public:
  explicit LocalExperiment(const LoadedModel& loaded, SweepOptions sweep = {});
  // Other configurations are loaded from the same candidates when an experiment asks for them.
  LocalExperiment(std::vector<std::string> candidates, const RunConfig& baseline, SweepOptions sweep = {});
  operator const ExperimentContext&() const { return experiment_; }
  ExperimentContext& get() { return experiment_; }

 private:
  std::unique_ptr<Sessions> sessions_;
  ExperimentContext experiment_;
};

// What a experiment on worker processes is made of.
struct WorkerExperimentOptions {
  std::vector<std::string> program;     // of a worker: {"/usr/bin/assay", "worker"}
  std::vector<std::string> candidates;  // of the model
  RunConfig common, baseline;           // as a ExperimentContext's
  Bytes memory_budget;        // of all workers together; 0 = what the machine has at hand, less a tenth
  Bytes worker_memory_limit;  // of one; 0 = none
  Seconds case_time_limit{600};
  SweepOptions sweep;
};
// Each configuration lives in a process of its own, asleep until it is its turn: one that crashes, exceeds
// its memory or does not answer is a row with its cause.
class WorkerExperiment {
 public:
  // Reads the model's configuration and tokenizer, no weights. Throws Error.
  explicit WorkerExperiment(const WorkerExperimentOptions& options);
  operator const ExperimentContext&() const { return experiment_; }
  ExperimentContext& get() { return experiment_; }
  const ModelFolder& folder() const { return *folder_; }
  const std::string& id() const { return id_; }  // the candidate that was used

 private:
  std::shared_ptr<const ModelFolder> folder_;
  std::string id_;
  std::unique_ptr<Sessions> sessions_;
  ExperimentContext experiment_;
};

struct ExperimentResult {
  std::vector<Row> rows;
  std::vector<Comparison> comparisons;
  std::vector<AuditRow> audit;
  std::vector<GeneratedText> texts;
  std::vector<std::string> remarks;
  bool is_interrupted = false;

  void add(ExperimentResult other);
  // The row of a label, or null. Only finished ones have values.
  const Row* find(const std::string& label) const;
};

// A row from a case's samples: every metric of metric.h that follows from them, warnings about them, the roof
// beside them, and where the largest part of the time above it went.
Row row_of(const CaseResult& result, const ExperimentContext& experiment);

// The latency of two cases from the same blocks; nothing where either has failed.
std::optional<Comparison> compare_cases(const CaseResult& candidate, const CaseResult& baseline,
                                        const ExperimentContext& experiment, int comparisons = 1);

// A case of the baseline.
Case baseline_case(const ExperimentContext& experiment, std::string scenario, std::string label,
                   std::vector<Prompt> prompts, std::int64_t new_tokens);

// Lets prompts that do not fit the context together with their new tokens lose their first tokens, and says
// so.
void fit_context(const ExperimentContext& experiment, Case& what);

// A prompt as people read it.
std::string shown(const Prompt& prompt);

// Exactly `length` ids: those of the text again and again. Throws Error where it gives none.
std::vector<TokenId> ids_of_length(const ExperimentContext& experiment, const std::string& text,
                                   std::int64_t length);

// Ids of a text by the experiment's tokenizer. Throws Error where there is none.
std::vector<TokenId> encode(const ExperimentContext& experiment, const std::string& text);

// Audits of several configurations; one that cannot be made is left out: its rows say why.
std::vector<AuditRow> audit(const ExperimentContext& experiment, const std::vector<RunConfig>& configurations,
                            const std::vector<Prompt>& prompts, std::int64_t new_tokens);

}  // namespace assay
