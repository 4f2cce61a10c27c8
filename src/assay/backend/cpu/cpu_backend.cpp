#include "assay/backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cassert>

#include "assay/backend/cpu/select.h"
#include "assay/base/error.h"

namespace assay::cpu {

namespace {

constexpr std::int64_t kMaxRows =
    512;  // of one run: bounds the workspace, and weights are read once per 512 tokens
constexpr std::int64_t kHeadRows = 32;  // logits held at once
constexpr std::int64_t kNormRows = 8;   // rows a thread takes at a time
constexpr std::int64_t kAttendChunk = 48;

struct AttendTask {
  const SequenceRows* rows;
  std::int64_t past;
  int head;
  std::int64_t first, count;  // within the sequence's new rows
};

class CpuProgram : public Program {
 public:
  CpuProgram(const Plan& plan, const WeightSource& source, const KernelTable& table,
             std::shared_ptr<ThreadPool> pool);

  const Plan& plan() const override { return plan_; }
  std::unique_ptr<KvCache> make_cache() override {
    return std::make_unique<CpuKvCache>(plan_.layers, plan_.kv_heads, plan_.head_dim);
  }
  void run(const Batch& batch, KvCache& cache) override;
  void head(std::span<const std::int64_t> rows, const HeadSink& sink) override;
  std::int64_t max_rows() const override { return kMaxRows; }
  MemoryReport memory() const override;

 private:
  void check(const Batch& batch, const CpuKvCache& cache) const;
  void plan_attention(const Batch& batch, const CpuKvCache& cache, int heads);
  void apply(const EmbedOp& op, const Batch& batch);
  void apply(const NormOp& op, std::int64_t rows);
  void apply(const LinearOp& op, std::int64_t rows);
  void apply(const AttentionOp& op, const Batch& batch, CpuKvCache& cache);
  void store_keys_and_values(const AttentionOp& op, const Batch& batch, CpuKvCache& cache);
  void head_logits(std::span<const std::int64_t> rows, float* logits);
  void drain(std::span<const std::int64_t> rows, std::int64_t first, const HeadSink& sink);

  const PackedWeight& weight(WeightId id) const { return weights_[static_cast<std::size_t>(id)]; }
  const float* vector(WeightId id) const { return id == kNone ? nullptr : weight(id).data.floats(); }
  float* buffer(BufferId id) { return buffers_[static_cast<std::size_t>(id)].floats(); }
  std::int64_t width(BufferId id) const { return plan_.buffers[static_cast<std::size_t>(id)].columns; }
  void run_linear(LinearArgs args, std::int64_t panels);

