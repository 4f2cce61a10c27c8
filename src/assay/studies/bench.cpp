#include "assay/studies/bench_figures.h"

#include <algorithm>
#include <optional>

#include "assay/base/cpu.h"
#include "assay/base/error.h"
#include "assay/base/random.h"
#include "assay/generate/greedy_step.h"
#include "assay/harness/roofline.h"
#include "assay/model/model.h"
#include "assay/plan/cost.h"
#include "assay/statistics/statistics.h"

namespace assay {

namespace {

constexpr std::uint64_t kSeed = 1;

struct TestCut {};  // leaves a test in its middle; its row is not finished

// Runs one test again and again, and counts what a repeat must read and compute.
class TestRun {
 public:
  TestRun(const Model& model, const BenchCase& spec, const std::function<bool()>& should_stop)
      : backend_(model.backend()),
        program_(model.program()),
        what_(spec),
        should_stop_(should_stop),
        cache_(program_.make_cache()) {
    Random random(kSeed);
    const auto vocab = static_cast<std::uint64_t>(program_.plan().vocab);
    for (std::int64_t i = 0; i < spec.batch; ++i) {
      numbers_.push_back(cache_->add_sequence());
      std::vector<TokenId>& ids = ids_.emplace_back();
      const std::int64_t known = spec.depth + std::max<std::int64_t>(spec.prompt_tokens, 1);
      for (std::int64_t j = 0; j < known; ++j) ids.push_back(static_cast<TokenId>(random.next() % vocab));
    }
    next_.resize(ids_.size());
    if (spec.depth > 0) step(0, spec.depth);
  }

  Seconds repeat() {
    for (const int number : numbers_) cache_->truncate(number, what_.depth);
    backend_.synchronize();
    const Event begin = backend_.record();
    if (what_.prompt_tokens > 0)
      step(what_.depth, what_.prompt_tokens);
    else
      decode();
    backend_.synchronize();
    return backend_.between(begin, backend_.record());
  }

  Cost counted_repeat() {  // once
    is_counting_ = true;
    repeat();
    is_counting_ = false;
    return cost_;
  }
  std::int64_t steps() const { return steps_; }  // of the counted repeat

 private:
  // All sequences take in `count` of their ids, and choose what would follow.
  void step(std::int64_t first, std::int64_t count) {
    std::vector<StepItem> items;
    for (std::size_t i = 0; i < ids_.size(); ++i)
      items.push_back({.sequence = numbers_[i],
                       .ids = std::span<const TokenId>(ids_[i]).subspan(static_cast<std::size_t>(first),
                                                                        static_cast<std::size_t>(count)),
                       .wanted = count - 1});
    run(items, count);
  }

  void decode() {
    for (std::size_t i = 0; i < ids_.size(); ++i) next_[i] = ids_[i].back();
    std::vector<StepItem> items(ids_.size());
    for (std::int64_t made = 0; made < what_.new_tokens; ++made) {
      const std::vector<TokenId> fed = next_;
      for (std::size_t i = 0; i < items.size(); ++i) items[i] = {numbers_[i], std::span(fed).subspan(i, 1)};
      run(items, 1);
    }
  }

  void run(std::span<const StepItem> items, std::int64_t count) {
    run_greedy_step(program_, *cache_, items, next_, [&](std::span<const StepPart> parts) {
      if (should_stop_ && should_stop_()) throw TestCut();
      if (is_counting_) add_cost(parts, count);
    });
  }

  // Weights are read once for all sequences of a step, keys and values for each.
  void add_cost(std::span<const StepPart> parts, std::int64_t count) {
    std::int64_t rows = 0, ends = 0;
    for (const StepPart& part : parts) {
      const std::int64_t past = cache_->length(numbers_[part.item]) - part.rows;
      const std::int64_t is_end = part.first + part.rows == count ? 1 : 0;
      const Cost own = cost_of(program_.plan(), part.rows, past, is_end);
      cost_.kv_bytes = cost_.kv_bytes + own.kv_bytes;
      cost_.flops = cost_.flops + own.flops;
      rows += part.rows;
      ends += is_end;
    }
    cost_.weight_bytes = cost_.weight_bytes + cost_of(program_.plan(), rows, 0, ends).weight_bytes;
    ++steps_;
  }

