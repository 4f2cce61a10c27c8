#include "assay/harness/worker_session.h"

#include <nlohmann/json.hpp>

#include "assay/base/process.h"
#include "assay/config/fields.h"
#include "assay/harness/roofline.h"
#include "assay/harness/run_case.h"
#include "assay/session/audit.h"
#include "assay/session/perplexity.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

namespace {

class LocalSession : public Session {
 public:
  LocalSession(LoadedModel loaded, ShouldStop should_stop, Bytes held_before)
      : loaded_(std::move(loaded)),
        should_stop_(std::move(should_stop)),
        held_before_(held_before),
        roofline_(*loaded_.model) {}

  SessionFacts facts() override {
    const Backend& backend = loaded_.model->backend();
    return {.model = model_facts(loaded_),
            .device = backend.device().text(),
            .kernels = backend.kernels(),
            .threads = backend.threads(),
            .context = loaded_.model->spec().context,
            .warnings = loaded_.warnings};
  }
  FirstRun first_run(const Case& what) override {
    return assay::first_run(loaded_, what, roofline_, held_before_, should_stop_);
  }
  Sample run(const Case& what) override { return run_case(loaded_, what, &roofline_, should_stop_); }
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
  ShouldStop should_stop_;
  Bytes held_before_;
  Roofline roofline_;
};

OrderedJson prompts_to_json(const std::vector<Prompt>& prompts) {
  Case what;
  what.prompts = prompts;
  return to_json(what).at("prompts");
}

std::vector<Prompt> prompts_from_json(const OrderedJson& json) {
  std::vector<Prompt> prompts;
  for (const OrderedJson& prompt : json) {
    if (prompt.is_string())
      prompts.emplace_back(prompt.get<std::string>());
    else
      prompts.emplace_back(prompt.get<std::vector<TokenId>>());
  }
  return prompts;
}

class WorkerSession : public Session {
 public:
  explicit WorkerSession(const WorkerOptions& options) : options_(options), process_(options.program) {
    OrderedJson request{{"op", "load"},
                        {"candidates", options.candidates},
                        {"configuration", to_json(options.configuration)},
                        {"needs_tokenizer", options.needs_tokenizer},
                        {"memory_limit", options.memory_limit.value}};
    facts_ = session_facts_from_json(ask(std::move(request)).at("facts"));
  }

  SessionFacts facts() override {
    return facts_ = session_facts_from_json(ask({{"op", "facts"}}).at("facts"));
  }
  FirstRun first_run(const Case& what) override {
    return first_run_from_json(ask({{"op", "first_run"}, {"case", to_json(what)}}).at("first_run"));
  }
  Sample run(const Case& what) override {
    return sample_from_json(ask({{"op", "run"}, {"case", to_json(what)}}).at("sample"));
  }
  CorpusLosses score(const CorpusRequest& corpus) override {
    return corpus_losses_from_json(ask({{"op", "score"},
                                        {"file", corpus.file},
                                        {"context", corpus.context},
                                        {"stride", corpus.stride},
                                        {"through", name_of(corpus.through)}})
                                       .at("losses"));
  }
  std::vector<AuditRow> audit(const std::vector<Prompt>& prompts, std::int64_t new_tokens) override {
    const OrderedJson answer =
        ask({{"op", "audit"}, {"prompts", prompts_to_json(prompts)}, {"new_tokens", new_tokens}});
    std::vector<AuditRow> rows;
    for (const OrderedJson& row : answer.at("audit")) rows.push_back(audit_row_from_json(row));
    return rows;
  }

