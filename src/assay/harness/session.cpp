#include "assay/harness/session.h"

#include "assay/backend/backend.h"
#include "assay/base/error.h"
#include "assay/harness/roofline.h"
#include "assay/harness/run_case.h"
#include "assay/model/model.h"
#include "assay/session/audit.h"
#include "assay/session/perplexity.h"

namespace assay {

namespace {

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
  TaskScores task(const std::string& file) override {
    return score_task(loaded_, read_task_items(file), file, {.should_stop = should_stop_});
  }

 private:
  LoadedModel loaded_;
  std::unique_ptr<GpuSensors> sensors_;  // null where no driver tells
  ShouldStop should_stop_;
  Bytes held_before_;
  Roofline roofline_;
  DisturbanceWatch watch_;  // from the end of the run before
};

}  // namespace

TaskScores Session::task(const std::string&) {
  throw Error("this session scores no tasks");
}

std::unique_ptr<Session> local_session(LoadedModel loaded, ShouldStop should_stop,
                                       Bytes held_before_loading) {
  return std::make_unique<LocalSession>(std::move(loaded), std::move(should_stop), held_before_loading);
}

}  // namespace assay
