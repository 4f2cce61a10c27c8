// The experiment's side of worker_protocol.h.
#include <algorithm>
#include <deque>
#include <exception>
#include <mutex>
#include <set>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "assay/backend/backend.h"
#include "assay/backend/devices.h"
#include "assay/base/json_bytes.h"
#include "assay/base/process.h"
#include "assay/config/fields_json.h"
#include "assay/harness/case_json.h"
#include "assay/harness/divergence_json.h"
#include "assay/harness/task_json.h"
#include "assay/harness/worker_protocol.h"
#include "assay/results/results_json.h"
#include "assay/session/resolve.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

namespace {

constexpr const char* kAnswer = "the worker's answer";

JsonReader reader_of(const OrderedJson& answer) {
  return {answer, kAnswer};
}

// A process, which the sessions of its models share.
class WorkerProcess {
 public:
  explicit WorkerProcess(const WorkerOptions& options) : options_(options), process_(options.program) {}

  // Answers come in the order of the requests. Throws WorkerLost.
  void send(OrderedJson request) {
    if (is_lost_) throw WorkerLost(WorkerLost::Cause::crashed, "the worker is gone");
    hide_bytes(request);
    const std::string line = request.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
    if (!process_.write_line(line)) lose(WorkerLost::Cause::crashed, "");
    sent_.push_back(Clock::now());
  }

  // The next answer, where that is no failure. Throws Error and WorkerLost as the manual says.
  OrderedJson receive() {
    if (is_lost_) throw WorkerLost(WorkerLost::Cause::crashed, "the worker is gone");
    const TimePoint sent = sent_.front();
    sent_.pop_front();
    const ChildProcess::Answer answer = process_.read_line(time_left(sent), options_.should_stop);
    switch (answer.end) {
      case ChildProcess::End::line:
        break;
      case ChildProcess::End::timed_out:
        lose(WorkerLost::Cause::timed_out,
             fmt::format("timed out: no answer within {:g} s", options_.time_limit.value));
      case ChildProcess::End::stopped:
        lose(WorkerLost::Cause::stopped, "interrupted");
      case ChildProcess::End::closed:
        lose(WorkerLost::Cause::crashed, "");
    }
    std::string failure;
    bool is_fatal = false;
    try {
      OrderedJson json = parse_ordered_json(answer.line, kAnswer);
      restore_bytes(json);
      if (reader_of(json).at("ok").boolean()) return json;
      failure = reader_of(json).at("error").text();
      is_fatal = reader_of(json).has("is_fatal") && reader_of(json).at("is_fatal").boolean();
    } catch (const Error& error) {
      lose_for(error);
    }
    if (is_fatal) lose(WorkerLost::Cause::crashed, failure);  // it has ended itself
    throw Error("{}", failure);
  }

  const WorkerOptions& options() const { return options_; }
  void begin_end() { process_.begin_end(); }

  // It said what nobody understands.
  [[noreturn]] void lose_for(const Error& error) {
    lose(WorkerLost::Cause::crashed, fmt::format("cannot parse {}", error.what()));
  }

 private:
  // What was answered while nobody waited is still read.
  Seconds time_left(TimePoint sent) const {
    const double limit = options_.time_limit.value;
    return {limit <= 0 ? 0 : std::max(limit - elapsed(sent, Clock::now()).value, std::min(limit, 1.0))};
  }
  [[noreturn]] void lose(WorkerLost::Cause cause, const std::string& why) {
    is_lost_ = true;
    const std::string how = process_.end();
    throw WorkerLost(cause, why.empty() ? "the worker " + how : why);
  }

  const WorkerOptions options_;
  ChildProcess process_;
  std::deque<TimePoint> sent_;  // requests that are not answered yet
  bool is_lost_ = false;
};

// Without those that are as usual: an earlier build need not know them.
OrderedJson changed_fields(const RunConfig& configuration) {
  OrderedJson changed = OrderedJson::object();
  const OrderedJson usual = to_json(RunConfig{}), all = to_json(configuration);
  for (const auto& [key, value] : all.items())
    if (!usual.contains(key) || usual[key] != value) changed[key] = value;
  return changed;
}

class WorkerSession : public Session {
 public:
  WorkerSession(std::shared_ptr<WorkerProcess> process, std::string key)
      : process_(std::move(process)), key_(std::move(key)) {}
  // Loaded.
  WorkerSession(std::shared_ptr<WorkerProcess> process, const WorkerModel& model)
      : WorkerSession(std::move(process), model.key) {
    begin_load(model);
    finish_load();
  }

