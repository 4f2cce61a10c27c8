// The main job: generate from each prompt under the clock, score a text, and fill one result set.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "assay/experiments/load.h"
#include "assay/experiments/time_generate.h"
#include "assay/generate/sampler.h"
#include "assay/measure/results.h"

namespace assay {

struct BaselineOptions {
  std::vector<Prompt> prompts;
  std::filesystem::path corpus;
  std::int64_t max_new_tokens = 50;
  std::int64_t repeats = 3;  // timed generations per prompt
  bool uses_cache = true;
  Truncation truncation = Truncation::none;
  std::int64_t context = 0, stride = 0;  // of the perplexity; 0 = the defaults of the scorer
  std::function<void(const std::string& now, std::int64_t done, std::int64_t all)> on_progress;
  std::function<bool()> should_stop;
};

// Rows: one per prompt, and one for the text. A prompt that fails is a row of status "error" with its reason.
// Where should_stop says so, the rows finished so far come back with status "interrupted".
ResultSet run_baseline(const LoadedModel& loaded, const BaselineOptions& options);

}  // namespace assay
