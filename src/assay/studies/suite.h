// Experiments: every study in one run, or one of them, and the result set of either.
#pragma once

#include <any>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "assay/studies/batched.h"
#include "assay/studies/batched_precisions.h"
#include "assay/studies/cache_and_padding.h"
#include "assay/studies/compare_perplexity.h"
#include "assay/studies/divergence.h"
#include "assay/studies/edge_prompts.h"
#include "assay/studies/lengths.h"
#include "assay/studies/noise.h"
#include "assay/studies/precisions.h"
#include "assay/studies/shared_options.h"
#include "assay/studies/threads.h"
#include "assay/studies/tradeoff.h"

namespace assay {

struct SuiteOptions : SharedOptions {
  // Options of single studies, by name, where they are not the defaults: studies["lengths"] =
  // LengthsOptions{...}. What the run shares (precisions, prompts, new tokens) is written over them.
  std::map<std::string, std::any> studies = {};
  // Studies to leave out, by name.
  std::vector<std::string> skipped = {};
  // Studies whose cases, and whether all new tokens, were asked for: no budget leaves them out.
  std::set<std::string> asked = {};
  bool has_asked_tokens = false;
  // Predicts the seconds of one run of a case (predict.h), for the time left of the whole run. Empty: no time
  // is told.
  PredictedSeconds predicted_seconds = {};
};

// Runs, in this order: the baseline, an A/A run, quantization's trade-off, ablations (prompt length, cache,
// padding), batches of the baseline and of every precision, perplexity, divergence, edge-case prompts; then
// takeaways. Throws Error where the
// baseline cannot be loaded or the corpus cannot be scored, FieldError for a study that is not known.
ResultSet run_quantization_exercise(ExperimentContext context, const SuiteOptions& options = {});

// The result set of one study, with the machine and the baseline's model beside what it found: what
// write_reports() (report/files.h) takes. Throws Error where the baseline is not loaded yet and cannot be.
ResultSet results_of(const ExperimentContext& context, ExperimentResult found);

}  // namespace assay
