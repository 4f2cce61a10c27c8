// What the nodes of a greedy step take in its graph.
#include <utility>

#include "assay/backend/common/median.h"
#include "assay/backend/cuda/run/executor.h"
#include "assay/backend/cuda/run/node_times.h"
#include "assay/backend/cuda/run/recording.h"
#include "assay/plan/operation_groups.h"

namespace assay::cuda {

namespace {

// A position more of each sequence of a batch, as long as it lives.
class GrownSequences {
 public:
  GrownSequences(CudaKvCache& cache, const Batch& batch) : cache_(cache), batch_(batch) {
    for (const SequenceRows& s : batch.sequences) lengths_.push_back(cache.length(s.sequence));
    try {
      for (const SequenceRows& s : batch.sequences) cache.grow(s.sequence, 1);
    } catch (...) {
      truncate();
      throw;
    }
  }
  GrownSequences(const GrownSequences&) = delete;
  GrownSequences& operator=(const GrownSequences&) = delete;
  ~GrownSequences() { truncate(); }

 private:
  void truncate() {
    for (std::size_t i = 0; i < lengths_.size(); ++i)
      cache_.truncate(batch_.sequences[i].sequence, lengths_[i]);
  }

  CudaKvCache& cache_;
  const Batch& batch_;
  std::vector<std::int64_t> lengths_;
};

// A step's graph beside others of the same step with more launches.
class StepGraphs {
 public:
  // `prepare` puts what a step begins with, `record` makes a graph of it.
  StepGraphs(Runtime& runtime, int rounds, std::function<void()> prepare,
             std::function<std::unique_ptr<Graph>()> record)
      : runtime_(runtime),
        rounds_(rounds),
        prepare_(std::move(prepare)),
        record_(std::move(record)),
        plain_(record_()) {}

  // All is queued in front of what is waited for, so that the device never waits for the host between the
  // events around a graph.
  Seconds difference(StepRecorder& recorder, const std::vector<StepRecorder::Repeat>& repeats) {
    recorder.repeat(repeats);
    const std::unique_ptr<Graph> more = record_();
    begin(*plain_);
    begin(*more);
    std::vector<std::pair<Span, Span>> rounds;
    for (int i = 0; i < rounds_; ++i) {
      const Span plain = begin(*plain_);
      rounds.emplace_back(plain, begin(*more));
    }
    runtime_.synchronize();
    std::vector<double> differences;
    for (const auto& [plain, with_more] : rounds) {
      plain_times_.push_back(seconds_of(plain));
      differences.push_back(seconds_of(with_more) - plain_times_.back());
    }
    return {median_of(std::move(differences))};
  }
  Seconds step() const { return {plain_times_.empty() ? 0 : median_of(plain_times_)}; }

 private:
  struct Span {
    std::uint64_t begin = 0, end = 0;
  };
  Span begin(Graph& graph) {
    prepare_();
    Span span{.begin = runtime_.record()};
    runtime_.replay(graph);
    span.end = runtime_.record();
    return span;
  }
  double seconds_of(const Span& span) { return runtime_.between(span.begin, span.end).value; }

  Runtime& runtime_;
  int rounds_;
  std::function<void()> prepare_;
  std::function<std::unique_ptr<Graph>()> record_;
  std::unique_ptr<Graph> plain_;
  std::vector<double> plain_times_;
};

// The launches of a step, each counted to its part.
GraphProfile profile_by_differences(const Plan& plan, const StepRecorder& recorder,
                                    const StepDifference& difference) {
  GraphProfile profile{.operations = std::vector<GraphProfile::Part>(plan.ops.size() + 1)};
  const auto kind_of = [&](std::size_t part) {
    return part < plan.ops.size()
               ? std::to_string(plan.ops[part].kind.index()) + without_layer(plan.ops[part].name)
               : std::to_string(part);
  };
  // A multiplication of LLM.int8() reads the list of outliers that its own inputs have left.
  const bool is_apart = plan.weight(plan.head.product.weight).format != formats::kLlmInt8;
  const std::size_t apart = is_apart ? plan.ops.size() : kNoPart;
  for (const NodeGroup& group : node_groups(recorder.launches(), kind_of, apart)) {
    const Seconds one = node_time(group, difference);
    for (const std::size_t launch : group.launches) {
      const std::size_t part = recorder.launches()[launch].part;
      GraphProfile::Part& to = part <= plan.ops.size() ? profile.operations[part] : profile.choice;
      ++to.nodes;
      to.time = to.time + one;
    }
  }
  return profile;
}

// Has another value as long as this lives.
template <typename T>
class Exchanged {
 public:
  Exchanged(T& place, T value) : place_(place), before_(std::exchange(place, std::move(value))) {}
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;
  ~Exchanged() { place_ = std::move(before_); }

 private:
  T& place_;
  T before_;
};

}  // namespace

void CudaProgram::begins(std::size_t part) {
  if (recorder_ != nullptr) recorder_->begins(part);
}

// Repeats leave other numbers in activations and in the new position of the cache, which nobody reads
// afterwards, and indices as they are: only the last node moves positions on, and `prepare` puts them back. A
// repeat may read early what the launch in front adds to (Around::adds_early): a number again.
std::optional<GraphProfile> CudaProgram::profile_graph(const Batch& batch, KvCache& cache) {
  if (!options_.uses_graphs || !can_run_greedily()) return std::nullopt;
  auto& kv = static_cast<CudaKvCache&>(cache);
  check_batch(batch, plan_, kv, kMaxRows);
  hidden_.begin();
  held_ = 0;
  const GrownSequences grown(kv, batch);
  const Step step = begin(batch, kv, 0);
  if (!step.is_decode) return std::nullopt;
  std::vector<std::int64_t> seen(work_.layout().seen_at > 0 ? 2 : 0);
  const auto seen_at = work_.at<std::int64_t>(work_.layout().seen_at);
  if (!seen.empty()) download<std::int64_t>(seen, seen_at);
  const auto prepare = [&] {
    begin(batch, kv, 0);
    cuda::run(*runtime_, embedding(*first_embedding(), step.rows));
    runtime_->fill(work_.at<std::byte>(work_.layout().made_at), 0, kMaxRows * 4);
  };
  const auto make = [&] {
    Step own = step;
    run_ops(own, 1);
    choose_next(own.rows);
  };
  prepare();
  make();  // kernels are loaded when they first run, which cannot be recorded
  const auto recorder = std::make_shared<StepRecorder>(runtime_);
  StepGraphs graphs(*runtime_, options_.graph_rounds, prepare, [&] {
    const Exchanged<std::shared_ptr<Runtime>> launches_by(runtime_, recorder);
    const Exchanged<StepRecorder*> tells(recorder_, recorder.get());
    Recording recording(*recorder);
    make();
    return recording.end();
  });
  GraphProfile profile = profile_by_differences(
      plan_, *recorder, [&](const auto& repeats) { return graphs.difference(*recorder, repeats); });
  profile.step = graphs.step();
  if (!seen.empty()) upload<std::int64_t>(seen_at, seen);
  return profile;
}

}  // namespace assay::cuda
