// Measures speed alone, with the tests of llama-bench: prefill and decode, each compared with the roofline
// that was measured between its repeats.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assay/harness/context.h"
#include "assay/results/results.h"

namespace assay {

// One test: `batch` sequences that hold `depth` tokens each take in a prompt, or write new tokens one by one.
struct BenchCase {
  std::int64_t prompt_tokens = 0, new_tokens = 0;  // one of them is 0
  std::int64_t depth = 0, batch = 1;
  std::string name() const;  // "pp512", "tg128 @ d512 b8"
  std::int64_t tokens() const { return batch * (prompt_tokens + new_tokens); }
};

// A test as llama-bench reports it.
struct BenchRow {
  std::string test, model, precision, device, kernels, isa, tuning;
  int threads = 0;
  BenchCase spec;
  std::int64_t parameters = 0, weight_bytes = 0;  // the model's
  std::vector<double> samples_s;
  double median_s = 0;
  std::optional<double> spread;  // interquartile range / median
  double tokens_per_sec = 0;     // tokens / median_s
  double bytes_per_token = 0, flops_per_token = 0, achieved_gb_s = 0, achieved_gflops = 0;
  // Medians of what the probes reached between the repeats; 0 where there is no probe for it.
  double roofline_gb_s = 0, roofline_gflops = 0;
  double percent_of_roofline = 0;  // the longer of the two times that the rooflines allow / median_s
  std::string bound;               // which of the two it was: "memory" or "compute"; empty without rooflines
  std::vector<Warning> warnings;
  RowStatus status = RowStatus::ok;
  std::string reason;  // why it failed
};

struct BenchOptions {
  // A length of 0 asks for no test.
  std::vector<std::int64_t> prompt_tokens{512}, new_tokens{128}, depths{0}, batches{1};
  std::vector<std::string> precisions = {};  // as run_config_from_text() reads them; empty: the baseline's
  std::vector<std::int64_t> threads = {};    // empty: the baseline's
};

// Timed runs of each test where SweepOptions::repeats says nothing.
inline constexpr std::int64_t kBenchRepeats = 5;

// The tests of each precision and number of threads, prefill before decode: one after the other as in
// llama-bench, all repeats of a test in a row, in one process for each precision and number of threads.
// SweepOptions::max_time_s is the time of one test, after which it begins no further repeat. A test that
// fails is a failed row, as is each test of a configuration that cannot be loaded after the first one. Once
// should_stop says so, the rows of the tests that are finished come back. Throws FieldError where nothing is
// asked for, Error where a test would exceed the model's context, and what loading the first configuration
// throws: before any test has run.
ExperimentResult measure_bench(const ExperimentContext& context, const BenchOptions& options = {});

// The rows of measure_bench() among `rows`, as llama-bench reports them; `model`: that was measured.
std::vector<BenchRow> bench_rows(std::span<const Row> rows, const ModelFacts& model);

}  // namespace assay
