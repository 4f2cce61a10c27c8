// A case of an experiment as data, and what one run of it gave: both travel as JSON (case_json.h) to worker
// processes and into journals.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "assay/config/run_config.h"
#include "assay/machine/disturbance.h"
#include "assay/machine/gpu_sensors.h"
#include "assay/results/scenario.h"
#include "assay/results/warning.h"
#include "assay/session/time_generate.h"

namespace assay {

// Prompts of random token ids, as llama-bench takes them: speed does not depend on what they say.
struct RandomPrompts {
  std::int64_t sequences = 1;  // computed together
  std::int64_t tokens = 1;     // that a run reads of each sequence
  std::int64_t depth = 0;      // more before them, which the KV cache holds when the clock starts
};

struct Case {
  Scenario scenario = Scenario::baseline;
  std::string label;  // what its row is called: "128 tokens"
  RunConfig configuration;
  std::vector<Prompt> prompts;
  std::int64_t batch_size = 0;  // prompts computed together; 0 = all. The last batch may be smaller.
  std::int64_t new_tokens = 50;
  bool uses_cache = true;
  Padding padding = Padding::none;
  Truncation truncation = Truncation::none;
  std::optional<RandomPrompts> random_prompts = {};  // in place of prompts
  std::vector<std::pair<std::string, std::string>> parameters =
      {};                              // that of its row, beside what follows from the above
  std::vector<Warning> warnings = {};  // known before it runs
  bool is_measured_once = false;       // one timed run in one process, for its length

  // What tells it from every other case.
  std::string key() const;
  std::int64_t sequences() const;
};

// One run.
struct Sample {
  // Every time on its own clock readings; see docs/METRICS.md.
  double total_latency_s = 0, end_to_end_s = 0, tokenize_s = 0, prefill_s = 0, sampling_s = 0,
         detokenize_s = 0, first_token_s = 0;
  std::vector<double> step_s;  // every decode step of every batch
  std::int64_t sequences = 0, batches = 0, prompt_tokens = 0, computed_prompt_tokens = 0, new_tokens = 0;
  std::string ids_hash;  // the hash of all generated ids
  // What it had to do at least, and the time that the rooflines measured beside it allow.
  double bytes = 0, flops = 0, roofline_s = 0, roofline_gb_s = 0, roofline_gflops = 0;
  double round_trip_us = 0;     // a phase of the thread pool, measured with the roofline; 0: not known
  double memory_bound_s = 0;    // the part of roofline_s in steps that reading bounds
  int roofline_repeats = 0;     // measurements that were repeated, because the run was faster than they allow
  double first_tokenize_s = 0;  // the first batch's part of tokenize_s
  // Of the processor packages, or of the GPU; empty where the system does not tell, or a run is too short.
  std::optional<double> energy_j = {};
  std::string energy_why_not = {};
  Disturbance disturbance;
  std::optional<GpuUse> gpu = {};  // where it ran on a GPU whose driver tells

  double decode_s() const;
};

// Where a run's time went, beside what the roofline allows each part.
struct CaseProfile {
  struct Part {
    std::string
        phase;  // "matrix multiplication", "attention", "the LM head", "other operations", "synchronization"
    double seconds = 0, roofline_s = 0;
  };
  std::vector<Part> parts;
};

// What the first run gave, which is not timed.
struct FirstRun {
  std::vector<std::vector<TokenId>> prompt_ids, ids;
  std::vector<std::string> texts;
  CaseProfile profile;
  double kv_cache_bytes = 0, measured_memory_bytes = 0;
  double peak_rss_bytes = 0, current_rss_bytes = 0;  // the process's, at the end
  double device_used_bytes =
      0;  // how much of a GPU's memory all programs use, as its driver tells; 0 on the host
  double seconds = 0;
};

}  // namespace assay
