#include "assay/machine/machine_rooflines.h"

#include <algorithm>

#include "assay/base/error.h"
#include "assay/machine/machine.h"

namespace assay {

namespace {

// The best of at least two short windows: what other programs took of the others is not the machine's limit.
template <typename Probe>
double best_rate(Seconds time, const Probe& probe) {
  const Seconds window{time.value / 5};
  const TimePoint begin = Clock::now();
  double best = probe(window);
  do best = std::max(best, probe(window));
  while (elapsed(begin, Clock::now()) < time);
  return best;
}

class RooflineRun {
 public:
  explicit RooflineRun(const RooflineOptions& options) : options_(options) {
    peaks_.threads = options.threads == 0 ? default_thread_count() : options.threads;
  }

  MachineRooflines run() {
    measure(1);
    if (peaks_.threads > 1) measure(peaks_.threads);
    return std::move(peaks_);
  }

 private:
  void measure(int threads) {
    ThreadPool pool(threads);
    for (const Bytes working_set : options_.working_sets) {
      if (working_set.value > memory_at_hand() / 4) {
        if (threads == 1) peaks_.skipped.push_back(working_set);
        continue;
      }
      begin_case(fmt::format("reading {:.0f} MiB", working_set.megabytes()), threads);
      ReadProbe probe(working_set, pool);
      for (const int streams : {1, 4})
        peaks_.reads.push_back({working_set, threads, streams, best_rate(options_.each, [&](Seconds window) {
                                  return probe.bytes_per_second(streams, window);
                                })});
    }
    for (const ProductKind kind : kAllProducts) {
      begin_case(std::string(name_of(kind)), threads);
      const std::string why_not = why_not_usable(kind).value_or("");
      const auto probe = [&](Seconds window) { return operations_per_second(kind, pool, window); };
      peaks_.products.push_back(
          {kind, threads, why_not.empty() ? best_rate(options_.each, probe) : 0, why_not});
    }
    peaks_.phase_round_trip = phase_round_trip(pool);
  }

  void begin_case(const std::string& name, int threads) {
    if (options_.should_stop && options_.should_stop()) throw Error("interrupted");
    if (options_.on_progress) options_.on_progress(fmt::format("{}, {} thread(s)", name, threads));
  }

  std::int64_t memory_at_hand() {
    if (options_.memory_at_hand.value != 0) return options_.memory_at_hand.value;
    if (memory_at_hand_ == 0) {
      const Machine machine = read_machine();
      memory_at_hand_ =
          machine.memory_available.value > 0 ? machine.memory_available.value : machine.memory.value;
      if (machine.cgroup_memory_limit.value > 0)
        memory_at_hand_ = std::min(memory_at_hand_, machine.cgroup_memory_limit.value);
    }
    return memory_at_hand_;
  }

  const RooflineOptions& options_;
  MachineRooflines peaks_;
  std::int64_t memory_at_hand_ = 0;
};

}  // namespace

MachineRooflines measure_rooflines(const RooflineOptions& options) {
  return RooflineRun(options).run();
}

}  // namespace assay
