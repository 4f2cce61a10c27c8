// What every study needs: where its configurations run, what they are compared with, and how carefully they
// are measured.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "assay/base/units.h"
#include "assay/config/run_config.h"
#include "assay/harness/sweep_options.h"
#include "assay/results/choice.h"
#include "assay/results/verdict.h"

namespace assay {

class ModelSource;    // checkpoint/source.h
class Sessions;       // harness/sweep.h
class Tokenizer;      // text/tokenizer.h
struct DeviceMemory;  // backend/backend.h
struct LoadedModel;   // session/load.h

// One of several models of a run.
struct ContextModel {
  std::string name;                            // RunConfig::model of its configurations
  std::shared_ptr<const ModelSource> source;   // null where it was loaded without
  std::shared_ptr<const Tokenizer> tokenizer;  // null where it has none
  std::int64_t context_length = 0;             // in tokens
  bool is_quantized_already = false;
  bool can_be_dequantized = false;  // else its own precision is the only one
};

struct ExperimentContext {
  Sessions* sessions = nullptr;
  RunConfig common;    // lists of precisions are made of it: each takes what applies to it
  RunConfig baseline;  // what other configurations are compared with
  std::shared_ptr<const Tokenizer> tokenizer;  // the model's, the first of several; null where it has none
  std::int64_t context_length = 0;             // the model's, in tokens
  bool is_quantized_already = false;           // the checkpoint
  bool can_be_dequantized = false;             // else its own precision is the only one
  // Of one model that can be dequantized: the precisions that are made of it beside what it holds, unless
  // some are asked for. Those that the memory of this machine, or of the device, can hold.
  std::function<std::vector<std::string>()> made_of_stored = {};
  std::vector<ContextModel> models;  // where there are several: all of them
  // The compared configuration that comes first, and that the others are compared with; unset: the first that
  // was asked for.
  std::optional<RunConfig> named_baseline = {};
  SweepOptions sweep;
  std::shared_ptr<const Choice> choice = {};  // what fits a budget; null: everything is measured
  double margin = 0.02;                       // a smaller relative difference counts as none
  // Bytes that a case is predicted to take. Empty, or 0 of it: not known.
  std::function<Bytes(const RunConfig&, std::int64_t sequences, std::int64_t tokens)> predicted_memory;

  // The model of a configuration. Throws std::logic_error for a name that none has.
  ContextModel model_of(const RunConfig& configuration) const;
  // The same configuration, which says so where its weights are made of dequantized ones.
  RunConfig with_origin(RunConfig configuration) const;
};

// Every setting of the context, defaults included, as text: ("seed", "1"), ("baseline.threads", "2").
std::vector<std::pair<std::string, std::string>> configuration_of(const ExperimentContext& context);

// What workers may take of the memory that is free: 90 %.
Bytes usable_share(Bytes free);
// And of a device's own memory, or what was given where that is less; 0 of a device without any.
Bytes allowed_on_device(const std::optional<DeviceMemory>& memory, const std::optional<Bytes>& given);

// For programs that have loaded a model themselves: everything runs on it, in this process.
class LocalExperiment {
 public:
  explicit LocalExperiment(const LoadedModel& loaded, SweepOptions sweep = {});
  // Loads other configurations from the same candidates when a study asks for them.
  LocalExperiment(const std::vector<std::string>& candidates, const RunConfig& baseline,
                  SweepOptions sweep = {});
  LocalExperiment(LocalExperiment&&) noexcept;
  LocalExperiment& operator=(LocalExperiment&&) noexcept;
  ~LocalExperiment();
  operator const ExperimentContext&() const { return context_; }
  ExperimentContext& get() { return context_; }

 private:
  std::unique_ptr<Sessions> sessions_;
  ExperimentContext context_;
};

// Configurations that are this replica run in the other program, as the replica 0.
inline constexpr int kOtherProgram = 1 << 20;

struct WorkerExperimentOptions {
  std::vector<std::string> program;             // that a worker is: {"/usr/bin/assay", "worker"}
  std::vector<std::string> other_program = {};  // the same of an earlier build; empty: there is none
  std::vector<std::string> candidates;          // the model
  std::vector<std::vector<std::string>> other_models = {};  // candidates of each model beside it
  RunConfig common, baseline;                               // as in ExperimentContext
  std::optional<Bytes> memory_budget =
      {};  // what all workers may take; unset: 90 % of the memory available; 0: none
  std::optional<Bytes> worker_memory_limit = {};  // what one may take; unset: no limit
  Seconds case_time_limit{600};
  bool needs_tokenizer = true;  // false: a model without one serves for prompts of token ids
  SweepOptions sweep;
};
// Each configuration lives in a process of its own, which sleeps until it is its turn. Where one crashes,
// exceeds its memory or does not answer, its cases fail with that reason and the others go on.
class WorkerExperiment {
 public:
  // Reads the model's configuration and the tokenizer that is needed, no weights. Throws Error.
  explicit WorkerExperiment(const WorkerExperimentOptions& options);
  WorkerExperiment(WorkerExperiment&&) noexcept;
  WorkerExperiment& operator=(WorkerExperiment&&) noexcept;
  ~WorkerExperiment();
  operator const ExperimentContext&() const { return context_; }
  ExperimentContext& get() { return context_; }
  const ModelSource& source() const { return *source_; }  // the first model's
  const std::string& id() const { return id_; }           // the candidate that was used
  // Makes one of several models the first, as if it had been given so.
  void put_first(const std::string& model);

 private:
  void use_first();  // what the context says of its first model

  std::shared_ptr<const ModelSource> source_;
  std::string id_;
  std::vector<std::pair<ContextModel, std::string>> models_;  // with the candidates that were used
  std::unique_ptr<Sessions> sessions_;
  ExperimentContext context_;
};

}  // namespace assay
