// The controller: every experiment in one run, one result set.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "assay/studies/batched.h"
#include "assay/studies/cache_and_padding.h"
#include "assay/studies/compare_perplexity.h"
#include "assay/studies/edge_prompts.h"
#include "assay/studies/lengths.h"
#include "assay/studies/precisions.h"
#include "assay/studies/threads.h"
#include "assay/studies/tradeoff.h"

namespace assay {

struct SuiteOptions {
  std::vector<std::string> precisions;  // empty: default_precisions()
  std::vector<Prompt> prompts{"The capital of France is", "Once upon a time, in a land far, far away,",
                              "To be or not to be, that is the"};
  std::int64_t new_tokens = 50;
  bool uses_cache = true;  // of the baseline
  Truncation truncation = Truncation::none;
  LengthsOptions lengths;
  AblationOptions ablation;
  BatchedOptions batches;
  std::int64_t edge_new_tokens = 50;
  std::filesystem::path corpus;
  std::int64_t context = 0, stride = 0;  // of the perplexity
  int noise_pairs = 20;                  // runs of equals before anything else, at least; 0: none
  // Seconds of one run of a case, about (predict.h): for the time left of the whole run. Empty: none is told.
  std::function<double(const Case&)> predicted_seconds = {};
  // Parts to leave out: "trade-off", "ablation", "lengths", "batches", "perplexity", "edge", "noise".
  std::vector<std::string> skipped;
};

// What runs of equals differ by: the baseline in two sessions, in turns; `pairs` at least, and more (60 at
// most) until some seconds have passed. Empty where it cannot be told.
std::optional<NoiseBudget> measure_noise(const ExperimentContext& experiment, int pairs);

// Runs, in this order: the baseline, the noise of equals, quantization's trade-off, ablations (prompt length,
// cache, padding), batches, perplexity, edge prompts; then takeaways. Margins of verdicts
// are never below what the noise of equals says. Throws Error where the baseline cannot be loaded or the
// corpus not scored.
ResultSet run_quantization_exercise(ExperimentContext experiment, const SuiteOptions& options);

// A result set that says where and on what it was measured; rows are to be added.
ResultSet new_results(const SessionFacts& facts);
void add(ResultSet& results, ExperimentResult part);

// All cases of the run: what a dry run shows.
std::vector<Case> suite_cases(const ExperimentContext& experiment, const SuiteOptions& options);

}  // namespace assay