  void begin_load(const WorkerModel& model) {
    const WorkerOptions& options = process_->options();
    OrderedJson request{
        {"op", "load"},
        {"candidates", model.candidates},
        {"configuration", changed_fields(as_workers_tune(model.configuration))},
        {"needs_tokenizer", options.needs_tokenizer},
        {"memory_limit", options.memory_limit ? OrderedJson(options.memory_limit->value) : nullptr}};
    // Each worker that tuned would find another answer.
    if (options.is_this_build && model.configuration.tune != Tune::off)
      if (const std::optional<KernelConstants> constants = tuned(model.configuration))
        request["constants"] = to_json(*constants);
    send(std::move(request));
  }
  void finish_load() { receive("facts", session_facts_from_json); }
  void begin_end() override {
    if (process_.use_count() == 1) process_->begin_end();
  }

  SessionFacts facts() override { return ask({{"op", "facts"}}, "facts", session_facts_from_json); }
  FirstRun first_run(const Case& spec) override {
    return ask({{"op", "first_run"}, {"case", to_json(spec)}}, "first_run", first_run_from_json);
  }
  Sample run(const Case& spec) override {
    if (!std::exchange(is_running_, false)) send_run(spec);
    return receive("sample", sample_from_json);
  }
  void begin_run(const Case& spec) override {
    send_run(spec);
    is_running_ = true;
  }
  CorpusLosses score(const CorpusRequest& corpus) override {
    return ask({{"op", "score"},
                {"file", corpus.file},
                {"context", or_null(corpus.context)},
                {"stride", or_null(corpus.stride)},
                {"through", name_of(corpus.through)}},
               "losses", corpus_losses_from_json);
  }
  std::vector<AuditRow> audit(const std::vector<Prompt>& prompts, std::int64_t new_tokens) override {
    return ask({{"op", "audit"}, {"prompts", to_json(prompts)}, {"new_tokens", new_tokens}}, "audit",
               audit_rows_from_json);
  }
  TaskScores task(const std::string& file) override {
    return ask({{"op", "task"}, {"file", file}}, "task", task_scores_from_json);
  }
  CorpusDivergence diverge(const std::vector<Session*>& candidates, const DivergeRequest& request) override {
    std::vector<std::string> keys;
    for (Session* candidate : candidates) {
      const auto* own = dynamic_cast<const WorkerSession*>(candidate);
      if (own == nullptr || own->process_ != process_)
        throw Error("a divergence needs models in one worker process");
      keys.push_back(own->key_);
    }
    OrderedJson message = to_json(request);
    message["op"] = "diverge";
    message["candidates"] = keys;
    return ask(std::move(message), "divergence", corpus_divergence_from_json);
  }

 private:
  // The first worker on a GPU measures and keeps what it found, for the others: told to measure again, each
  // would find another answer.
  static RunConfig as_workers_tune(RunConfig configuration) {
    if (configuration.tune != Tune::force || resolve(configuration).device.kind == Device::Kind::cpu)
      return configuration;
    static std::once_flag once;
    std::call_once(once, forget_launch_tuning);
    configuration.tune = Tune::once;
    return configuration;
  }
  // None for a GPU.
  static std::optional<KernelConstants> tuned(const RunConfig& configuration) {
    const ResolvedRun run = resolve(configuration);
    if (run.device.kind != Device::Kind::cpu) return std::nullopt;
    return make_backend(run.device, run.backend)->constants();
  }
  static OrderedJson or_null(const std::optional<std::int64_t>& number) {
    return number ? OrderedJson(*number) : OrderedJson(nullptr);
  }

