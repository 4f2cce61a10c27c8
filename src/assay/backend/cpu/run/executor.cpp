#include "assay/backend/cpu/run/executor.h"

#include <algorithm>

#include "assay/backend/common/exchange.h"
#include "assay/backend/cpu/lower/supported.h"
#include "assay/backend/cpu/memory/placement.h"
#include "assay/tensor/half.h"

namespace assay::cpu {

namespace {

MemoryReport memory_of(const PackedPlan& packed, const Workspace& work) {
  MemoryReport report;
  for (const PackedWeight& w : packed.weights) {
    report.packing = report.packing + w.slack();
    report.weights = report.weights + w.weight_bytes();
  }
  report.workspace = {work.bytes()};
  return report;
}

// Whether the weight is that of a product whose outputs go through a gate.
bool is_gated(const PackedPlan& packed, std::size_t weight) {
  return std::any_of(packed.ops.begin(), packed.ops.end(), [&](const FusedOp& fused) {
    const auto* linear = std::get_if<LinearOp>(&fused.op->kind);
    return linear != nullptr && fused.gate != nullptr && static_cast<std::size_t>(linear->weight) == weight;
  });
}

}  // namespace

NormArgs norm_args(const NormOp& op, const float* gain, const float* bias, const Buffer& in,
                   const Buffer& out) {
  return {.x = in.floats,
          .x_stride = in.stride,
          .gain = gain,
          .bias = bias,
          .epsilon = op.epsilon,
          .subtracts_mean = op.kind == Norm::layer,
          .y = out.floats,
          .y_stride = out.stride,
          .y_tiles = out.tiles,
          .first_tile_row = 0,
          .rows = 0,
          .n = in.columns};
}

PredictedMemory predicted_memory(const Plan& plan, const KernelTable& table, int threads,
                                 std::int64_t tokens) {
  PackedPlan packed(plan, table);
  packed.weights = lay_out_weights(packed.specs());
  const Workspace work(packed, threads);
  return {memory_of(packed, work), KvLayout(plan).bytes_of(tokens)};
}

Executor::Executor(const Plan& plan, const WeightSource& source, const KernelTable& table,
                   std::shared_ptr<ThreadPool> pool, const KernelConstants& constants)
    : packed_(plan, table, constants),
      pool_(std::move(pool)),
      tasks_(*pool_, constants.share_rows),
      kv_blocks_(std::make_shared<KvBlockPool>(KvLayout(packed_.plan))) {
  PlaceWeight place;
  if (pool_->nodes() > 1)
    place = [this](std::size_t i, PackedWeight& w) { touch_by_readers(w, is_gated(packed_, i), *pool_); };
  packed_.weights = pack_weights(packed_.specs(), source, *pool_, place);
  build();
}

void Executor::build() {
  normed_rows_.clear();
  candidates_.reset();
  pruner_.reset();
  attention_.reset();
  linear_.reset();
  work_.reset();
  work_.emplace(packed_, pool_->size());
  work_->reserve();
  linear_.emplace(packed_, tasks_, *work_);
  attention_.emplace(packed_, tasks_, *work_);
  pruner_.emplace(packed_, *work_);
  if (packed_.plan.has_candidate_search)
    candidates_ = std::make_unique<CandidateHead>(packed_, tasks_, *work_, *linear_);
}

void Executor::exchange(WeightId weight, const Plan& other, const WeightSource& source) {
  Plan next = exchanged_plan(plan(), weight, other);
  check_formats(next);
  check_planes(next, packed_.table, packed_.table.linear_origin);
  PlaceWeight place;
  if (pool_->nodes() > 1)
    place = [&](std::size_t, PackedWeight& w) {
      touch_by_readers(w, is_gated(packed_, static_cast<std::size_t>(weight)), *pool_);
    };
  PackedWeight packed = std::move(pack_weights({next.weight(weight)}, source, *pool_, place).front());
  packed_.swap_weight(next, weight, packed);
  try {
    build();
  } catch (...) {  // no memory for the activations of this format: those of the one before fitted
    packed_.swap_weight(next, weight, packed);
    build();
    throw;
  }
}

std::unique_ptr<KvCache> Executor::make_cache() {
  return std::make_unique<CpuKvCache>(kv_blocks_);
}

Bytes Executor::cache_bytes(std::int64_t length) const {
  return kv_blocks_->layout().bytes_of(length);
}

MemoryReport Executor::memory() const {
  return memory_of(packed_, *work_);
}

std::vector<std::span<const std::byte>> Executor::step_weights() const {
  std::vector<std::span<const std::byte>> regions;
  const auto add_region = [&](const PackedWeight& w) {
    regions.emplace_back(w.data.data(), static_cast<std::size_t>(w.bytes));
  };
  for (const Op& op : plan().ops)
    if (const auto* linear = std::get_if<LinearOp>(&op.kind)) add_region(packed_.weight(linear->weight));
  // Behind the plan's own weights lie the int8 codes in which candidates of the LM head are found.
  add_region(candidates_ ? packed_.weights.back() : packed_.head());
  return regions;
}

void Executor::begin_profile() {
  profile_ = StepProfile{};
  pool_->account_busy_time(true);
}

StepProfile Executor::end_profile() {
  pool_->account_busy_time(false);
  return std::exchange(profile_, std::nullopt).value_or(StepProfile{});
}

Executor::OpTimer::OpTimer(Executor& program, OpClass phase) : program_(program), phase_(phase) {
  if (!program.profile_) return;
  busy_ = program.pool_->busy_time();
  begin_ = Clock::now();
}

Executor::OpTimer::~OpTimer() {
  if (!program_.profile_) return;
  StepProfile::Part& part = program_.profile_->parts[static_cast<std::size_t>(phase_)];
  const Seconds time = elapsed(begin_, Clock::now());
  const double busy = (program_.pool_->busy_time() - busy_).value / program_.pool_->size();
  part.time = part.time + time;
  part.waiting = part.waiting + Seconds{std::max(0.0, time.value - busy)};
}

void Executor::run(const Batch& batch, KvCache& cache) {
  auto& kv = static_cast<CpuKvCache&>(cache);
  check_batch(batch, plan(), kv, kMaxRows);
  pruner_->hidden().begin();  // no hidden states until they are there
  normed_rows_.clear();
  for (const SequenceRows& s : batch.sequences) kv.grow(s.sequence, s.rows);
  const std::vector<RowRange> kept = observer_ ? std::vector<RowRange>() : pruner_->rows_to_keep(batch);
  std::vector<RowRange> all;
  for (const SequenceRows& s : batch.sequences) all.push_back({0, s.rows});
  auto rows = static_cast<std::int64_t>(batch.ids.size());
  attention_->begin(batch);
  for (const FusedOp& fused : packed_.ops) {
    if (rows == 0) break;
    const OpTimer timer(*this, fused.op->phase);
    const bool is_last_attention = fused.index == pruner_->attention() && !kept.empty();
    run_op(fused, rows, batch, kv, is_last_attention ? kept : all, kept);
    if (is_last_attention) rows = pruner_->keep(batch, kept);
  }
  pruner_->hidden().end(static_cast<std::int64_t>(batch.ids.size()));
}

void Executor::run_op(const FusedOp& fused, std::int64_t rows, const Batch& batch, CpuKvCache& cache,
                      std::span<const RowRange> attended, std::span<const RowRange> kept) {
  std::visit(Cases{[&](const EmbedOp& op) { embed(op, batch); },  //
                   [&](const NormOp& op) { norm(op, rows); },     //
                   [&](const LinearOp& op) { multiply(op, fused, rows, kept); },
                   [&](const RotaryOp& op) { attention_->rotate(op, rows); },
                   [&](const AttentionOp& op) { attention_->run(op, fused.rotary, batch, cache, attended); },
                   [&](const GatedOp& op) { gate(op, rows); },  //
                   [&](const AddOp& op) { add(op, rows); }},
             fused.op->kind);
}

void Executor::embed(const EmbedOp& op, const Batch& batch) {
  const Buffer& out = (*work_)[op.out];
  tasks_.run_rows(static_cast<std::int64_t>(batch.ids.size()), [&](std::int64_t first, std::int64_t rows) {
    for (std::int64_t row = first; row < first + rows; ++row) {
      float* x = out.floats + row * out.stride;
      if (op.tokens != kNone)
        packed_.weight(op.tokens).copy_row(batch.ids[static_cast<std::size_t>(row)], x);
      else
        std::fill_n(x, out.columns, 0.0F);
      if (op.scale != 1)
        for (std::int64_t i = 0; i < out.columns; ++i) x[i] *= op.scale;
      if (op.positions != kNone)
        packed_.weight(op.positions)
            .add_row(batch.positions[static_cast<std::size_t>(row)] + op.position_offset, x);
    }
    out.update_tiles(first, rows);
  });
}

void Executor::norm(const NormOp& op, std::int64_t rows) {
  if (packed_.norms_parts(op)) return norm_parts(op, rows);
  const NormArgs whole =
      norm_args(op, packed_.vector(op.gain), packed_.vector(op.bias), (*work_)[op.in], (*work_)[op.out]);
  tasks_.run_rows(rows, [&](std::int64_t first, std::int64_t count) {
    NormArgs part = whole;
    part.first_tile_row = first;
    part.x += first * part.x_stride;
    if (part.y != nullptr) part.y += first * part.y_stride;
    part.rows = count;
    packed_.table.norm(part);
  });
}

// The parts of a row lie side by side: they are the rows of a call.
void Executor::norm_parts(const NormOp& op, std::int64_t rows) {
  const Buffer &in = (*work_)[op.in], &out = (*work_)[op.out];
  NormArgs whole = norm_args(op, packed_.vector(op.gain), packed_.vector(op.bias), in, out);
  whole.n = whole.x_stride = whole.y_stride = packed_.weight_columns(op.gain);
  whole.rows = op.groups;
  whole.y_tiles = kNoTiles;
  tasks_.run_rows(rows, [&](std::int64_t first, std::int64_t count) {
    NormArgs part = whole;
    for (std::int64_t row = first; row < first + count; ++row) {
      part.x = in.floats + row * in.stride + op.column;
      part.y = out.floats + row * out.stride + op.column;
      packed_.table.norm(part);
    }
    out.update_tiles(first, count);
  });
}

void Executor::show_inputs(const LinearOp& op, const Buffer& in, std::int64_t rows) const {
  const std::int64_t columns = packed_.weight(op.weight).spec.columns;
  if (in.floats != nullptr) return observer_({op.weight, in.floats, rows, columns, in.stride});
  std::vector<float> floats(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t k = 0; k < columns; ++k)
      for (int plane = 0; plane < in.tiles.planes; ++plane)
        floats[static_cast<std::size_t>(row * columns + k)] +=
            bf16_to_float(in.tiles.plane(plane)[in.tiles.offset(row, k)]);
  observer_({op.weight, floats.data(), rows, columns, columns});
}

void Executor::multiply(const LinearOp& op, const FusedOp& fused, std::int64_t rows,
                        std::span<const RowRange> kept) {
  if (observer_) show_inputs(op, (*work_)[op.in], rows);
  const std::optional<NarrowPanels> queries = pruner_->queries_of(fused.index, kept);
  const Buffer& out = (*work_)[fused.gate == nullptr ? op.out : fused.gate->out];
  linear_->run(op, (*work_)[op.in], rows, {.out = out, .column = op.out_column, .gate = fused.gate},
               queries ? &*queries : nullptr);
}

void Executor::gate(const GatedOp& op, std::int64_t rows) {
  const Buffer &in = (*work_)[op.in], &out = (*work_)[op.out];
  tasks_.run_rows(rows, [&](std::int64_t first, std::int64_t count) {
    const float* x = in.floats + first * in.stride;
    packed_.table.gate({.gate = x,
                        .up = x + out.columns,
                        .x_stride = in.stride,
                        .activation = op.activation,
                        .is_rounded = out.is_rounded,
                        .y = out.floats == nullptr ? nullptr : out.floats + first * out.stride,
                        .y_stride = out.stride,
                        .y_tiles = out.tiles,
                        .first_tile_row = first,
                        .first_tile_column = 0,
                        .rows = count,
                        .n = out.columns});
  });
}

void Executor::add(const AddOp& op, std::int64_t rows) {
  const Buffer &in = (*work_)[op.in], &out = (*work_)[op.out];
  tasks_.run_rows(rows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t row = first; row < first + count; ++row)
      for (std::int64_t i = 0; i < out.columns; ++i)
        out.floats[row * out.stride + i] += op.scale * in.floats[row * in.stride + i];
    out.update_tiles(first, count);
  });
}

}  // namespace assay::cpu
