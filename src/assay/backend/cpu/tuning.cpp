#include "assay/backend/cpu/tuning.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "assay/backend/cpu/linear.h"
#include "assay/base/error.h"
#include "assay/base/format.h"

namespace assay::cpu {

namespace {

constexpr double kLeastGain = 1.03, kMostLoss = 0.99;
constexpr double kFirstShare = 0.7;  // of the time: to find the best; the rest confirms it
constexpr int kFewestRounds = 3, kMostRounds = 40;
constexpr std::int64_t kColumns = 1024, kRows = 4096;
// Matrices of a format, together more than most caches hold.
struct Format {
  WeightFormat format;
  int matrices;
};
constexpr Format kFormats[] = {{WeightFormat::float32, 3},
                               {WeightFormat::bfloat16, 4},
                               {WeightFormat::int8, 8},
                               {WeightFormat::nf4, 12}};

WeightSpec matrix_of(WeightFormat format) {
  return {.name = "tuning",
          .rows = kRows,
          .columns = kColumns,
          .kind = WeightSpec::Kind::matrix,
          .format = format,
          .expanded = is_four_bit(format) ? WeightFormat::bfloat16 : WeightFormat::float32};
}

Plan plan_of_matrices() {
  Plan plan;
  plan.buffers = {{"in", kColumns}, {"out", kRows}};
  for (const Format& format : kFormats)
    for (int i = 0; i < format.matrices; ++i) {
      plan.ops.push_back({"tuning", Phase::linear,
                          LinearOp{.weight = static_cast<WeightId>(plan.weights.size()),
                                   .has_int8_inputs = is_four_bit(format.format),
                                   .in = 0,
                                   .out = 1}});
      plan.weights.push_back(matrix_of(format.format));
    }
  plan.head.product.weight = 0;
  plan.hidden = 1;
  plan.vocab = kRows;
  plan.context = 1;
  return plan;
}

// The matrix multiplications of a step, of weights that are all zero.
class Step {
 public:
  Step(const KernelTable& table, ThreadPool& pool) : packed_(plan_of_matrices(), table), tasks_(pool) {
    packed_.weights = lay_out_weights(packed_.specs());
    for (PackedWeight& w : packed_.weights) {
      w.data = AlignedBuffer(static_cast<std::size_t>(w.bytes), "weights to tune with");
      std::memset(w.data.data(), 0, w.data.size());  // memory that nothing was written to lies in the caches
    }
    work_.emplace(packed_, pool.size());
    work_->reserve();
    const std::vector<float> ones(kColumns, 1.0F);
    (*work_)[0].put_row(0, ones.data());
    linear_.emplace(packed_, tasks_, *work_);
  }
  // Seconds of each format.
  std::vector<double> run(const WeightFetch& fetch) {
    weight_fetch = fetch;
    std::vector<double> times;
    auto op = packed_.ops.begin();
    for (const Format& format : kFormats) {
      const TimePoint begin = Clock::now();
      for (int i = 0; i < format.matrices; ++i, ++op)
        linear_->run(std::get<LinearOp>(op->op->what), (*work_)[0], 1, {.out = (*work_)[1]});
      times.push_back(elapsed(begin, Clock::now()).value);
    }
    return times;
  }

 private:
  PackedPlan packed_;
  Tasks tasks_;
  std::optional<Workspace> work_;
  std::optional<Linear> linear_;
};

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// In turns until the time is over, three rounds at least.
std::vector<FetchTimes> measure(Step& step, std::span<const WeightFetch> candidates, TimePoint end) {
  std::vector<FetchTimes> times(candidates.size(), FetchTimes(std::size(kFormats)));
  TimePoint begin = Clock::now();
  for (int round = 0; round < kMostRounds; ++round) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const std::vector<double> of_formats = step.run(candidates[i]);
      for (std::size_t format = 0; format < of_formats.size(); ++format)
        times[i][format].push_back(of_formats[format]);
    }
    const TimePoint now = Clock::now();
    if (round + 1 >= kFewestRounds && now + (now - begin) > end) break;
    begin = now;
  }
  return times;
}

}  // namespace

