// The experiment's side of worker_protocol.h.
#include <mutex>
#include <set>
#include <type_traits>

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

  // Its answer, where that is no failure. Throws Error and WorkerLost as the manual says.
  OrderedJson ask(OrderedJson request) {
    if (is_lost_) throw WorkerLost(WorkerLost::Cause::crashed, "the worker is gone");
    hide_bytes(request);
    const std::string line = request.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
    if (!process_.write_line(line)) lose(WorkerLost::Cause::crashed, "");
    const ChildProcess::Answer answer = process_.read_line(options_.time_limit, options_.should_stop);
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

  // It said what nobody understands.
  [[noreturn]] void lose_for(const Error& error) {
    lose(WorkerLost::Cause::crashed, fmt::format("cannot parse {}", error.what()));
  }

 private:
  [[noreturn]] void lose(WorkerLost::Cause cause, const std::string& why) {
    is_lost_ = true;
    const std::string how = process_.end();
    throw WorkerLost(cause, why.empty() ? "the worker " + how : why);
  }

  const WorkerOptions options_;
  ChildProcess process_;
  bool is_lost_ = false;
};

class WorkerSession : public Session {
 public:
  WorkerSession(std::shared_ptr<WorkerProcess> process, const WorkerModel& model)
      : process_(std::move(process)), key_(model.key) {
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
    ask(std::move(request), "facts", session_facts_from_json);
  }

  SessionFacts facts() override { return ask({{"op", "facts"}}, "facts", session_facts_from_json); }
  FirstRun first_run(const Case& spec) override {
    return ask({{"op", "first_run"}, {"case", to_json(spec)}}, "first_run", first_run_from_json);
  }
  Sample run(const Case& spec) override {
    return ask({{"op", "run"}, {"case", to_json(spec)}}, "sample", sample_from_json);
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
  // Without those that are as usual: an earlier build need not know them.
  static OrderedJson changed_fields(const RunConfig& configuration) {
    OrderedJson changed = OrderedJson::object();
    const OrderedJson usual = to_json(RunConfig{}), all = to_json(configuration);
    for (const auto& [key, value] : all.items())
      if (!usual.contains(key) || usual[key] != value) changed[key] = value;
    return changed;
  }
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
    if (!key_.empty()) request["key"] = key_;
    const OrderedJson answer = process_->ask(request);
    try {
      return read(reader_of(answer).at(member));
    } catch (const Error& error) {
      process_->lose_for(error);
    }
  }

  std::shared_ptr<WorkerProcess> process_;
  std::string key_;  // empty: the only model
};

void require_own_keys(const std::vector<WorkerModel>& models) {
  std::set<std::string> keys{""};
  for (const WorkerModel& model : models)
    if (!keys.insert(model.key).second)
      throw UsageError("key: expected a name for each model that no other has, found '{}'", model.key);
}

}  // namespace

std::unique_ptr<Session> worker_session(const WorkerOptions& options) {
  return std::make_unique<WorkerSession>(std::make_shared<WorkerProcess>(options),
                                         WorkerModel{"", options.candidates, options.configuration});
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
