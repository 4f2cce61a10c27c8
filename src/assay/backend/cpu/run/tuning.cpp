#include "assay/backend/cpu/run/tuning.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>

#include "assay/backend/common/median.h"
#include "assay/backend/cpu/run/linear.h"
#include "assay/base/cpu.h"
#include "assay/base/error.h"
#include "assay/base/memory.h"

namespace assay::cpu {

namespace {

constexpr double kMinGain = 1.03, kMaxLoss = 0.99;
// Threads that wait for each other do not sleep meanwhile: what they lack of the time others had. (Alone 0.94
// to 1, beside one other program 0.54.)
constexpr double kMinOwnShare = 0.85;
// Shares of the time: to measure each choice; of that, to find the best, while the rest confirms it.
constexpr double kShares[] = {0.45, 0.25, 0.3}, kFirstShare = 0.7;
constexpr int kMinRounds = 3, kMaxRounds = 40;
constexpr std::int64_t kColumns = 1024, kRows = 4096, kSide = 768;
// Matrices of a format, together more than most caches hold.
struct Format {
  WeightFormat format;
  int matrices;
};
constexpr Format kFormats[] = {
    {formats::kFloat32, 3}, {formats::kBfloat16, 4}, {formats::kInt8, 8}, {formats::kNf4, 12}};
constexpr Format kGroupedFormats[] = {{formats::kQ4K, 12}, {formats::kQ8_0, 6}};
// For many rows: pairs of square matrices, so that a thread reads the rows that it has written.
constexpr WeightFormat kManyRowsFormats[] = {formats::kBfloat16, formats::kInt8};

enum Buffers : BufferId { kIn, kOut, kLeft, kRight };

class Matrices {
 public:
  void add(WeightFormat format, std::int64_t rows, std::int64_t columns, BufferId in, BufferId out) {
    plan_.ops.push_back({"tuning", OpClass::linear,
                         LinearOp{.weight = static_cast<WeightId>(plan_.weights.size()),
                                  .has_int8_activations = is_four_bit(format) || holds_stored_scales(format),
                                  .in = in,
                                  .out = out}});
    plan_.weights.push_back({.name = "tuning",
                             .rows = rows,
                             .columns = columns,
                             .kind = WeightSpec::Kind::matrix,
                             .format = format,
                             .arithmetic = arithmetic_of(format),
                             .is_stored_quantized = holds_stored_scales(format)});
  }
  void add_many(std::span<const Format> formats) {
    for (const Format& format : formats)
      for (int i = 0; i < format.matrices; ++i) add(format.format, kRows, kColumns, kIn, kOut);
  }
  Plan plan() {
    plan_.buffers = {{"in", kColumns}, {"out", kRows}, {"left", kSide}, {"right", kSide}};
    plan_.head.product.weight = 0;
    plan_.hidden = kOut;
    plan_.vocab = kRows;
    plan_.context = 1;
    return std::move(plan_);
  }

