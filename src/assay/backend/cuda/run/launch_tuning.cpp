#include "assay/backend/cuda/run/launch_tuning.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "assay/backend/common/median.h"
#include "assay/backend/cuda/run/recording.h"
#include "assay/base/error.h"

namespace assay::cuda {

namespace {

constexpr double kLeastGain = 1.03, kHopeless = 1.5;
constexpr int kLaunchRounds = 7;

class GraphTimer final : public LaunchTimer {
 public:
  explicit GraphTimer(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}

  Seconds now() override { return elapsed(begin_, Clock::now()); }
  Seconds time_of(const TunedProduct& product, const LaunchChoice& choice) override {
    if (product_ != product.key) graphs_.clear();
    product_ = product.key;
    Graph& graph = graph_of(product, choice);
    const std::uint64_t begin = runtime_->record();
    runtime_->replay(graph);
    const std::uint64_t end = runtime_->record();
    runtime_->synchronize();
    return runtime_->between(begin, end);
  }

 private:
  Graph& graph_of(const TunedProduct& product, const LaunchChoice& choice) {
    for (const auto& [made_for, graph] : graphs_)
      if (made_for == choice) return *graph;
    const auto launch_all = [&] {
      for (const auto& one : product.launches) one(choice);
    };
    launch_all();  // kernels are loaded when they first run, which cannot be recorded
    Recording recording(*runtime_);
    launch_all();
    graphs_.emplace_back(choice, recording.end());
    runtime_->replay(*graphs_.back().second);
    return *graphs_.back().second;
  }

  std::shared_ptr<Runtime> runtime_;
  const TimePoint begin_ = Clock::now();
  ProductKey product_;
  std::vector<std::pair<LaunchChoice, std::unique_ptr<Graph>>> graphs_;
};

struct Candidate {
  LaunchChoice choice;
  std::vector<double> times = {};
  bool has_failed = false;

  double median() const {
    if (has_failed || times.empty()) return std::numeric_limits<double>::infinity();
    return median_of(times);
  }
};

class Measuring {
 public:
  Measuring(LaunchTimer& timer, Seconds at_most) : timer_(timer), end_(timer.now().value + at_most.value) {}

  MeasuredChoice of(const TunedProduct& product) {
    std::vector<Candidate> all;
    for (const LaunchChoice& choice : product.candidates) all.push_back({choice});
    if (!run(product, all)) return {.is_measured = false};
    const auto best = std::min_element(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
      return a.median() < b.median();
    });
    if (best == all.begin() || gain(all.front(), *best) < kLeastGain) return {};
    // The best of several is so by chance too: it must win again.
    std::vector<Candidate> two{{all.front().choice}, {best->choice}};
    if (!run(product, two)) return {.is_measured = false};
    const double again = gain(two[0], two[1]);
    return again < kLeastGain ? MeasuredChoice() : MeasuredChoice{.choice = best->choice, .gain = again};
  }

 private:
  static double gain(const Candidate& first, const Candidate& other) {
    return first.median() / other.median();
  }
  // False where the time is over, or the rule itself does not run.
  bool run(const TunedProduct& product, std::vector<Candidate>& all) {
    double least = std::numeric_limits<double>::infinity();
    for (int round = 0; round < kLaunchRounds; ++round) {
      for (Candidate& one : all) {
        const bool is_rule = &one == &all.front();
        if (one.has_failed || (!is_rule && round > 0 && one.times.front() > kHopeless * least)) continue;
        if (timer_.now().value >= end_) return false;
        try {
          one.times.push_back(timer_.time_of(product, one.choice).value);
        } catch (const DeviceFault&) {
          throw;
        } catch (const Error&) {
          if (is_rule) return false;
          one.has_failed = true;
          continue;
        }
        least = std::min(least, one.times.back());
      }
    }
    return true;
  }

  LaunchTimer& timer_;
  double end_;
};

}  // namespace

std::unique_ptr<LaunchTimer> make_graph_timer(std::shared_ptr<Runtime> runtime) {
  return std::make_unique<GraphTimer>(std::move(runtime));
}

LaunchChoices measure_launches(std::span<const TunedProduct> products, LaunchTimer& timer, Seconds at_most) {
  Measuring measuring(timer, at_most);
  LaunchChoices found;
  for (const TunedProduct& product : products) found.put(product.key, measuring.of(product));
  return found;
}

}  // namespace assay::cuda