  Backend& backend_;
  Program& program_;
  const BenchCase what_;
  const std::function<bool()>& should_stop_;
  std::unique_ptr<KvCache> cache_;
  std::vector<int> numbers_;               // of each sequence in the cache
  std::vector<std::vector<TokenId>> ids_;  // what fills it, then the prompt or the first token of the text
  std::vector<TokenId> next_;
  bool is_counting_ = false;
  Cost cost_;
  std::int64_t steps_ = 0;
};

// What the same threads reach at most, measured between the repeats of a test so that both meet the same
// disturbances.
class Peaks {
 public:
  Peaks(const Model& model, Bytes read_per_step) : roofline_(model), read_per_step_(read_per_step) {}

  void measure() {
    constexpr Seconds kEach{0.02};
    const Roofline::Peaks now = roofline_.measure(read_per_step_, kEach);
    bytes_.push_back(now.bytes_per_second);
    operations_.push_back(now.operations_per_second);
  }

  const std::vector<double>& bytes() const { return bytes_; }
  const std::vector<double>& operations() const { return operations_; }

 private:
  Roofline roofline_;
  Bytes read_per_step_;
  std::vector<double> bytes_, operations_;
};

class BenchRun {
 public:
  BenchRun(const LoadForBench& load, const BenchOptions& options) : load_(load), options_(options) {
    for (const std::int64_t depth : options.depths)
      for (const std::int64_t batch : options.batches) {
        for (const std::int64_t tokens : options.prompt_tokens)
          if (tokens > 0) cases_.push_back({tokens, 0, depth, batch});
        for (const std::int64_t tokens : options.new_tokens)
          if (tokens > 0) cases_.push_back({0, tokens, depth, batch});
      }
    if (cases_.empty())
      throw FieldError("prompt_tokens", "expected a length above 0 here or in new_tokens, found none");
    if (options.repeats < 1)
      throw FieldError("repeats", "expected a whole number from 1, found {}", options.repeats);
    if (options.max_time_s && *options.max_time_s <= 0)
      throw FieldError("max_time_s", "expected a number above 0, found {}", *options.max_time_s);
    for (const std::int64_t count : options.threads) {
      if (count < 1 || count > 1024)
        throw FieldError("threads", "expected whole numbers from 1 to 1024, found {}", count);
      threads_.emplace_back(static_cast<int>(count));
    }
    if (threads_.empty()) threads_.emplace_back(std::nullopt);
  }

  std::vector<BenchRow> run() {
    try {
      for (const std::string& precision : options_.precisions)
        for (const std::optional<int> threads : threads_) measure_all(precision, threads);
    } catch (const TestCut&) {
    }
    return std::move(rows_);
  }

 private:
  // The first model has to load; a later one that cannot is rows of errors, so that what is measured stays.
  void measure_all(const std::string& precision, std::optional<int> threads) {
    std::optional<LoadedModel> loaded;
    try {
      loaded = load_(precision, threads);
    } catch (const Error& error) {
      if (rows_.empty()) throw;
      for (const BenchCase& spec : cases_) {
        BenchRow row;
        row.test = spec.name();
        row.spec = spec;
        row.model = rows_.front().model;
        row.precision = precision;
        row.threads = threads.value_or(default_thread_count());
        row.status = RowStatus::error;
        row.reason = error.what();
        rows_.push_back(std::move(row));
      }
      return;
    }
    if (rows_.empty()) check_lengths(loaded->model->spec().context);
    for (const BenchCase& spec : cases_) add_row(*loaded, spec);
  }

  void check_lengths(std::int64_t context) const {
    for (const BenchCase& spec : cases_)
      if (spec.depth + spec.prompt_tokens + spec.new_tokens > context)
        throw Error("{}: {} tokens exceed the model's context of {}", spec.name(),
                    spec.depth + spec.prompt_tokens + spec.new_tokens, context);
  }

