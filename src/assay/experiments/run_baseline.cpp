#include "assay/experiments/run_baseline.h"

#include "assay/base/error.h"
#include "assay/experiments/perplexity.h"
#include "assay/experiments/time_generate.h"
#include "assay/measure/statistics.h"

namespace assay {

namespace {

// One metric over the repeats: their mean, and every sample.
void set_samples(Row& row, std::string_view tag, const std::vector<TimedGeneration>& runs,
                 double TimedGeneration::*member) {
  Value value;
  for (const TimedGeneration& run : runs) value.samples.push_back(run.*member);
  value.value = mean(value.samples);
  row.set(tag, std::move(value));
}

Row new_row(const LoadedModel& loaded, std::string label) {
  Row row;
  row.scenario = "baseline";
  row.label = std::move(label);
  const Backend& backend = loaded.model->backend();
  row.parameters = {{"precision", loaded.dtype_label},
                    {"device", backend.device().text()},
                    {"kernels", backend.kernels()},
                    {"threads", std::to_string(backend.threads())}};
  row.doubts = loaded.doubts;
  row.set("memory_bytes", static_cast<double>(get_model_memory_footprint(*loaded.model).value));
  return row;
}

// A prompt as people read it.
std::string shown(const Prompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  return fmt::format("ids {}", fmt::join(std::get<std::vector<TokenId>>(prompt), " "));
}

class BaselineRun {
 public:
  BaselineRun(const LoadedModel& loaded, const BaselineOptions& options)
      : loaded_(loaded), options_(options) {}

  ResultSet run() {
    describe();
    const auto cases = static_cast<std::int64_t>(options_.prompts.size()) + 1;
    for (std::size_t i = 0; i < options_.prompts.size() && !stopped(); ++i) {
      if (options_.on_progress)
        options_.on_progress(fmt::format("prompt {}", i + 1), static_cast<std::int64_t>(i), cases);
      add_prompt(i);
    }
    if (!stopped()) {
      if (options_.on_progress) options_.on_progress("perplexity", cases - 1, cases);
      add_corpus();
    }
    if (loaded_.model->precision().weights == WeightFormat::llm_int8)
      results_.model.coverage.outlier_share = loaded_.model->program().outlier_share();
    if (stopped()) results_.status = "interrupted";
    return std::move(results_);
  }

 private:
  bool stopped() const { return options_.should_stop && options_.should_stop(); }

  void describe() {
    const Model& model = *loaded_.model;
    const MemoryReport memory = model.program().memory();
    results_.created = utc_now();
    results_.build = build_facts();
    results_.machine = read_machine();
    results_.model = {.id = loaded_.id,
                      .path = model.folder().path().string(),
                      .family = model.spec().family,
                      .sha256 = model.folder().content_hash(),
                      .dtype = loaded_.dtype_label,
                      .parameters = model.program().plan().parameters(),
                      .memory_bytes = get_model_memory_footprint(model).value,
                      .resident_weights_bytes = (memory.weights + memory.packing).value,
                      .workspace_bytes = memory.workspace.value,
                      .load_s = model.load_time().value,
                      .coverage = coverage_of(model.program().plan())};
    results_.caption = fmt::format(
        "{} in {} on {}, {} kernels, {} thread(s). Each prompt: a warm-up, then {} timed generation(s) of "
        "exactly {} new tokens, "
        "KV cache {}; means. Latency includes prefill, excludes tokenization. Memory counts parameters (MB = "
        "1024 x 1024 bytes).",
        loaded_.id, loaded_.dtype_label, results_.machine.cpu, model.backend().kernels(),
        model.backend().threads(), options_.repeats, options_.max_new_tokens,
        options_.uses_cache ? "on" : "off");
    const CoverageFacts& coverage = results_.model.coverage;
    if (coverage.quantized > 0)
      results_.caption += fmt::format(
          " Quantized: {} of {} tensors, {:.0f} % of the weights; {:.2f} bits per weight over the whole "
          "model.",
          coverage.quantized, coverage.tensors.size(), 100 * coverage.weights_share,
          coverage.bits_per_weight);
  }

  void add_prompt(std::size_t i) {
    Row row = new_row(loaded_, fmt::format("prompt {}", i + 1));
    row.parameters.emplace_back("prompt", shown(options_.prompts[i]));
    row.parameters.emplace_back("max_new_tokens", std::to_string(options_.max_new_tokens));
    row.parameters.emplace_back("cache", options_.uses_cache ? "on" : "off");
    try {
      time_prompt(i, row);
    } catch (const Error& error) {
      row.status = "error";
      row.reason = error.what();
    }
    results_.rows.push_back(std::move(row));
  }

  void time_prompt(std::size_t i, Row& row) {
    std::vector<TimedGeneration> runs;
    TimeOptions time;
    time.max_new_tokens = options_.max_new_tokens;
    time.uses_cache = options_.uses_cache;
    time.truncation = options_.truncation;
    for (std::int64_t r = 0; r < options_.repeats && !(r > 0 && stopped()); ++r) {
      time.has_warm_up = r == 0;
      runs.push_back(time_generate(loaded_, options_.prompts[i], time));
    }
    const TimedGeneration& first = runs.front();
    set_samples(row, "total_latency_s", runs, &TimedGeneration::total_latency_s);
    set_samples(row, "tokens_per_sec", runs, &TimedGeneration::tokens_per_sec);
    set_samples(row, "avg_latency_per_token_ms", runs, &TimedGeneration::avg_latency_per_token_ms);
    set_samples(row, "time_to_first_token_s", runs, &TimedGeneration::time_to_first_token_s);
    set_samples(row, "prefill_tokens_per_sec", runs, &TimedGeneration::prefill_tokens_per_sec);
    set_samples(row, "decode_tokens_per_sec", runs, &TimedGeneration::decode_tokens_per_sec);
    set_samples(row, "tokenize_s", runs, &TimedGeneration::tokenize_s);
    row.set("tokens_generated", static_cast<double>(first.tokens_generated));
    row.set("prompt_tokens", static_cast<double>(first.prompt_ids.size()));
    for (const TimedGeneration& run : runs)
      if (run.ids != first.ids) row.doubts.emplace_back("equal runs gave different ids");
    results_.texts.push_back(
        {row.label, shown(options_.prompts[i]), first.text, first.prompt_ids, first.ids});
  }

  void add_corpus() {
    Row row = new_row(loaded_, "perplexity");
    row.parameters.emplace_back("corpus", options_.corpus.filename().string());
    try {
      const CorpusScore scored = score_file(
          loaded_, options_.corpus,
          {.context = options_.context, .stride = options_.stride, .should_stop = options_.should_stop});
      row.parameters.emplace_back("corpus_sha256", scored.corpus_sha256);
      row.parameters.emplace_back("protocol", scored.score.protocol);
      row.set("loss", scored.score.loss);
      row.set("perplexity", scored.score.perplexity);
      row.set("tokens_scored", static_cast<double>(scored.score.tokens_scored));
    } catch (const Error& error) {
      row.status = "error";
      row.reason = error.what();
    }
    row.set("peak_rss_bytes", static_cast<double>(read_process_memory().peak.value));
    results_.rows.push_back(std::move(row));
  }

  const LoadedModel& loaded_;
  const BaselineOptions& options_;
  ResultSet results_;
};

}  // namespace

ResultSet run_baseline(const LoadedModel& loaded, const BaselineOptions& options) {
  if (options.repeats < 1)
    throw UsageError("--repeats: expected a whole number from 1, found {}", options.repeats);
  return BaselineRun(loaded, options).run();
}

}  // namespace assay