// Zen 4, four streams, one row: 0.83 to 0.93 of the time of 2 KB ahead into the nearest cache. Intel's
// (Sapphire Rapids) were measured with the nearest cache alone.
WeightFetch usual_weight_fetch() {
  __builtin_cpu_init();
  return __builtin_cpu_is("amd") ? WeightFetch{1536, 6144, true} : WeightFetch{2048, 2048, false};
}

std::vector<WeightFetch> weight_fetch_candidates(const WeightFetch& usual) {
  std::vector<WeightFetch> candidates = {usual};
  for (const WeightFetch& one : {WeightFetch{512, 2048, false},
                                 {2048, 2048, false},
                                 {4096, 4096, false},
                                 {768, 3072, true},
                                 {1536, 6144, true},
                                 {3072, 12288, true}})
    if (one != usual) candidates.push_back(one);
  return candidates;
}

std::string text_of(const WeightFetch& fetch) {
  return fmt::format("{} bytes ahead into the {} cache", fetch.distance,
                     fetch.is_to_second_level ? "second-level" : "nearest");
}

double least_gain_over(const FetchTimes& usual, const FetchTimes& other) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t format = 0; format < usual.size(); ++format)
    least = std::min(least, median(usual[format]) / median(other[format]));
  return least;
}

double gain_over(const FetchTimes& usual, const FetchTimes& other) {
  double logarithms = 0;
  for (std::size_t format = 0; format < usual.size(); ++format) {
    const double gain = median(usual[format]) / median(other[format]);
    logarithms += std::log(gain);
  }
  return std::exp(logarithms / static_cast<double>(usual.size()));
}

std::size_t best_of(std::span<const FetchTimes> times) {
  std::size_t best = 0;
  double best_gain = kLeastGain;
  for (std::size_t i = 1; i < times.size(); ++i)
    if (const double gain = gain_over(times[0], times[i]); gain >= best_gain) {
      best_gain = gain;
      best = i;
    }
  return best;
}

bool is_better(const FetchTimes& usual_again, const FetchTimes& best_again) {
  return gain_over(usual_again, best_again) >= kLeastGain &&
         least_gain_over(usual_again, best_again) >= kMostLoss;
}

Tuning measure_tuning(const KernelTable& table, ThreadPool& pool, Seconds at_most, const WeightFetch& usual) {
  const TimePoint begin = Clock::now();
  const auto after = [&](double share) { return begin + duration_of(share * at_most.value); };
  const WeightFetch before = weight_fetch;
  Tuning tuning{.fetch = usual};
  try {
    Step step(table, pool);
    const std::vector<WeightFetch> candidates = weight_fetch_candidates(usual);
    step.run(usual);  // wakes the threads and their units
    const std::vector<double> once = step.run(usual);
    const double all =
        std::accumulate(once.begin(), once.end(), 0.0) * static_cast<double>(candidates.size());
    const bool is_in_time = Clock::now() + duration_of(kFewestRounds * all) < after(kFirstShare);
    if (is_in_time) {
      const std::vector<FetchTimes> times = measure(step, candidates, after(kFirstShare));
      tuning.is_measured = true;
      // The best of several is so by chance too: it must win again.
      if (const std::size_t best = best_of(times); best > 0) {
        const std::vector<WeightFetch> two = {usual, candidates[best]};
        const std::vector<FetchTimes> again = measure(step, two, after(1));
        if (is_better(again[0], again[1])) {
          tuning.fetch = candidates[best];
          tuning.gain = gain_over(again[0], again[1]);
        }
      }
    }
  } catch (const Error&) {  // no memory
  }
  weight_fetch = before;
  tuning.took = elapsed(begin, Clock::now());
  return tuning;
}

}  // namespace assay::cpu
