#include "assay/harness/session.h"

#include <algorithm>

#include "assay/backend/backend.h"
#include "assay/base/error.h"
#include "assay/harness/roofline.h"
#include "assay/harness/run_case.h"
#include "assay/model/model.h"
#include "assay/session/audit.h"
#include "assay/session/perplexity.h"
#include "assay/session/sampled_text.h"

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
  CorpusDivergence diverge(const std::vector<Session*>& candidates, const DivergeRequest& request) override {
    std::vector<const LoadedModel*> models;
    for (Session* candidate : candidates) {
      const auto* own = dynamic_cast<const LocalSession*>(candidate);
      if (own == nullptr) throw Error("a divergence needs models in one process");
      models.push_back(&own->loaded_);
    }
    const CorpusDivergenceOptions options{.context = request.context,
                                          .stride = request.stride,
                                          .max_tokens = request.max_tokens,
                                          .should_stop = should_stop_};
    CorpusDivergence found = request.sample_tokens > 0 ? diverge_on_sample(models, request)
                             : request.file.empty()    ? diverge_on_ids(loaded_, models, request.ids, options)
                                                    : diverge_on_file(loaded_, models, request.file, options);
    if (request.greedy_tokens > 0) add_greedy(models, request, found);
    return found;
  }

 private:
  CorpusDivergence diverge_on_sample(const std::vector<const LoadedModel*>& models,
                                     const DivergeRequest& request) const {
    std::int64_t longest = request.context.value_or(loaded_.model->spec().context);
    for (const LoadedModel* model : models) longest = std::min(longest, model->model->spec().context);
    SampledText sample = sample_text(loaded_, request.sample_tokens, longest, should_stop_);
    CorpusDivergence found =
        diverge_on_ids(loaded_, models, std::move(sample.ids),
                       {.context = sample.length, .stride = sample.length, .should_stop = should_stop_});
    found.divergence.protocol += "; " + sample.label;
    return found;
  }

  // As many new tokens as the shortest context leaves room for; nothing where it leaves none.
  void add_greedy(const std::vector<const LoadedModel*>& models, const DivergeRequest& request,
                  CorpusDivergence& found) const {
    std::int64_t context = loaded_.model->spec().context;
    for (const LoadedModel* model : models) context = std::min(context, model->model->spec().context);
    const std::int64_t prompt =
        std::min({std::ssize(found.ids), std::max<std::int64_t>(1, request.greedy_prompt), context - 1});
    const std::int64_t new_tokens = std::min(request.greedy_tokens, context - prompt);
    if (prompt < 1 || new_tokens < 1) return;
    std::vector<const LoadedModel*> able;
    for (std::size_t i = 0; i < models.size(); ++i)
      if (found.divergence.candidates[i].failure.empty()) able.push_back(models[i]);
    const std::vector<GreedyDivergence> greedy = greedy_divergence(
        loaded_, able, {found.ids.begin(), found.ids.begin() + prompt}, new_tokens, should_stop_);
    auto next = greedy.begin();
    for (const CandidateDivergence& candidate : found.divergence.candidates)
      found.greedy.push_back(candidate.failure.empty() ? *next++
                                                       : GreedyDivergence{.failure = candidate.failure});
  }

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

CorpusDivergence Session::diverge(const std::vector<Session*>&, const DivergeRequest&) {
  throw Error("this session compares no models token by token");
}

std::unique_ptr<Session> local_session(LoadedModel loaded, ShouldStop should_stop,
                                       Bytes held_before_loading) {
  return std::make_unique<LocalSession>(std::move(loaded), std::move(should_stop), held_before_loading);
}

}  // namespace assay