  void add_row(const LoadedModel& loaded, const BenchCase& spec) {
    const Model& model = *loaded.model;
    BenchRow row;
    row.test = spec.name();
    row.spec = spec;
    row.model = loaded.id;
    row.precision = loaded.dtype_label;
    row.device = model.backend().device().text();
    row.kernels = row.isa = model.backend().kernels();
    row.tuning = model.backend().tuning();
    row.threads = model.backend().threads();
    row.parameters = model.program().plan().parameters();
    row.weight_bytes = model.program().memory().weights.value;
    row.warnings = loaded.warnings;
    try {
      measure(model, row);
    } catch (const Error& error) {
      row.status = RowStatus::error;
      row.reason = error.what();
    }
    rows_.push_back(std::move(row));
  }

  void measure(const Model& model, BenchRow& row) {
    show(row, 0);
    TestRun test(model, row.spec, options_.should_stop);
    const Cost cost = test.counted_repeat();
    Peaks peaks(model, {(cost.weight_bytes + cost.kv_bytes).value / test.steps()});
    const TimePoint begin = options_.clock();
    const auto is_over = [&] {
      return options_.max_time_s && elapsed(begin, options_.clock()).value >= *options_.max_time_s;
    };
    for (std::int64_t r = 0; r < options_.repeats && (r == 0 || !is_over()); ++r) {
      show(row, r);
      peaks.measure();
      row.samples_s.push_back(test.repeat().value);
    }
    peaks.measure();
    set_speed(row, cost);
    set_roofline(row, cost, peaks.bytes(), peaks.operations());
  }

  void show(const BenchRow& row, std::int64_t repeat) const {
    if (!options_.on_progress) return;
    const std::size_t all = cases_.size() * options_.precisions.size() * threads_.size();
    options_.on_progress(fmt::format("{} in {}, {} thread(s), repeat {} of {}", row.test, row.precision,
                                     row.threads, repeat + 1, options_.repeats),
                         static_cast<std::int64_t>(rows_.size()), static_cast<std::int64_t>(all));
  }

  const LoadForBench& load_;
  const BenchOptions& options_;
  std::vector<BenchCase> cases_;
  std::vector<std::optional<int>> threads_;
  std::vector<BenchRow> rows_;
};

}  // namespace

std::string BenchCase::name() const {
  return (prompt_tokens > 0 ? fmt::format("pp{}", prompt_tokens) : fmt::format("tg{}", new_tokens)) +
         (depth > 0 ? fmt::format(" @ d{}", depth) : "") + (batch > 1 ? fmt::format(" b{}", batch) : "");
}

void set_speed(BenchRow& row, const Cost& cost) {
  const double bytes = static_cast<double>((cost.weight_bytes + cost.kv_bytes).value);
  const auto tokens = static_cast<double>(row.spec.tokens());
  row.median_s = statistics::median(row.samples_s);
  if (row.samples_s.size() > 1)
    row.spread = (statistics::quantile(row.samples_s, 0.75) - statistics::quantile(row.samples_s, 0.25)) /
                 row.median_s;
  row.tokens_per_sec = tokens / row.median_s;
  row.bytes_per_token = bytes / tokens;
  row.flops_per_token = cost.flops.value / tokens;
  row.achieved_gb_s = bytes / row.median_s / 1e9;
  row.achieved_gflops = cost.flops.value / row.median_s / 1e9;
}

void set_roofline(BenchRow& row, const Cost& cost, std::span<const double> reading,
                  std::span<const double> computing) {
  const Roofline::Peaks peaks{statistics::median(reading), statistics::median(computing)};
  if (peaks.bytes_per_second <= 0) return;
  row.roofline_gb_s = peaks.bytes_per_second / 1e9;
  row.roofline_gflops = peaks.operations_per_second / 1e9;
  const double allowed = peaks.seconds(cost);
  row.bound = peaks.is_memory_bound(cost) ? "memory" : "compute";
  row.percent_of_roofline = 100 * allowed / row.median_s;
  // Beyond what the probes' own noise explains: such a roofline is none.
  constexpr double kSurelyAbove = 103;
  if (const double lowest = 100 * allowed / statistics::median_interval(row.samples_s).second;
      lowest > kSurelyAbove)
    row.warnings.push_back(roofline_warning(lowest));
}

std::vector<BenchRow> run_bench(const LoadForBench& load, const BenchOptions& options) {
  return BenchRun(load, options).run();
}

}  // namespace assay
