// What every study stands on: where its configurations run, what they are compared with, how carefully they
// are measured; and how it makes cases.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assay/harness/sweep.h"
#include "assay/text/tokenizer.h"

namespace assay {

struct ExperimentContext {
  Sessions* sessions = nullptr;
  RunConfig common;    // lists of precisions are made of it: each takes what applies to it
  RunConfig baseline;  // what other configurations are compared with
  std::shared_ptr<const Tokenizer> tokenizer;  // of the model; null where it has none
  std::int64_t context_length = 0;             // of the model, in tokens
  bool is_quantized_already = false;           // the checkpoint: its own precision is the only one
  SweepOptions sweep;
  double margin = 0.02;              // a smaller relative difference counts as none
  std::optional<NoiseMargin> noise;  // of an A/A run: the margin is never below what it detects
  // Bytes that a case is predicted to take. Empty, or 0 of it: not known.
  std::function<Bytes(const RunConfig&, std::int64_t sequences, std::int64_t tokens)> predicted_memory;
};

// For programs that have loaded a model themselves: everything runs on it, in this process.
class LocalExperiment {
 public:
  explicit LocalExperiment(const LoadedModel& loaded, SweepOptions sweep = {});
  // Loads other configurations from the same candidates when a study asks for them.
  LocalExperiment(std::vector<std::string> candidates, const RunConfig& baseline, SweepOptions sweep = {});
  operator const ExperimentContext&() const { return context_; }
  ExperimentContext& get() { return context_; }

 private:
  std::unique_ptr<Sessions> sessions_;
  ExperimentContext context_;
};

struct WorkerExperimentOptions {
  std::vector<std::string> program;     // of a worker: {"/usr/bin/assay", "worker"}
  std::vector<std::string> candidates;  // of the model
  RunConfig common, baseline;           // as in ExperimentContext
  Bytes memory_budget;                  // of all workers together; 0 = 90 % of the memory available
  Bytes worker_memory_limit;            // of one; 0 = none
  Seconds case_time_limit{600};
  SweepOptions sweep;
};
// Each configuration lives in a process of its own, which sleeps until it is its turn. Where one crashes,
// exceeds its memory or does not answer, its cases fail with that reason and the others go on.
class WorkerExperiment {
 public:
  // Reads the model's configuration and tokenizer, no weights. Throws Error.
  explicit WorkerExperiment(const WorkerExperimentOptions& options);
  operator const ExperimentContext&() const { return context_; }
  ExperimentContext& get() { return context_; }
  const ModelFolder& folder() const { return *folder_; }
  const std::string& id() const { return id_; }  // the candidate that was used

 private:
  std::shared_ptr<const ModelFolder> folder_;
  std::string id_;
  std::unique_ptr<Sessions> sessions_;
  ExperimentContext context_;
};

// A case of the baseline.
Case baseline_case(const ExperimentContext& context, Scenario scenario, std::string label,
                   std::vector<Prompt> prompts, std::int64_t new_tokens);

// Where a prompt and its new tokens exceed the context: truncates on the left, and adds a warning.
void fit_context(const ExperimentContext& context, Case& what);

// A prompt as people read it.
std::string shown(const Prompt& prompt);

// Exactly `length` ids: those of the text, repeated. Throws Error where the text gives none.
std::vector<TokenId> ids_of_length(const ExperimentContext& context, const std::string& text,
                                   std::int64_t length);

// Ids of a text. Throws Error where the model has no tokenizer.
std::vector<TokenId> encode(const ExperimentContext& context, const std::string& text);

}  // namespace assay
