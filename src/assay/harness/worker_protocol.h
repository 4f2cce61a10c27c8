// How experiments and their worker processes (`assay worker`) speak with each other: this page is the manual.
//
// A request is one line of JSON, and so is its answer. "op" names the request. A worker holds a model for
// each key that it was told to load; "key" names the model, and without it a request means the first one.
//
//   op         further keys                                      keys of the answer
//   prepare    configuration                                     none: its GPU can be used now
//   load       candidates, configuration, needs_tokenizer,       facts
//              memory_limit (null: none), constants (absent: its own)
//   load       model, precision, any field of a configuration    label, kernels, threads,
//                                                                weight_bytes, vocab, context, load_s
//   facts                                                        facts
//   first_run  case                                              first_run
//   run        case                                              sample
//   score      file, context, stride, through                    losses
//   audit      prompts, new_tokens                               audit
//   task       file                                              task
//   diverge    candidates (keys), file, ids or sample_tokens,     divergence
//              max_tokens, greedy_prompt, greedy_tokens (0: none)
//   prefill    ids                                               seconds, next
//   decode     ids, new_tokens                                   seconds, step_s, ids, joules (GPU)
//   logits     ids                                               logits
//   profile    ids, new_tokens (0: the prefill)                  phases, operations, step_s (GPU)
//   roofline   working_set_bytes                                 read_bytes_per_s, operations_per_s
//   quit                                                         none: the worker ends
//
// "diverge" compares the models of other keys with that of its own, the baseline: its answer has an array for
// each number of a token (divergence_json.h), and a failure in place of them for a candidate that has one.
//
// "profile" times decode steps on a GPU as the nodes of their graph (Program::profile_graph), that of the
// first new token alone; then each operation has "nodes", and "step_s" is the whole graph's time. Elsewhere,
// and for a prefill, it means the new tokens' steps, timed by clocks or events between operations.
//
// "prepare" may come before a load of the same configuration, which then takes less: it makes the GPU's
// context and loads the kernels. On a CPU it does nothing.
//
// "load" replaces the model of its key, and leaves none under that key where it fails. A memory limit holds
// for the data of the whole process: of several models, each load names the limit for those held by then.
//
// Answers begin with "ok". A request that fails is answered {"ok":false,"error":REASON}, and the worker goes
// on with the models that it holds; "is_fatal":true says that it ends, because its device has failed. The
// client throws Error with the reason, or WorkerLost where the worker has crashed or ended, gave an answer
// that nobody understands, did not answer in time, or is no longer wanted. Then the process is killed, and
// every later request to it fails, whichever model it names. Sessions::attempt() (sessions.h) decides what a
// failure means for the experiment, and resumed() (journal.h) what a repeated run need not ask again.
//
// `assay interleave` makes builds of different age speak with each other. Requests without a key have the
// JSON that they always had, and keys that were renamed are written and read under both names (case_json.h).
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "assay/backend/constants.h"
#include "assay/base/error.h"
#include "assay/base/json_reader.h"
#include "assay/harness/session.h"
#include "assay/harness/started_session.h"

namespace assay {

// A worker died, did not answer in time, or was stopped. Every later request to it fails too.
class WorkerLost : public Error {
 public:
  enum class Cause { crashed, timed_out, stopped };
  WorkerLost(Cause cause, const std::string& what) : Error("{}", what), cause_(cause) {}
  Cause cause() const { return cause_; }

 private:
  Cause cause_;
};

// The client.
struct WorkerOptions {
  std::vector<std::string> program;     // with its arguments: {"/usr/bin/assay", "worker"}
  std::vector<std::string> candidates;  // for the model
  RunConfig configuration;
  bool is_this_build = true;  // otherwise an earlier or later one, which chooses its own constants
  bool needs_tokenizer = true;
  std::optional<Bytes> memory_limit = {};  // for its data; unset: none
  Seconds time_limit{600};                 // for one answer, loading included; 0 = none
  ShouldStop should_stop;
};
// Starts the process and loads. Throws Error where loading fails, WorkerLost where the worker does.
std::unique_ptr<Session> worker_session(const WorkerOptions& options);
// The same in steps, so that several start and load side by side. Throws Error where it cannot be started.
std::unique_ptr<StartedSession> start_worker(const WorkerOptions& options);

// Several models in one process, which takes their requests one after another: a session for each, in the
// same order, with the key, candidates and configuration given here in place of those of the options. The
// process lives as long as one of the sessions. Throws as worker_session(), and UsageError for no key or
// equal ones.
struct WorkerModel {
  std::string key;
  std::vector<std::string> candidates;
  RunConfig configuration;
};
std::vector<std::unique_ptr<Session>> worker_sessions(const WorkerOptions& options,
                                                      const std::vector<WorkerModel>& models);
// The same, but that a model which cannot be loaded leaves the others alone: its place is null, and
// `failures` has the reason, which is empty for the others.
std::vector<std::unique_ptr<Session>> worker_sessions(const WorkerOptions& options,
                                                      const std::vector<WorkerModel>& models,
                                                      std::vector<std::string>& failures);

// The server.
class WorkerServer {
 public:
  // What loads a model: load_model_and_tokenizer(), or a program's own.
  using Load = std::function<LoadedModel(const std::vector<std::string>& candidates, const RunConfig& config,
                                         const LoadOptions& options)>;
  explicit WorkerServer(ShouldStop should_stop = {}, Load load = {});
  ~WorkerServer();

  // The answer to a request, both without a line break. It throws nothing: what fails is said in the answer.
  std::string answer(const std::string& request);
  // False once it was told to quit, or its device has failed.
  bool is_open() const;
  bool has_failed() const;
  // Answers lines until it is closed, stopped, or there are no more. `write` may throw.
  void serve(std::istream& requests, const std::function<void(const std::string&)>& write);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Answers facts, first_run, run, score, audit and task; null where `op` is none of them. Throws Error.
nlohmann::ordered_json answer_request(Session& session, const std::string& op, const JsonReader& request);

// What stands in messages, and in journals. Reading throws Error naming the path of what is wrong.
nlohmann::ordered_json to_json(const SessionFacts& facts);
nlohmann::ordered_json to_json(const CorpusLosses& losses);
nlohmann::ordered_json to_json(const KernelConstants& constants);
SessionFacts session_facts_from_json(const JsonReader& json);
CorpusLosses corpus_losses_from_json(const JsonReader& json);
KernelConstants constants_from_json(const JsonReader& json);

}  // namespace assay