  // What `read` makes of a member of the answer.
  template <typename Read>
  std::invoke_result_t<const Read&, const JsonReader&> ask(OrderedJson request, const char* member,
                                                           const Read& read) {
    send(std::move(request));
    return receive(member, read);
  }
  void send(OrderedJson request) {
    if (is_running_) throw std::logic_error("a run was begun and not waited for");
    if (!key_.empty()) request["key"] = key_;
    process_->send(std::move(request));
  }
  void send_run(const Case& spec) { send({{"op", "run"}, {"case", to_json(spec)}}); }
  template <typename Read>
  std::invoke_result_t<const Read&, const JsonReader&> receive(const char* member, const Read& read) {
    const OrderedJson answer = process_->receive();
    try {
      return read(reader_of(answer).at(member));
    } catch (const Error& error) {
      process_->lose_for(error);
    }
  }

  std::shared_ptr<WorkerProcess> process_;
  std::string key_;          // empty: the only model
  bool is_running_ = false;  // by begin_run()
};

class StartedWorker : public StartedSession {
 public:
  explicit StartedWorker(const WorkerOptions& options) : process_(std::make_shared<WorkerProcess>(options)) {}

  void begin_prepare() override {
    const WorkerOptions& options = process_->options();
    if (!options.is_this_build || is_preparing_) return;  // an earlier one knows no such request
    process_->send({{"op", "prepare"}, {"configuration", changed_fields(options.configuration)}});
    is_preparing_ = true;
  }
  void wait_prepared() override {
    if (!is_preparing_) return;
    is_preparing_ = false;
    try {
      process_->receive();
    } catch (const WorkerLost&) {
      lost_ = std::current_exception();
    } catch (const Error&) {  // the load will say the same
    }
  }
  void begin_load() override {
    if (lost_ != nullptr) std::rethrow_exception(lost_);
    if (session_ != nullptr) return;
    const WorkerOptions& options = process_->options();
    session_ = std::make_unique<WorkerSession>(process_, "");
    session_->begin_load({"", options.candidates, options.configuration});
  }
  std::unique_ptr<Session> finish() override {
    begin_load();
    wait_prepared();
    if (lost_ != nullptr) std::rethrow_exception(lost_);
    session_->finish_load();
    process_.reset();
    return std::move(session_);
  }
  void begin_end() override {
    if (process_ != nullptr) process_->begin_end();
  }

 private:
  std::shared_ptr<WorkerProcess> process_;
  std::unique_ptr<WorkerSession> session_;  // once it was told to load
  bool is_preparing_ = false;
  std::exception_ptr lost_;  // why, where the process was lost while it prepared
};

void require_own_keys(const std::vector<WorkerModel>& models) {
  std::set<std::string> keys{""};
  for (const WorkerModel& model : models)
    if (!keys.insert(model.key).second)
      throw UsageError("key: expected a name for each model that no other has, found '{}'", model.key);
}

}  // namespace

std::unique_ptr<Session> worker_session(const WorkerOptions& options) {
  return start_worker(options)->finish();
}

std::unique_ptr<StartedSession> start_worker(const WorkerOptions& options) {
  return std::make_unique<StartedWorker>(options);
}

std::vector<std::unique_ptr<Session>> worker_sessions(const WorkerOptions& options,
                                                      const std::vector<WorkerModel>& models) {
  require_own_keys(models);
  const auto process = std::make_shared<WorkerProcess>(options);
  std::vector<std::unique_ptr<Session>> sessions;
  for (const WorkerModel& model : models) sessions.push_back(std::make_unique<WorkerSession>(process, model));
  return sessions;
}

std::vector<std::unique_ptr<Session>> worker_sessions(const WorkerOptions& options,
                                                      const std::vector<WorkerModel>& models,
                                                      std::vector<std::string>& failures) {
  require_own_keys(models);
  const auto process = std::make_shared<WorkerProcess>(options);
  std::vector<std::unique_ptr<Session>> sessions;
  failures.assign(models.size(), "");
  for (std::size_t i = 0; i < models.size(); ++i) {
    sessions.emplace_back();
    try {
      sessions.back() = std::make_unique<WorkerSession>(process, models[i]);
    } catch (const WorkerLost&) {
      throw;
    } catch (const Error& error) {
      failures[i] = error.what();
    }
  }
  return sessions;
}

}  // namespace assay
