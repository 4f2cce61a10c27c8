#include "assay/results/scenario.h"

namespace assay {

namespace {

constexpr ScenarioInfo kScenarioTable[] = {
    {{Scenario::baseline, "baseline", "Baseline", "Each prompt generates with the baseline configuration."},
     "Prompt"},
    {{Scenario::noise, "noise", "A/A run",
      "Two worker sessions of the same configuration take turns; any difference between them is noise."},
     "Session"},
    {{Scenario::tradeoff, "trade-off", "Precision trade-off",
      "Every precision generates from the first prompt; the first precision is the baseline."},
     "Precision"},
    {{Scenario::lengths, "lengths", "Prompt length",
      "The baseline generates from prompts of several lengths."},
     "Prompt length"},
    {{Scenario::precisions, "precisions", "Precisions",
      "Every precision generates from one prompt; the first precision is the baseline."},
     "Precision"},
    {{Scenario::cache, "cache", "KV cache", "The baseline generates with the KV cache on and off."},
     "KV cache"},
    {{Scenario::padding, "padding", "Padding",
      "One batch of prompts of different lengths runs without padding, padded left and padded right."},
     "Padding"},
    {{Scenario::step_times, "step times", "Decode step times",
      "Median time of each decode step, by the tokens that the sequence holds."},
     "KV cache"},
    {{Scenario::batches, "batches", "Batch size", "The same prompts run in batches of several sizes."},
     "Batch size"},
    {{Scenario::batched_precisions, "batched precisions", "Precisions in batches",
      "Every precision runs the same prompts in batches of one size; the first precision is the baseline."},
     "Precision"},
    {{Scenario::threads, "threads", "Threads", "One prompt runs with several numbers of threads."},
     "Threads"},
    {{Scenario::perplexity, "perplexity", "Perplexity", "Every precision scores the same text."},
     "Precision"},
    {{Scenario::divergence, "divergence", "Divergence",
      "Every precision predicts the tokens of the same text beside the baseline."},
     "Precision"},
    {{Scenario::edge_prompts, "edge prompts", "Edge-case prompts",
      "Unusual prompts run beside a typical one, with the same number of new tokens."},
     "Prompt"},
    {{Scenario::kv_cache, "kv cache", "KV cache formats",
      "The baseline generates with keys and values in several formats."},
     "Format"},
    {{Scenario::bench, "bench", "Prefill and decode",
      "Each test reads a prompt of random tokens (pp) or decodes one token after the other (tg); d is the "
      "number of tokens already in the KV cache, b the batch size."},
     "Test"},
    {{Scenario::task, "task", "Task accuracy",
      "Every precision answers the same items by log-likelihood; the first precision is the baseline."},
     "Precision"},
};
static_assert(std::size(kScenarioTable) == kScenarios);

}  // namespace

std::span<const ScenarioInfo> scenarios() {
  return kScenarioTable;
}
const ScenarioInfo& info_of(Scenario scenario) {
  return entry_of(scenarios(), scenario);
}
std::string_view name_of(Scenario scenario) {
  return info_of(scenario).name;
}

}  // namespace assay