 private:
  static MatmulArithmetic arithmetic_of(const WeightFormat& format) {
    if (holds_stored_scales(format)) return {Multiply::bfloat16, ActivationType::int8_per_group};
    return {is_four_bit(format) ? Multiply::bfloat16 : Multiply::float32};
  }
  Plan plan_;
};

Plan plan_of_matrices() {
  Matrices matrices;
  matrices.add_many(kFormats);
  matrices.add_many(kGroupedFormats);
  for (const WeightFormat format : kManyRowsFormats) {
    matrices.add(format, kSide, kSide, kLeft, kRight);
    matrices.add(format, kSide, kSide, kRight, kLeft);
  }
  return matrices.plan();
}

// Matrix multiplications, by weights that are all zero.
class Work {
 public:
  Work(const KernelTable& table, ThreadPool& pool) : packed_(plan_of_matrices(), table), tasks_(pool) {
    packed_.weights = lay_out_weights(packed_.specs());
    work_.emplace(packed_, pool.size());
    std::int64_t bytes = work_->bytes();
    for (const PackedWeight& w : packed_.weights) bytes += w.bytes;
    require_memory({2 * bytes}, "tuning");  // and as much left for others
    for (PackedWeight& w : packed_.weights)
      w.data = AlignedBuffer(static_cast<std::size_t>(w.bytes), "weights to tune with");
    // Memory that nothing was written to lies in the caches.
    pool.run(static_cast<std::int64_t>(packed_.weights.size()), [&](std::int64_t i) {
      AlignedBuffer& data = packed_.weights[static_cast<std::size_t>(i)].data;
      std::memset(data.data(), 0, data.size());
    });
    work_->reserve();
    const std::vector<float> ones(kColumns, 1.0F);
    (*work_)[kIn].put_row(0, ones.data());
    linear_.emplace(packed_, tasks_, *work_);
    next_ = packed_.ops.begin();
  }
  // Seconds of each format.
  std::vector<double> run(Choice choice, const KernelConstants& constants) {
    packed_.fetch = constants.fetch;
    packed_.grouped_fetch = constants.grouped_fetch;
    tasks_.set_share_rows(constants.share_rows);
    std::vector<double> times;
    next_ = packed_.ops.begin();
    const auto run_or_pass = [&](Choice own, std::span<const Format> formats) {
      for (const Format& format : formats) {
        if (choice == own)
          times.push_back(run_some(format.matrices, 1));
        else
          next_ += format.matrices;
      }
    };
    run_or_pass(Choice::fetch, kFormats);
    run_or_pass(Choice::grouped_fetch, kGroupedFormats);
    if (choice == Choice::share_rows) {
      for (std::size_t i = 0; i < std::size(kManyRowsFormats); ++i) times.push_back(run_some(2, kMaxRows));
    }
    return times;
  }

 private:
  double run_some(int count, std::int64_t rows) {
    const TimePoint begin = Clock::now();
    for (int i = 0; i < count; ++i, ++next_) {
      const auto& op = std::get<LinearOp>(next_->op->kind);
      linear_->run(op, (*work_)[op.in], rows, {.out = (*work_)[op.out]});
    }
    return elapsed(begin, Clock::now()).value;
  }

  PackedPlan packed_;
  Tasks tasks_;
  std::optional<Workspace> work_;
  std::optional<Linear> linear_;
  std::vector<FusedOp>::const_iterator next_;
};

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::int64_t shares_of(std::int64_t rows, int threads) {
  return std::min<std::int64_t>(kMaxRows / rows, threads);
}

// In turns until the time is over, three rounds at least.
std::vector<CandidateTimes> measure(Work& work, Choice choice, std::span<const KernelConstants> candidates,
                                    TimePoint end) {
  std::vector<CandidateTimes> times(candidates.size());
  TimePoint begin = Clock::now();
  for (int round = 0; round < kMaxRounds; ++round) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const std::vector<double> of_formats = work.run(choice, candidates[i]);
      times[i].resize(of_formats.size());
      for (std::size_t format = 0; format < of_formats.size(); ++format)
        times[i][format].push_back(of_formats[format]);
    }
    const TimePoint now = Clock::now();
    if (round + 1 >= kMinRounds && now + (now - begin) > end) break;
    begin = now;
  }
  return times;
}

struct Chosen {
  KernelConstants constants;
  double gain = 1;
  bool is_measured = false;
};

Chosen choose(Work& work, Choice choice, const std::vector<KernelConstants>& candidates, Seconds at_most) {
  const TimePoint begin = Clock::now();
  const auto after = [&](double share) { return begin + duration_of(share * at_most.value); };
  Chosen chosen{candidates.front()};
  work.run(choice, candidates.front());  // wakes the threads and their units
  const std::vector<double> once = work.run(choice, candidates.front());
  const double all = std::accumulate(once.begin(), once.end(), 0.0) * static_cast<double>(candidates.size());
  const double confirmed = 2 * all / static_cast<double>(candidates.size());
  const TimePoint now = Clock::now();
  if (now + duration_of(kMinRounds * all) >= after(kFirstShare) ||
      now + duration_of(kMinRounds * (all + confirmed)) >= after(1))
    return chosen;
  chosen.is_measured = true;
  const std::vector<CandidateTimes> times = measure(work, choice, candidates, after(kFirstShare));
  // The best of several is so by chance too: it must win again.
  const std::size_t best = best_of(times);
  if (best == 0) return chosen;
  const std::vector<KernelConstants> two = {candidates.front(), candidates[best]};
  const std::vector<CandidateTimes> again = measure(work, choice, two, after(1));
  if (!is_better(again[0], again[1])) return chosen;
  chosen.constants = candidates[best];
  chosen.gain = gain_over(again[0], again[1]);
  return chosen;
}

}  // namespace

