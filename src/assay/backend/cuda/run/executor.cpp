#include "assay/backend/cuda/run/executor.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "assay/backend/common/exchange.h"
#include "assay/base/error.h"

namespace assay::cuda {

namespace {

// Before any of it is taken.
const Plan& checked(const Plan& plan, Runtime& runtime, const GemmWays& ways) {
  check_supported(plan, runtime.facts());
  const std::int64_t needed = WeightLayout(plan).bytes + WorkspaceLayout(plan, runtime.facts(), ways).bytes,
                     free = runtime.memory_info().free.value;
  if (needed > free)
    throw Error(
        "not enough GPU memory for the weights and the activations: {:.0f} MiB needed, {:.0f} MiB free",
        Bytes{needed}.megabytes(), Bytes{free}.megabytes());
  return plan;
}

}  // namespace

CudaProgram::CudaProgram(const Plan& plan, const WeightSource& source, std::shared_ptr<Runtime> runtime,
                         const CudaOptions& options, std::shared_ptr<LaunchChoices> launches)
    : plan_(checked(plan, *runtime, gemm_ways(*runtime, options.gemm, options.forced_gemm))),
      pruning_(pruning_of(plan_)),
      runtime_(std::move(runtime)),
      options_(options),
      launches_(launches != nullptr ? std::move(launches) : std::make_shared<LaunchChoices>()),
      ways_(gemm_ways(*runtime_, options.gemm, options.forced_gemm)),
      weights_(plan_, source, runtime_),
      work_(plan_, runtime_, ways_),
      neighbours_(neighbours_of(plan_, work_.layout())),
      pages_(std::make_shared<PagePool>(runtime_, cache_layout_of(plan_))) {
  put_constants();
}

void CudaProgram::exchange(WeightId weight, const Plan& other, const WeightSource& source) {
  Plan next = exchanged_plan(plan_, weight, other);
  check_supported(next, runtime_->facts());
  const auto check_inputs = [&](const LinearOp& linear) {
    if (linear.weight == weight && (linear.static_input || !linear.input_factors.empty()))
      throw Error("weight '{}': the CUDA backend does not exchange weights for those with calibrated inputs",
                  next.weight(weight).name);
  };
  for (const Op& op : next.ops)
    if (const auto* linear = std::get_if<LinearOp>(&op.kind)) check_inputs(*linear);
  check_inputs(next.head.product);
  Workspace work(next, runtime_, options_.gemm);
  weights_.exchange(weight, next.weight(weight), source, runtime_);
  plan_ = std::move(next);  // whose operations stay where they are, and the workspace knows them
  work_ = std::move(work);
  neighbours_ = neighbours_of(plan_, work_.layout());
  graphs_.clear();
  put_pages_.clear();
  kept_.clear();
  hidden_.begin();
  held_ = 0;
  put_constants();
}

// What of the workspace no step writes, or a step adds to.
void CudaProgram::put_constants() {
  const WorkspaceLayout& layout = work_.layout();
  runtime_->fill(work_.at<std::byte>(layout.best_keys_at), 0, kMaxRows * 8);
  if (layout.counters_bytes > 0)
    runtime_->fill(work_.at<std::byte>(layout.counters_at), 0, layout.counters_bytes);
  if (layout.seen_at > 0) runtime_->fill(work_.at<std::byte>(layout.seen_at), 0, 16);
  std::vector<std::int32_t> every_row(kMaxRows);
  std::iota(every_row.begin(), every_row.end(), 0);
  upload<std::int32_t>(work_.at<std::int32_t>(layout.every_row_at), every_row);
  for (const RotaryTable& table : layout.rotary_tables) {
    put_angles(table, table.op->frequencies, 0);
    if (table.has_long()) put_angles(table, table.op->long_frequencies, plan_.context);
  }
}

// On the host, whose cosines are those of the CPU backend; some positions at a time.
void CudaProgram::put_angles(const RotaryTable& table, const std::vector<float>& frequencies,
                             std::int64_t first_row) {
  constexpr std::int64_t kAtOnce = 4096;
  std::vector<float> cosines, sines;
  for (std::int64_t first = 0; first < plan_.context; first += kAtOnce) {
    cosines.clear();
    sines.clear();
    for (std::int64_t position = first; position < std::min(first + kAtOnce, plan_.context); ++position)
      for (const float frequency : frequencies) {
        // In float32, as Transformers has it; cosine and sine of exactly that.
        const auto angle = static_cast<double>(static_cast<float>(position) * frequency);
        cosines.push_back(static_cast<float>(std::cos(angle)) * table.op->amplitude);
        sines.push_back(static_cast<float>(std::sin(angle)) * table.op->amplitude);
      }
    const std::int64_t at = (first_row + first) * table.pairs;
    upload<float>(work_.at<float>(table.all_cosines_at) + at, cosines);
    upload<float>(work_.at<float>(table.all_sines_at) + at, sines);
  }
}

MemoryReport CudaProgram::memory() const {
  return memory_of(weights_.layout(), work_.layout());
}

double CudaProgram::outlier_share() const {
  if (work_.layout().seen_at == 0) return 0;
  std::int64_t seen[2] = {};
  download<std::int64_t>(seen, work_.at<std::int64_t>(work_.layout().seen_at));
  return seen[1] == 0 ? 0 : static_cast<double>(seen[0]) / static_cast<double>(seen[1]);
}

void CudaProgram::require_memory(Bytes needed, std::string_view purpose) const {
  const Bytes left = runtime_->memory_info().free + pages_->free_bytes();
  if (needed > left)
    throw Error("not enough GPU memory for {}: {:.0f} MiB needed, {:.0f} MiB free", purpose,
                needed.megabytes(), left.megabytes());
}

void CudaProgram::run(const Batch& batch, KvCache& cache) {
  auto& kv = static_cast<CudaKvCache&>(cache);
  check_batch(batch, plan_, kv, kMaxRows);
  hidden_.begin();  // no hidden states until they are there
  held_ = 0;
  for (const SequenceRows& s : batch.sequences) kv.grow(s.sequence, s.rows);
  Step step = begin(batch, kv, 0);
  if (step.is_decode)
    run_or_replay({.is_greedy = false, .rows = step.rows, .longest = step.longest}, [&] { run_ops(step); });
  else
    run_ops(step);
  if (step.is_pruned) hidden_.keep(kept_);
  hidden_.end(step.all_rows);
}

void CudaProgram::run_ops(Step& step, std::size_t first) {
  begin_marks();
  begins(plan_.ops.size() + 1);
  gather_rotary_tables(step.rows);
  for (std::size_t i = first; i < plan_.ops.size() && step.rows > 0; ++i) {
    begins(i);
    run_op(i, step);
    mark(plan_.ops[i].phase, i);
  }
  add_marks();
}

// What the device must know of the rows. The cache has grown already, by `more_steps` rows of each sequence
// beside those of the batch.
CudaProgram::Step CudaProgram::begin(const Batch& batch, const CudaKvCache& cache, std::int64_t more_steps) {
  const auto rows = static_cast<std::int64_t>(batch.ids.size());
  Step step{.rows = rows, .all_rows = rows, .sequences = static_cast<std::int64_t>(batch.sequences.size())};
  std::vector<std::int32_t> facts(static_cast<std::size_t>(kRowFacts * kMaxRows));
  const auto fact = [&](RowFact which, std::int64_t row) -> std::int32_t& {
    return facts[static_cast<std::size_t>(which * kMaxRows + row)];
  };
  for (std::int64_t row = 0; row < rows; ++row) {
    fact(kIds, row) = batch.ids[static_cast<std::size_t>(row)];
    fact(kPositions, row) = batch.positions[static_cast<std::size_t>(row)];
  }
  std::vector<PagePool::Page> pages;
  const std::int64_t switch_at = work_.layout().rotary_switch();
  for (const SequenceRows& s : batch.sequences) {
    const bool is_long = switch_at > 0 && batch.extent_of(s) > switch_at;
    for (std::int64_t row = s.first_row; row < s.first_row + s.rows; ++row)
      fact(kAngles, row) = fact(kPositions, row) + static_cast<std::int32_t>(is_long ? plan_.context : 0);
    const std::int64_t past = cache.length(s.sequence) - s.rows - more_steps;
    for (std::int64_t i = 0; i < s.rows; ++i) {
      // Padding is not kept: a padded sequence gives the bits of an unpadded one.
      const std::int64_t key = past + i - s.first_key;
      fact(kKeys, s.first_row + i) = key < 0 ? -1 : static_cast<std::int32_t>(key);
      fact(kFirstPages, s.first_row + i) = static_cast<std::int32_t>(pages.size());
      step.longest = std::max(step.longest, key + 1);
    }
    pages.insert(pages.end(), cache.pages(s.sequence).begin(), cache.pages(s.sequence).end());
  }
  kept_.clear();
  const bool prunes = !batch.wants_all && !observer_ && pruning_.attention < plan_.ops.size() &&
                      static_cast<std::int64_t>(batch.wanted.size()) < rows;
  if (prunes) kept_ = batch.wanted;
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const auto to = static_cast<std::int64_t>(i);
    fact(kKept, to) = static_cast<std::int32_t>(kept_[i]);
    fact(kKeptKeys, to) = fact(kKeys, kept_[i]);
    fact(kKeptFirstPages, to) = fact(kFirstPages, kept_[i]);
  }
  step.is_pruned = prunes;
  const bool wants_all = batch.wants_all || static_cast<std::int64_t>(batch.wanted.size()) == rows;
  step.is_decode = wants_all && !observer_ && static_cast<std::int64_t>(batch.sequences.size()) == rows;
  if (step.is_decode) step.longest = recorded_length(step.longest, plan_.context);
  upload<std::int32_t>(work_.rows(kIds), facts);
  put_pages(pages);
  return step;
}

// The table of pages lies where it always does: a graph need not know that a sequence has another.
void CudaProgram::put_pages(const std::vector<PagePool::Page>& pages) {
  const auto is_same = [](PagePool::Page a, PagePool::Page b) { return a.address == b.address; };
  if (std::equal(pages.begin(), pages.end(), put_pages_.begin(), put_pages_.end(), is_same)) return;
  if (static_cast<std::int64_t>(pages.size()) > work_.layout().most_pages)
    throw Error("the sequences of a batch have {} pages of keys and values; at most {} were expected",
                pages.size(), work_.layout().most_pages);
  put_pages_.clear();  // unless the upload fails
  upload<PagePool::Page>(work_.at<PagePool::Page>(work_.layout().pages_at), pages);
  put_pages_ = pages;
}

}  // namespace assay::cuda