  Plan plan_;
  KernelTable table_;
  std::shared_ptr<ThreadPool> pool_;
  std::vector<PackedWeight> weights_;
  std::vector<AlignedBuffer> buffers_;
  AlignedBuffer head_normed_, logits_;
  std::int64_t hidden_rows_ = 0;
  std::vector<AttendTask> attend_tasks_;
};

CpuProgram::CpuProgram(const Plan& plan, const WeightSource& source, const KernelTable& table,
                       std::shared_ptr<ThreadPool> pool)
    : plan_(plan), table_(table), pool_(std::move(pool)) {
  for (const WeightSpec& spec : plan_.weights) weights_.push_back(pack_weight(spec, source, *pool_));
  for (const BufferSpec& spec : plan_.buffers)
    buffers_.emplace_back(static_cast<std::size_t>(spec.columns * kMaxRows) * sizeof(float),
                          spec.name.c_str());
  head_normed_ =
      AlignedBuffer(static_cast<std::size_t>(width(plan_.hidden) * kHeadRows) * sizeof(float), "the head");
  logits_ = AlignedBuffer(static_cast<std::size_t>(plan_.vocab * kHeadRows) * sizeof(float), "the logits");
}

MemoryReport CpuProgram::memory() const {
  MemoryReport report;
  for (const PackedWeight& w : weights_) {
    report.packing = report.packing + w.slack();
    report.weights.value += static_cast<std::int64_t>(w.data.size()) - w.slack().value;
  }
  for (const AlignedBuffer& b : buffers_) report.workspace.value += static_cast<std::int64_t>(b.size());
  report.workspace.value += static_cast<std::int64_t>(head_normed_.size() + logits_.size());
  return report;
}

void CpuProgram::check(const Batch& batch, const CpuKvCache& cache) const {
  if (static_cast<std::int64_t>(batch.ids.size()) > kMaxRows)
    throw Error("a batch of {} tokens was given; at most {} fit one step", batch.ids.size(), kMaxRows);
  assert(batch.positions.size() == batch.ids.size());
  for (const TokenId id : batch.ids)
    if (id < 0 || id >= plan_.vocab)
      throw Error("token id {} is outside the model's vocabulary of {}", id, plan_.vocab);
  for (const std::int32_t position : batch.positions)
    if (position < 0 || position >= plan_.context)
      throw Error("position {} is outside the model's context of {} tokens", position, plan_.context);
  for (const SequenceRows& rows : batch.sequences)
    if (cache.length(rows.sequence) + rows.rows > plan_.context)
      throw Error("{} tokens exceed the model's context of {}", cache.length(rows.sequence) + rows.rows,
                  plan_.context);
}

void CpuProgram::run(const Batch& batch, KvCache& cache) {
  auto& kv = static_cast<CpuKvCache&>(cache);
  check(batch, kv);
  const auto rows = static_cast<std::int64_t>(batch.ids.size());
  for (const SequenceRows& s : batch.sequences) kv.grow(s.sequence, s.rows);
  int planned_heads = 0;
  for (const Op& op : plan_.ops) {
    if (const auto* embed = std::get_if<EmbedOp>(&op.what)) apply(*embed, batch);
    if (const auto* norm = std::get_if<NormOp>(&op.what)) apply(*norm, rows);
    if (const auto* linear = std::get_if<LinearOp>(&op.what)) apply(*linear, rows);
    if (const auto* attention = std::get_if<AttentionOp>(&op.what)) {
      if (planned_heads != attention->heads) plan_attention(batch, kv, planned_heads = attention->heads);
      apply(*attention, batch, kv);
    }
  }
  hidden_rows_ = rows;
}

// Rows of every head in chunks, the longest first for each sequence, so that threads end together.
void CpuProgram::plan_attention(const Batch& batch, const CpuKvCache& cache, int heads) {
  attend_tasks_.clear();
  for (const SequenceRows& s : batch.sequences) {
    const std::int64_t past = cache.length(s.sequence) - s.rows;
    for (std::int64_t first = (s.rows - 1) / kAttendChunk * kAttendChunk; first >= 0; first -= kAttendChunk)
      for (int head = 0; head < heads; ++head)
        attend_tasks_.push_back({&s, past, head, first, std::min(kAttendChunk, s.rows - first)});
  }
}

void CpuProgram::apply(const EmbedOp& op, const Batch& batch) {
  const PackedWeight& tokens = weight(op.tokens);
  const std::int64_t columns = width(op.out);
  float* out = buffer(op.out);
  pool_->run(
      static_cast<std::int64_t>((batch.ids.size() + kNormRows - 1) / kNormRows), [&](std::int64_t chunk) {
        const auto end = std::min(static_cast<std::int64_t>(batch.ids.size()), (chunk + 1) * kNormRows);
        for (std::int64_t row = chunk * kNormRows; row < end; ++row) {
          float* x = out + row * columns;
          tokens.copy_row(batch.ids[static_cast<std::size_t>(row)], x);
          if (op.positions == kNone) continue;
          weight(op.positions)
              .add_row(batch.positions[static_cast<std::size_t>(row)] + op.position_offset, x);
        }
      });
}

void CpuProgram::apply(const NormOp& op, std::int64_t rows) {
  const std::int64_t columns = width(op.in);
  const NormArgs whole{.x = buffer(op.in),
                       .x_stride = columns,
                       .gain = vector(op.gain),
                       .bias = vector(op.bias),
                       .epsilon = op.epsilon,
                       .subtracts_mean = op.kind == Norm::layer,
                       .y = buffer(op.out),
                       .y_stride = columns,
                       .rows = rows,
                       .n = columns};
  pool_->run((rows + kNormRows - 1) / kNormRows, [&](std::int64_t chunk) {
    NormArgs part = whole;
    part.x += chunk * kNormRows * columns;
    part.y += chunk * kNormRows * columns;
    part.rows = std::min(kNormRows, rows - chunk * kNormRows);
    table_.norm(part);
  });
}

void CpuProgram::run_linear(LinearArgs args, std::int64_t panels) {
  pool_->run((panels + kGroup - 1) / kGroup, [&](std::int64_t group) {
    LinearArgs part = args;
    part.first_panel = group * kGroup;
    part.panels = std::min<std::int64_t>(kGroup, panels - part.first_panel);
    table_.linear(part);
  });
}

void CpuProgram::apply(const LinearOp& op, std::int64_t rows) {
  const PackedWeight& w = weight(op.weight);
  run_linear({.x = buffer(op.in),
              .x_stride = width(op.in),
              .rows = rows,
              .k = w.spec.columns,
              .w = w.data.data(),
              .is_bfloat16 = w.element_bytes() == 2,
              .bias = vector(op.bias),
              .activation = op.activation,
              .adds = op.adds_to_output,
              .y = buffer(op.out),
              .y_stride = width(op.out),
              .n = w.spec.rows,
              .first_panel = 0,
              .panels = 0},
             w.panels);
}

void CpuProgram::store_keys_and_values(const AttentionOp& op, const Batch& batch, CpuKvCache& cache) {
  const std::int64_t columns = width(op.qkv), dim = op.head_dim;
  const auto tasks = static_cast<std::int64_t>(batch.sequences.size()) * op.kv_heads;
  pool_->run(tasks, [&](std::int64_t task) {
    const SequenceRows& s = batch.sequences[static_cast<std::size_t>(task / op.kv_heads)];
    const auto head = static_cast<int>(task % op.kv_heads);
    const std::int64_t past = cache.length(s.sequence) - s.rows;
    for (std::int64_t row = 0; row < s.rows; ++row) {
      const float* k = buffer(op.qkv) + (s.first_row + row) * columns + (op.heads + head) * dim;
      const float* v = k + op.kv_heads * dim;
      float* block = cache.block(s.sequence, past + row);
      float* keys = block + cache.k_offset(op.layer, head) + (past + row) % kKvBlock;
      for (std::int64_t i = 0; i < dim; ++i) keys[i * kKvBlock] = k[i];
      std::copy(v, v + dim,
                block + cache.v_offset(op.layer, head) + (past + row) % kKvBlock * cache.padded());
    }
  });
}

void CpuProgram::apply(const AttentionOp& op, const Batch& batch, CpuKvCache& cache) {
  store_keys_and_values(op, batch, cache);
  const std::int64_t columns = width(op.qkv), out_columns = width(op.out);
  pool_->run(static_cast<std::int64_t>(attend_tasks_.size()), [&](std::int64_t index) {
    const AttendTask& task = attend_tasks_[static_cast<std::size_t>(index)];
    const int kv_head = task.head / (op.heads / op.kv_heads);
    for (std::int64_t first = task.first; first < task.first + task.count; first += kAttendRows) {
      const std::int64_t row = task.rows->first_row + first;
      table_.attend({.q = buffer(op.qkv) + row * columns + task.head * op.head_dim,
                     .q_stride = columns,
                     .rows = std::min(kAttendRows, task.first + task.count - first),
                     .first_position = task.past + first,
                     .first_key = task.rows->first_key,
                     .window = op.window,
                     .head_dim = op.head_dim,
                     .padded = cache.padded(),
                     .scale = op.scale,
                     .blocks = cache.blocks(task.rows->sequence),
                     .k_offset = cache.k_offset(op.layer, kv_head),
                     .v_offset = cache.v_offset(op.layer, kv_head),
                     .out = buffer(op.out) + row * out_columns + task.head * op.head_dim,
                     .out_stride = out_columns});
    }
  });
}

void CpuProgram::head_logits(std::span<const std::int64_t> rows, float* logits) {
  const auto& norm = std::get<NormOp>(plan_.head_norm.what);
  const auto& linear = std::get<LinearOp>(plan_.head.what);
  const PackedWeight& w = weight(linear.weight);
  const std::int64_t columns = width(plan_.hidden);
  const auto count = static_cast<std::int64_t>(rows.size());
  for (std::int64_t i = 0; i < count; ++i) {
    assert(rows[static_cast<std::size_t>(i)] < hidden_rows_);
    table_.norm({.x = buffer(plan_.hidden) + rows[static_cast<std::size_t>(i)] * columns,
                 .x_stride = columns,
                 .gain = vector(norm.gain),
                 .bias = vector(norm.bias),
                 .epsilon = norm.epsilon,
                 .subtracts_mean = norm.kind == Norm::layer,
                 .y = head_normed_.floats() + i * columns,
                 .y_stride = columns,
                 .rows = 1,
                 .n = columns});
  }
  run_linear({.x = head_normed_.floats(),
              .x_stride = columns,
              .rows = count,
              .k = columns,
              .w = w.data.data(),
              .is_bfloat16 = w.element_bytes() == 2,
              .bias = vector(linear.bias),
              .activation = Activation::none,
              .adds = false,
              .y = logits,
              .y_stride = plan_.vocab,
              .n = plan_.vocab,
              .first_panel = 0,
              .panels = 0},
             w.panels);
}

void CpuProgram::head(std::span<const std::int64_t> rows, const HeadSink& sink) {
  for (std::size_t first = 0; first < rows.size(); first += kHeadRows) {
    const auto part = rows.subspan(first, std::min<std::size_t>(kHeadRows, rows.size() - first));
    if (const auto* full = std::get_if<LogitsSink>(&sink)) {
      head_logits(part, full->logits.data() + static_cast<std::int64_t>(first) * plan_.vocab);
      continue;
    }
    head_logits(part, logits_.floats());
    drain(part, static_cast<std::int64_t>(first), sink);
  }
}

// Reduces the held logits, a row per chunk of work: the result does not depend on the number of threads.
void CpuProgram::drain(std::span<const std::int64_t> rows, std::int64_t first, const HeadSink& sink) {
  pool_->run(static_cast<std::int64_t>(rows.size()), [&](std::int64_t i) {
    const float* x = logits_.floats() + i * plan_.vocab;
    const auto at = static_cast<std::size_t>(first + i);
    if (const auto* best = std::get_if<ArgmaxSink>(&sink))
      best->ids[at] = static_cast<TokenId>(table_.argmax(x, plan_.vocab));
    if (const auto* score = std::get_if<LogProbabilitySink>(&sink))
      score->log_probabilities[at] =
          static_cast<double>(x[score->targets[at]]) - table_.log_sum_exp(x, plan_.vocab);
  });
}

}  // namespace

CpuBackend::CpuBackend(const BackendOptions& options)
    : isa_(options.is_isa_forced ? options.isa : best_usable_isa()),
      table_(select_kernels(isa_)),
      pool_(std::make_shared<ThreadPool>(options.threads == 0 ? default_thread_count() : options.threads)) {}

std::unique_ptr<Program> CpuBackend::prepare(const Plan& plan, const WeightSource& source) {
  assert(plan.head_dim <= kMaxHeadDim);
  return std::make_unique<CpuProgram>(plan, source, table_, pool_);
}

}  // namespace assay::cpu
