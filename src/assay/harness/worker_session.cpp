#include "assay/harness/worker_session.h"

#include <nlohmann/json.hpp>

#include "assay/backend/backend.h"
#include "assay/base/process.h"
#include "assay/config/fields_json.h"
#include "assay/harness/case_json.h"
#include "assay/harness/roofline.h"
#include "assay/harness/run_case.h"
#include "assay/harness/session_json.h"
#include "assay/model/model.h"
#include "assay/results/results_json.h"
#include "assay/session/audit.h"
#include "assay/session/perplexity.h"
#include "assay/session/resolve.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

namespace {

constexpr const char* kAnswer = "the worker's answer";

class LocalSession : public Session {
 public:
  LocalSession(LoadedModel loaded, ShouldStop should_stop, Bytes held_before)
      : loaded_(std::move(loaded)),
        should_stop_(std::move(should_stop)),
        held_before_(held_before),
        roofline_(*loaded_.model) {
    const std::string bus_id = loaded_.model->backend().bus_id();
    std::string why_not;
    if (!bus_id.empty()) sensors_ = open_nvml(bus_id, why_not);
  }

  SessionFacts facts() override {
    const Backend& backend = loaded_.model->backend();
    return {.model = model_facts(loaded_),
            .device = backend.device().text(),
            .kernels = backend.kernels(),
            .tuning = backend.tuning(),
            .threads = backend.threads(),
            .context = loaded_.model->spec().context,
            .warnings = loaded_.warnings,
            .weight_bytes = loaded_.model->program().memory().weights.value};
  }
  FirstRun first_run(const Case& spec) override {
    FirstRun first = assay::first_run(loaded_, spec, roofline_, held_before_, should_stop_);
    watch_ = DisturbanceWatch();
    return first;
  }
  Sample run(const Case& spec) override {
    Sample sample = run_case(loaded_, spec, &roofline_, should_stop_, &watch_, sensors_.get());
    watch_ = DisturbanceWatch();
    return sample;
  }
  CorpusLosses score(const CorpusRequest& corpus) override {
    CorpusScore scored = score_file(loaded_, corpus.file,
                                    {.context = corpus.context,
                                     .stride = corpus.stride,
                                     .through = corpus.through,
                                     .should_stop = should_stop_});
    return {scored.corpus_sha256, scored.score.protocol, std::move(scored.score.log_probabilities),
            scored.score.tokens,  scored.seconds,        scored.warnings};
  }
  std::vector<AuditRow> audit(const std::vector<Prompt>& prompts, std::int64_t new_tokens) override {
    return audit_equivalence(loaded_, prompts, new_tokens, should_stop_);
  }

 private:
  LoadedModel loaded_;
  std::unique_ptr<GpuSensors> sensors_;  // of a GPU whose driver tells
  ShouldStop should_stop_;
  Bytes held_before_;
  Roofline roofline_;
  DisturbanceWatch watch_;  // from the end of the run before
};

class WorkerSession : public Session {
 public:
  explicit WorkerSession(const WorkerOptions& options) : options_(options), process_(options.program) {
    OrderedJson request{
        {"op", "load"},
        {"candidates", options.candidates},
        {"configuration", changed_fields(options.configuration)},
        {"needs_tokenizer", options.needs_tokenizer},
        {"memory_limit", options.memory_limit ? OrderedJson(options.memory_limit->value) : nullptr}};
    // Each worker that tuned would find another answer.
    if (options.is_this_build && options.configuration.tune != Tune::off)
      if (const std::optional<KernelConstants> constants = tuned(options.configuration))
        request["constants"] = to_json(*constants);
    facts_ = session_facts_from_json(reader(ask(request)).at("facts"));
  }

  SessionFacts facts() override {
    return facts_ = session_facts_from_json(reader(ask({{"op", "facts"}})).at("facts"));
  }
  FirstRun first_run(const Case& spec) override {
    return first_run_from_json(reader(ask({{"op", "first_run"}, {"case", to_json(spec)}})).at("first_run"));
  }
  Sample run(const Case& spec) override {
    return sample_from_json(reader(ask({{"op", "run"}, {"case", to_json(spec)}})).at("sample"));
  }
  CorpusLosses score(const CorpusRequest& corpus) override {
    return corpus_losses_from_json(reader(ask({{"op", "score"},
                                               {"file", corpus.file},
                                               {"context", or_null(corpus.context)},
                                               {"stride", or_null(corpus.stride)},
                                               {"through", name_of(corpus.through)}}))
                                       .at("losses"));
  }
  std::vector<AuditRow> audit(const std::vector<Prompt>& prompts, std::int64_t new_tokens) override {
    const OrderedJson answer =
        ask({{"op", "audit"}, {"prompts", to_json(prompts)}, {"new_tokens", new_tokens}});
    std::vector<AuditRow> rows;
    for (const JsonReader& row : reader(answer).at("audit").items()) rows.push_back(audit_row_from_json(row));
    return rows;
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
  // None for a GPU.
  static std::optional<KernelConstants> tuned(const RunConfig& configuration) {
    const ResolvedRun run = resolve(configuration);
    if (run.device.kind != Device::Kind::cpu) return std::nullopt;
    return make_backend(run.device, run.backend)->constants();
  }
  static JsonReader reader(const OrderedJson& answer) { return {answer, kAnswer}; }
  static OrderedJson or_null(const std::optional<std::int64_t>& number) {
    return number ? OrderedJson(*number) : OrderedJson(nullptr);
  }

  OrderedJson ask(const OrderedJson& request) {
    if (is_lost_) throw WorkerLost(WorkerLost::Cause::crashed, "the worker is gone");
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
      if (reader(json).at("ok").boolean()) return json;
      failure = reader(json).at("error").text();
      is_fatal = reader(json).has("is_fatal") && reader(json).at("is_fatal").boolean();
    } catch (const Error& error) {
      lose(WorkerLost::Cause::crashed, fmt::format("cannot parse {}", error.what()));
    }
    if (is_fatal) lose(WorkerLost::Cause::crashed, failure);  // it has ended itself
    throw Error("{}", failure);
  }

  [[noreturn]] void lose(WorkerLost::Cause cause, const std::string& why) {
    is_lost_ = true;
    const std::string how = process_.end();
    throw WorkerLost(cause, why.empty() ? "the worker " + how : why);
  }

  const WorkerOptions options_;
  ChildProcess process_;
  bool is_lost_ = false;
  SessionFacts facts_;
};

}  // namespace

std::unique_ptr<Session> local_session(LoadedModel loaded, ShouldStop should_stop,
                                       Bytes held_before_loading) {
  return std::make_unique<LocalSession>(std::move(loaded), std::move(should_stop), held_before_loading);
}

std::unique_ptr<Session> worker_session(const WorkerOptions& options) {
  return std::make_unique<WorkerSession>(options);
}

}  // namespace assay
