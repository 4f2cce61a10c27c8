// Measures speed alone, with the tests of llama-bench: prefill and decode, each compared with the roofline
// that was measured between its repeats.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "assay/results/results.h"
#include "assay/session/load.h"

namespace assay {

// One test: `batch` sequences that hold `depth` tokens each take in a prompt, or write new tokens one by one.
struct BenchCase {
  std::int64_t prompt_tokens = 0, new_tokens = 0;  // one of them is 0
  std::int64_t depth = 0, batch = 1;
  std::string name() const;  // "pp512", "tg128 @ d512 b8"
  std::int64_t tokens() const { return batch * (prompt_tokens + new_tokens); }
};

struct BenchRow {
  std::string test, model, precision, device, kernels, isa, tuning;
  int threads = 0;
  BenchCase spec;
  std::int64_t parameters = 0, weight_bytes = 0;  // of the model
  std::vector<double> samples_s;
  double median_s = 0;
  std::optional<double> spread;  // interquartile range / median
  double tokens_per_sec = 0;     // of the median
  double bytes_per_token = 0, flops_per_token = 0, achieved_gb_s = 0, achieved_gflops = 0;
  // Medians of what the probes reached between the repeats; 0 where there is no probe for it.
  double roofline_gb_s = 0, roofline_gflops = 0;
  double percent_of_roofline = 0;  // the longer of the two times that the rooflines allow / median_s
  std::string bound;               // which of the two it was: "memory" or "compute"; empty without rooflines
  std::vector<Warning> warnings;
  RowStatus status = RowStatus::ok;
  std::string reason;  // of an error
};

struct BenchOptions {
  std::vector<std::int64_t> prompt_tokens{512}, new_tokens{128}, depths{0}, batches{1};
  std::vector<std::string> precisions{"float32"};
  std::vector<std::int64_t> threads = {};  // empty: default_thread_count()
  std::int64_t repeats = 5;                // timed, after one that is not
  std::optional<double> max_time_s = {};   // of a test: no repeat begins after it; unset: no limit
  std::function<void(const std::string& now, std::int64_t done, std::int64_t all)> on_progress;
  std::function<bool()> should_stop;
  std::function<TimePoint()> clock = Clock::now;  // for max_time_s; tests have their own
};
// `threads` unset: default_thread_count().
using LoadForBench = std::function<LoadedModel(const std::string& precision, std::optional<int> threads)>;

// The tests of each precision and number of threads, prefill before decode. A length of 0 asks for no
// test. A test that fails is a failed row, as is each test of a model that cannot be loaded after
// the first one; where should_stop says so, the finished rows come back. Throws FieldError where nothing is
// asked for, Error where a test would exceed the model's context and what loading the first model throws:
// before any test has run.
std::vector<BenchRow> run_bench(const LoadForBench& load, const BenchOptions& options);

}  // namespace assay