std::vector<KernelConstants> candidates_of(Choice choice, const KernelConstants& now, int threads) {
  constexpr WeightFetch kFetches[] = {{512, 2048, false}, {2048, 2048, false}, {4096, 4096, false},
                                      {768, 3072, true},  {1536, 6144, true},  {3072, 12288, true}};
  std::vector<KernelConstants> candidates = {now};
  const auto add = [&](KernelConstants one) {
    if (one != now) candidates.push_back(one);
  };
  switch (choice) {
    case Choice::fetch:
      for (const WeightFetch& fetch : kFetches) add({fetch, now.grouped_fetch, now.share_rows});
      break;
    case Choice::grouped_fetch:
      for (const WeightFetch& fetch : kFetches) add({now.fetch, fetch, now.share_rows});
      break;
    case Choice::share_rows:
      // Shares are no more than threads.
      for (const std::int64_t rows : {128, 256, 512})
        if (shares_of(rows, threads) == kMaxRows / rows &&
            shares_of(rows, threads) != shares_of(now.share_rows, threads))
          add({now.fetch, now.grouped_fetch, rows});
      break;
  }
  return candidates;
}

double least_gain_over(const CandidateTimes& first, const CandidateTimes& other) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t format = 0; format < first.size(); ++format)
    least = std::min(least, median_of(first[format]) / median_of(other[format]));
  return least;
}

double gain_over(const CandidateTimes& first, const CandidateTimes& other) {
  double logarithms = 0;
  for (std::size_t format = 0; format < first.size(); ++format) {
    const double gain = median_of(first[format]) / median_of(other[format]);
    logarithms += std::log(gain);
  }
  return std::exp(logarithms / static_cast<double>(first.size()));
}

std::size_t best_of(std::span<const CandidateTimes> times) {
  std::size_t best = 0;
  double best_gain = kMinGain;
  for (std::size_t i = 1; i < times.size(); ++i)
    if (const double gain = gain_over(times[0], times[i]); gain >= best_gain) {
      best_gain = gain;
      best = i;
    }
  return best;
}

bool is_better(const CandidateTimes& first_again, const CandidateTimes& best_again) {
  return gain_over(first_again, best_again) >= kMinGain &&
         least_gain_over(first_again, best_again) >= kMaxLoss;
}

Tuning measure_tuning(const KernelTable& table, ThreadPool& pool, Seconds at_most,
                      const KernelConstants& usual) {
  const TimePoint begin = Clock::now();
  Tuning tuning{.constants = usual};
  if (at_most.value <= 0) return tuning;
  try {
    Work work(table, pool);
    const TimePoint start = Clock::now();
    const double used_s = processor_seconds();
    for (std::size_t i = 0; i < std::size(kChoices); ++i) {
      const std::vector<KernelConstants> candidates =
          candidates_of(kChoices[i], tuning.constants, pool.size());
      if (candidates.size() < 2) continue;
      const Chosen chosen = choose(work, kChoices[i], candidates, {kShares[i] * at_most.value});
      tuning.constants = chosen.constants;
      (kChoices[i] == Choice::share_rows      ? tuning.many_rows_gain
       : kChoices[i] == Choice::grouped_fetch ? tuning.grouped_gain
                                              : tuning.gain) *= chosen.gain;
      if (kChoices[i] == Choice::fetch) tuning.is_measured = chosen.is_measured;
    }
    const auto processors = std::min(static_cast<std::size_t>(pool.size()), allowed_processors().size());
    const double own_share = (processor_seconds() - used_s) /
                             (elapsed(start, Clock::now()).value * static_cast<double>(processors));
    if (tuning.is_measured && own_share < kMinOwnShare) tuning = {.constants = usual, .is_disturbed = true};
  } catch (const Error&) {  // no memory
  } catch (const std::bad_alloc&) {
  }
  tuning.took = elapsed(begin, Clock::now());
  return tuning;
}

}  // namespace assay::cpu