 private:
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
    try {
      OrderedJson json = OrderedJson::parse(answer.line);
      if (json.at("ok").get<bool>()) return json;
      throw Error("{}", json.at("error").get<std::string>());
    } catch (const OrderedJson::exception&) {
      lose(WorkerLost::Cause::crashed,
           "the worker's answer is not understood: expected a JSON object with the key 'ok'");
    }
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

std::optional<double> head_computed_share(const Model& model) {
  if (!model.precision().has_candidate_search) return std::nullopt;
  return model.program().exact_head_share();
}

ModelFacts model_facts(const LoadedModel& loaded) {
  const Model& model = *loaded.model;
  const MemoryReport memory = model.program().memory();
  CoverageFacts coverage = coverage_of(model.program().plan());
  if (model.precision().weights == WeightFormat::llm_int8)
    coverage.outlier_share = model.program().outlier_share();
  return {.id = loaded.id,
          .path = model.folder().path().string(),
          .family = model.spec().family,
          .sha256 = "",
          .dtype = loaded.dtype_label,
          .parameters = model.program().plan().parameters(),
          .memory_bytes = get_model_memory_footprint(model).value,
          .resident_weights_bytes = (memory.weights + memory.packing).value,
          .workspace_bytes = memory.workspace.value,
          .head_computed_share = head_computed_share(model),
          .load_s = model.load_time().value + loaded.calibration_s,
          .coverage = std::move(coverage)};
}

std::unique_ptr<Session> local_session(LoadedModel loaded, ShouldStop should_stop,
                                       Bytes held_before_loading) {
  return std::make_unique<LocalSession>(std::move(loaded), std::move(should_stop), held_before_loading);
}

std::unique_ptr<Session> worker_session(const WorkerOptions& options) {
  return std::make_unique<WorkerSession>(options);
}

OrderedJson answer_request(Session& session, const std::string& op, const OrderedJson& request) {
  if (op == "facts") return {{"ok", true}, {"facts", to_json(session.facts())}};
  if (op == "first_run")
    return {{"ok", true}, {"first_run", to_json(session.first_run(case_from_json(request.at("case"))))}};
  if (op == "run")
    return {{"ok", true}, {"sample", to_json(session.run(case_from_json(request.at("case"))))}};
  if (op == "score")
    return {{"ok", true},
            {"losses", to_json(session.score(
                           {request.at("file").get<std::string>(), request.at("context").get<std::int64_t>(),
                            request.at("stride").get<std::int64_t>(),
                            score_through_from_name(request.value("through", "prefill"))}))}};
  if (op == "audit") {
    OrderedJson rows = OrderedJson::array();
    for (const AuditRow& row : session.audit(prompts_from_json(request.at("prompts")),
                                             request.at("new_tokens").get<std::int64_t>()))
      rows.push_back(to_json(row));
    return {{"ok", true}, {"audit", rows}};
  }
  return {};
}

OrderedJson to_json(const SessionFacts& facts) {
  return {{"model", to_json(facts.model)}, {"device", facts.device},   {"kernels", facts.kernels},
          {"threads", facts.threads},      {"context", facts.context}, {"warnings", to_json(facts.warnings)}};
}

SessionFacts session_facts_from_json(const JsonReader& json) {
  return {.model = model_facts_from_json(json.at("model")),
          .device = json.at("device").text(),
          .kernels = json.at("kernels").text(),
          .threads = json.at("threads").whole<int>(),
          .context = json.at("context").whole<std::int64_t>(),
          .warnings = warnings_from_json(json.at("warnings"))};
}

OrderedJson to_json(const CorpusLosses& losses) {
  return {{"corpus_sha256", losses.corpus_sha256},
          {"protocol", losses.protocol},
          {"log_probabilities", losses.log_probabilities},
          {"tokens", losses.tokens},
          {"seconds", losses.seconds},
          {"warnings", to_json(losses.warnings)}};
}

CorpusLosses corpus_losses_from_json(const JsonReader& json) {
  return {
      .corpus_sha256 = json.at("corpus_sha256").text(),
      .protocol = json.at("protocol").text(),
      .log_probabilities = json.at("log_probabilities").numbers(),
      .tokens = json.at("tokens").whole<std::int64_t>(),
      .seconds = json.at("seconds").number(),
      .warnings = json.has("warnings") ? warnings_from_json(json.at("warnings")) : std::vector<Warning>()};
}

}  // namespace assay
