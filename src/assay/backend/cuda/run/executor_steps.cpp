// Decode steps: recorded once, then replayed; greedy ones without the host between them; and what each took.
#include <algorithm>
#include <bit>

#include "assay/backend/cuda/kernels/step_kernels.h"
#include "assay/backend/cuda/run/executor.h"
#include "assay/backend/cuda/run/recording.h"

namespace assay::cuda {

namespace {

constexpr std::size_t kMaxGraphs = 64;

}  // namespace

std::int64_t recorded_length(std::int64_t longest, std::int64_t context) {
  std::uint64_t chunks = 1;
  while (static_cast<std::int64_t>(chunks) * kChunkKeys < longest)
    chunks += std::max<std::uint64_t>(1, std::bit_floor(chunks) / 2);
  return std::min(static_cast<std::int64_t>(chunks) * kChunkKeys, round_up(context, kChunkKeys));
}

// What is recorded has run before: kernels are loaded when they first run, and loading cannot be recorded.
void CudaProgram::run_or_replay(const GraphKey& key, const std::function<void()>& work) {
  const auto found = graphs_.find(key);
  if (found != graphs_.end() && !profile_) return runtime_->replay(*found->second);
  work();
  if (found != graphs_.end() || !options_.uses_graphs) return;
  if (graphs_.size() >= kMaxGraphs) graphs_.clear();
  is_recording_ = true;
  try {
    Recording recording(*runtime_);
    work();
    graphs_[key] = recording.end();
  } catch (...) {
    is_recording_ = false;
    throw;
  }
  is_recording_ = false;
}

void CudaProgram::run_greedily(const Batch& batch, KvCache& cache, std::int64_t steps,
                               std::span<TokenId> chosen, const std::function<void()>& after_each) {
  auto& kv = static_cast<CudaKvCache&>(cache);
  check_batch(batch, plan_, kv, kMaxRows, steps);
  hidden_.begin();
  held_ = 0;
  for (const SequenceRows& s : batch.sequences) kv.grow(s.sequence, steps);
  const Step first = begin(batch, kv, steps - 1);
  const auto rows = static_cast<std::size_t>(first.rows);
  std::int64_t longest = 0;
  for (const SequenceRows& s : batch.sequences)
    longest = std::max(longest, kv.length(s.sequence) - steps - s.first_key + 1);
  // Each step embeds what the next one begins with; the first is embedded here.
  cuda::run(*runtime_, embedding(*first_embedding(), first.rows));
  const auto made_at = work_.at<std::byte>(work_.layout().made_at);
  runtime_->fill(made_at, 0, kMaxRows * 4);
  std::vector<std::int32_t> tokens(rows * kQueuedSteps);
  for (std::int64_t made = 0; made < steps; ++made) {
    Step step = first;
    step.longest = recorded_length(longest + made, plan_.context);
    run_or_replay({.is_greedy = true, .rows = step.rows, .longest = step.longest}, [&] {
      Step own = step;
      run_ops(own, 1);
      choose_next(own.rows);
    });
    after_each();
    const std::int64_t held = made % kQueuedSteps + 1;
    if (held < kQueuedSteps && made + 1 < steps) continue;
    download<std::int32_t>(tokens, work_.at<std::int32_t>(work_.layout().tokens_at));
    for (std::int64_t i = 0; i < held; ++i)
      for (std::size_t row = 0; row < rows; ++row)
        chosen[static_cast<std::size_t>(made + 1 - held + i) * rows + row] =
            tokens[row * kQueuedSteps + static_cast<std::size_t>(i)];
    runtime_->fill(made_at, 0, kMaxRows * 4);
  }
}

// That a step can begin with what the step before it has embedded.
const EmbedOp* CudaProgram::first_embedding() const {
  return plan_.ops.empty() ? nullptr : std::get_if<EmbedOp>(&plan_.ops.front().kind);
}

// The LM head of all rows of a decode step, and what the next step begins with.
void CudaProgram::choose_next(std::int64_t rows) {
  const WorkspaceLayout& layout = work_.layout();
  const Buffer logits = work_.logits();
  const auto keys = work_.at<std::uint64_t>(layout.best_keys_at);
  for (std::int64_t first = 0; first < rows; first += kHeadRows) {
    const std::int64_t count = std::min(kHeadRows, rows - first);
    begins(plan_.ops.size());
    run_head(rows <= kFewRows ? DevicePointer<std::int32_t>()
                              : work_.at<std::int32_t>(layout.every_row_at) + first,
             count);
    begins(plan_.ops.size() + 2);
    cuda::run(*runtime_, BestKeyArgs{.x = logits.data,
                                     .x_stride = logits.stride,
                                     .rows = count,
                                     .n = plan_.vocab,
                                     .keys = keys + first});
  }
  cuda::run(*runtime_, NextTokenArgs{.keys = keys,
                                     .ids = work_.rows(kIds),
                                     .positions = work_.rows(kPositions),
                                     .angles = work_.rows(kAngles),
                                     .key = work_.rows(kKeys),
                                     .last_position = static_cast<std::int32_t>(plan_.context - 1),
                                     .tokens = work_.at<std::int32_t>(layout.tokens_at),
                                     .count = work_.at<std::int32_t>(layout.made_at),
                                     .token_stride = kQueuedSteps,
                                     .embed = embedding(*first_embedding(), rows)});
}

// Angles of the positions of this step's rows, whatever they are when it runs.
void CudaProgram::gather_rotary_tables(std::int64_t rows) {
  for (const RotaryTable& table : work_.layout().rotary_tables)
    cuda::run(*runtime_, GatherArgs{.x = work_.at<float>(table.all_cosines_at),
                                    .x_stride = table.pairs,
                                    .row_of = work_.rows(table.has_long() ? kAngles : kPositions),
                                    .out = work_.at<float>(table.cosines_at),
                                    .out_stride = table.pairs,
                                    .rows = rows,
                                    .n = table.pairs,
                                    .other_x = work_.at<float>(table.all_sines_at),
                                    .other_out = work_.at<float>(table.sines_at)});
}

void CudaProgram::begin_profile() {
  profile_ = StepProfile{};
  profile_->operations.resize(plan_.ops.size() + 1);
}

void CudaProgram::begin_marks() {
  marks_.clear();
  if (profile_ && !is_recording_) marks_.push_back({.point = runtime_->record()});
}

void CudaProgram::mark(OpClass phase, std::size_t op) {
  if (profile_ && !is_recording_) marks_.push_back({.phase = phase, .op = op, .point = runtime_->record()});
}

// The device's own times between marks; what it waited for the host counts to the operation that follows.
void CudaProgram::add_marks() {
  if (!profile_ || is_recording_) return;
  runtime_->synchronize();
  for (std::size_t i = 1; i < marks_.size(); ++i) {
    const Seconds time = runtime_->between(marks_[i - 1].point, marks_[i].point);
    StepProfile::Part& part = profile_->parts[static_cast<std::size_t>(marks_[i].phase)];
    part.time = part.time + time;
    Seconds& own = profile_->operations[marks_[i].op];
    own = own + time;
  }
}

}  // namespace assay::cuda
