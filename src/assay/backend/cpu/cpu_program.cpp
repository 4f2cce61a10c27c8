#include "assay/backend/cpu/cpu_program.h"

#include <cassert>

#include "assay/base/error.h"
#include "assay/tensor/half.h"

namespace assay::cpu {

namespace {

// Panels a thread takes at a time, of many rows: they share the rows while these are near.
constexpr std::int64_t kManyRowsPanels = 4 * kGroup, kFewestManyRowsPanels = 2 * kGroup;
// Of products on the vector units, which go best by sixes.
constexpr std::int64_t kManyVectorPanels = 12;
constexpr std::int64_t kBlockUnit = 2 * kTileRows;

// Floats from a row to the next: whole cache lines, and no multiple of 4 KB, at which all rows would share a
// few sets of the nearest cache.
std::int64_t row_stride(std::int64_t columns) {
  constexpr std::int64_t kLine = 16, kAlias = 1024;
  const std::int64_t whole = round_up(columns, kLine);
  return whole % kAlias == 0 ? whole + kLine : whole;
}

// Of the inputs and the weights of a tile product.
int planes_for(const PackedWeight& w) {
  return w.packing() == Packing::bfloat16 ? w.planes() : 1;
}

NormArgs norm_args(const NormOp& op, const float* gain, const float* bias, const Buffer& in, Buffer& out) {
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

// The same tiles from a row on.
Tiles tiles_from(Tiles tiles, std::int64_t row) {
  if (tiles.data != nullptr) tiles.data += tiles.offset(row, 0);
  return tiles;
}

}  // namespace

LinearArgs rows_of(LinearArgs args, std::int64_t first, std::int64_t count) {
  args.rows = count;
  if (args.x != nullptr) args.x += first * args.x_stride;
  args.x_tiles = tiles_from(args.x_tiles, first);
  if (args.y != nullptr) args.y += first * args.y_stride;
  args.y_tiles = tiles_from(args.y_tiles, first);
  return args;
}

LinearArgs part_of(const LinearArgs& whole, const ProductPart& part) {
  LinearArgs args = rows_of(whole, part.rows.first, part.rows.size());
  args.first_panel = part.first_panel;
  args.panels = part.panels;
  return args;
}

std::int64_t panels_of_task(std::int64_t panels, int threads, std::int64_t most) {
  std::int64_t best = 0, best_time = 0;
  for (std::int64_t size = most; size >= kFewestManyRowsPanels; size -= 2) {
    const std::int64_t tasks = (panels + size - 1) / size, time = (tasks + threads - 1) / threads * size;
    if (best == 0 || time < best_time) {
      best = size;
      best_time = time;
    }
  }
  return best;
}

RowShares row_shares(std::int64_t rows, int threads) {
  const std::int64_t count = std::clamp<std::int64_t>((rows + kShareRows / 2) / kShareRows, 1,
                                                      std::min<std::int64_t>(threads, kMaxShares));
  return {rows, count, round_up((rows + count - 1) / count, kBlockUnit)};
}

std::int64_t in_regions(std::int64_t task, std::int64_t tasks, int threads) {
  const std::int64_t region = task % threads;
  return region * (tasks / threads) + std::min(region, tasks % threads) + task / threads;
}

namespace {

// The plan's, and the codes of a head that is screened.
std::vector<WeightSpec> all_specs(const Plan& plan) {
  std::vector<WeightSpec> specs = plan.weights;
  if (!plan.screens_head) return specs;
  WeightSpec codes = specs[static_cast<std::size_t>(std::get<LinearOp>(plan.head.what).weight)];
  codes.format = WeightFormat::int8;
  codes.is_table_too = false;
  codes.allows_non_finite = true;  // no bound is found then, and the head computed as ever
  specs.push_back(std::move(codes));
  return specs;
}

}  // namespace

CpuProgram::CpuProgram(const Plan& plan, const WeightSource& source, const KernelTable& table,
                       std::shared_ptr<ThreadPool> pool)
    : plan_(plan),
      table_(table),
      pool_(std::move(pool)),
      expanded_in_use_(static_cast<std::size_t>(pool_->size())) {
  weights_ = pack_weights(all_specs(plan_), source, *pool_);
  fold_zero_points();
  if (plan_.screens_head) measure_screen();
  make_buffers();
  arena_.reserve();
  make_buffers();
  find_tail();
}

CpuProgram::CpuProgram(const Plan& plan, const KernelTable& table, std::shared_ptr<ThreadPool> pool)
    : plan_(plan),
      table_(table),
      pool_(std::move(pool)),
      weights_(lay_out_weights(all_specs(plan))),
      expanded_in_use_(static_cast<std::size_t>(pool_->size())) {
  make_buffers();
}

bool CpuProgram::rounds_inputs(const LinearOp& op) const {
  const PackedWeight& w = weight(op.weight);
  if (w.packing() == Packing::int8)
    // Beside a bfloat16 cache nothing repeats another library's arithmetic to the last bit.
    return w.spec.format == WeightFormat::int8 && !op.has_tensor_scale &&
           (!op.static_input || plan_.kv_format == KvFormat::bfloat16);
  return multiplies_tiles(w) && planes_for(w) == 1;
}

bool CpuProgram::quantizes_tiles(const LinearOp& op) const {
  const PackedWeight& w = weight(op.weight);
  return table_.uses_tiles && w.packing() == Packing::int8 && rounds_inputs(op) &&
         plan_.kv_format == KvFormat::bfloat16 && w.spec.columns <= kMaxTileInputs;
}

void CpuProgram::make_buffers() {
  // What only tile products read is kept in tiles alone.
  std::vector<int> planes(plan_.buffers.size());
  std::vector<bool> has_floats(plan_.buffers.size()), has_fine_reader(plan_.buffers.size()),
      is_product(plan_.buffers.size());
  has_floats[static_cast<std::size_t>(plan_.hidden)] = true;
  has_fine_reader[static_cast<std::size_t>(plan_.hidden)] = true;
  for (const Op& op : plan_.ops) {
    if (const auto* norm = std::get_if<NormOp>(&op.what))
      has_floats[static_cast<std::size_t>(norm->in)] = has_fine_reader[static_cast<std::size_t>(norm->in)] =
          true;
    if (const auto* attention = std::get_if<AttentionOp>(&op.what)) {
      // Queries, keys and values go to tile products as they come out of one.
      const auto qkv = static_cast<std::size_t>(attention->qkv);
      if (table_.uses_tiles && plan_.kv_format == KvFormat::bfloat16 &&
          attention->head_dim % kTileColumns == 0)
        planes[qkv] = 1;
      else
        has_floats[qkv] = true;
    }
    if (const auto* linear = std::get_if<LinearOp>(&op.what)) {
      const auto in = static_cast<std::size_t>(linear->in);
      if (!rounds_inputs(*linear)) has_fine_reader[in] = true;
      if (multiplies_tiles(weight(linear->weight)))
        planes[in] = std::max(planes[in], planes_for(weight(linear->weight)));
      else if (is_product[in] && quantizes_tiles(*linear))
        planes[in] = std::max(planes[in], 1);  // half the bytes, which stay near until they are quantized
      else
        has_floats[in] = true;
      is_product[static_cast<std::size_t>(linear->out)] = !linear->adds_to_output;
    }
  }
  buffers_.clear();
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i)
    buffers_.push_back(make_buffer(plan_.buffers[i].columns, kMaxRows, has_floats[i], planes[i]));
  // Only what a product of int8 or bfloat16 alone reads, as the activations within an MLP are.
  for (const Op& op : plan_.ops)
    if (const auto* linear = std::get_if<LinearOp>(&op.what))
      buffer(linear->in).is_rounded = !has_fine_reader[static_cast<std::size_t>(linear->in)];
  const PackedWeight& head = weight(std::get<LinearOp>(plan_.head.what).weight);
  const int head_planes = multiplies_tiles(head) ? planes_for(head) : 0;
  head_normed_ =
      make_buffer(width(plan_.hidden), kHeadRows, head_planes == 0 || plan_.screens_head, head_planes);
  logits_ = make_buffer(plan_.vocab, kHeadRows, true, 0);
  make_quantized_buffers();
}

Buffer CpuProgram::make_buffer(std::int64_t columns, std::int64_t rows, bool has_floats, int planes) {
  Buffer buffer;
  buffer.columns = columns;
  buffer.stride = row_stride(columns);
  if (has_floats) buffer.floats = reinterpret_cast<float*>(arena_.take(buffer.stride * rows * 4));
  if (planes > 0) {
    // 16 rows more: tiles may begin at any row, and strips must not lie 4 KB apart.
    const std::int64_t padded = round_up(columns, kTileColumns),
                       capacity = round_up(rows, kTileRows) + kTileRows;
    auto* data = reinterpret_cast<std::uint16_t*>(arena_.take(capacity * padded * planes * 2));
    buffer.tiles = {data, capacity, padded, planes};
  }
  return buffer;
}

MemoryReport CpuProgram::memory() const {
  MemoryReport report;
  for (const PackedWeight& w : weights_) {
    report.packing = report.packing + w.slack();
    report.weights = report.weights + w.weight_bytes();
  }
  report.workspace = {arena_.size()};
  return report;
}

std::vector<std::span<const std::byte>> CpuProgram::step_weights() const {
  std::vector<std::span<const std::byte>> regions;
  const auto add = [&](const PackedWeight& w) {
    regions.emplace_back(w.data.data(), static_cast<std::size_t>(w.bytes));
  };
  for (const Op& op : plan_.ops)
    if (const auto* linear = std::get_if<LinearOp>(&op.what)) add(weight(linear->weight));
  // Behind the plan's own weights lie the codes by which a head is screened.
  add(plan_.screens_head ? weights_.back() : weight(std::get<LinearOp>(plan_.head.what).weight));
  return regions;
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
  hidden_rows_ = 0;  // until they are there
  keeps_all_ = true;
  for (const SequenceRows& s : batch.sequences) kv.grow(s.sequence, s.rows);
  const std::vector<RowRange> kept = rows_to_keep(batch);
  std::vector<RowRange> all;
  for (const SequenceRows& s : batch.sequences) all.push_back({0, s.rows});
  auto rows = static_cast<std::int64_t>(batch.ids.size());
  int planned_heads = 0;
  for (std::size_t i = 0; i < plan_.ops.size() && rows > 0; ++i) {
    const Op& op = plan_.ops[i];
    const PhaseTimer timer(*this, op.phase);
    if (const auto* embed = std::get_if<EmbedOp>(&op.what)) apply(*embed, batch);
    if (const auto* norm = std::get_if<NormOp>(&op.what)) apply(*norm, rows);
    if (const auto* linear = std::get_if<LinearOp>(&op.what))
      apply(*linear, rows, queries_to_compute(i, kept));
    if (const auto* attention = std::get_if<AttentionOp>(&op.what)) {
      const bool is_narrower = i == tail_ && !kept.empty();
      if (is_narrower || planned_heads != attention->heads)
        plan_attention(batch, kv, planned_heads = attention->heads, is_narrower ? kept : all);
      apply(*attention, batch, kv);
      if (is_narrower) rows = keep_rows(batch, kept);
    }
  }
  hidden_rows_ = static_cast<std::int64_t>(batch.ids.size());
}

void CpuProgram::apply(const EmbedOp& op, const Batch& batch) {
  const PackedWeight& tokens = weight(op.tokens);
  const Buffer& out = buffer(op.out);
  run_rows(static_cast<std::int64_t>(batch.ids.size()), [&](std::int64_t first, std::int64_t rows) {
    for (std::int64_t row = first; row < first + rows; ++row) {
      float* x = out.floats + row * out.stride;
      tokens.copy_row(batch.ids[static_cast<std::size_t>(row)], x);
      if (op.positions == kNone) continue;
      weight(op.positions).add_row(batch.positions[static_cast<std::size_t>(row)] + op.position_offset, x);
    }
  });
}

void CpuProgram::apply(const NormOp& op, std::int64_t rows) {
  const NormArgs whole = norm_args(op, vector(op.gain), vector(op.bias), buffer(op.in), buffer(op.out));
  run_rows(rows, [&](std::int64_t first, std::int64_t count) {
    NormArgs part = whole;
    part.first_tile_row = first;
    part.x += first * part.x_stride;
    if (part.y != nullptr) part.y += first * part.y_stride;
    part.rows = count;
    table_.norm(part);
  });
}

LinearArgs CpuProgram::linear_args(const LinearOp& op, const Buffer& in, std::int64_t rows,
                                   const Buffer& out) const {
  const PackedWeight& w = weight(op.weight);
  const bool has_tiles = multiplies_tiles(w);
  return {.x = has_tiles ? nullptr : in.floats,
          .x_stride = in.stride,
          .x_tiles = has_tiles ? in.tiles : kNoTiles,
          .rows = rows,
          .k = w.spec.columns,
          .w = w.data.data(),
          .packing = w.packing(),
          .planes = has_tiles ? planes_for(w) : w.planes(),
          .bias = vector(op.bias),
          .activation = op.activation,
          .adds = op.adds_to_output,
          .is_rounded = out.is_rounded,
          .y = out.floats,
          .y_stride = out.stride,
          .y_tiles = out.tiles,
          .n = w.spec.rows,
          .first_panel = 0,
          .panels = w.panels};
}

void CpuProgram::run_linear(const LinearOp& op, const Buffer& in, std::int64_t rows, Buffer& out,
                            const RowRange* queries) {
  const PackedWeight& w = weight(op.weight);
  LinearArgs whole = linear_args(op, in, rows, out);
  if (w.packing() == Packing::int8) whole = quantize_inputs(op, whole, in);
  if (queries != nullptr) run_part(op, whole, {*queries, 0, tail_query_panels_});
  const std::int64_t first = queries == nullptr ? 0 : tail_query_panels_;
  run_part(op, whole, {{0, rows}, first, w.panels - first});
}

void CpuProgram::run_part(const LinearOp& op, const LinearArgs& whole, const ProductPart& part) {
  const PackedWeight& w = weight(op.weight);
  if (w.packing() == Packing::int8) return run_int8(op, whole, part);
  if (w.packing() == Packing::four_bit) return run_four_bit(w, whole, part);
  const auto kernel = multiplies_tiles(w) ? table_.linear_tiles : table_.linear;
  run_tasks(part, w, [&](const ProductPart& task) { kernel(part_of(whole, task)); });
}

std::int64_t CpuProgram::panels_at_once(const ProductPart& part, const PackedWeight& w,
                                        const RowShares& shares) const {
  if (part.rows.size() <= kFewRows) return kFewRowsPanels;
  const auto count = static_cast<int>(shares.count);
  const bool is_vector = w.packing() != Packing::int8 && !multiplies_tiles(w);
  return panels_of_task(part.panels, (pool_->size() + count - 1) / count,
                        is_vector ? kManyVectorPanels : kManyRowsPanels);
}

void CpuProgram::show_inputs(const LinearOp& op, const Buffer& in, std::int64_t rows) const {
  const std::int64_t columns = weight(op.weight).spec.columns;
  if (in.floats != nullptr) return observer_({op.weight, in.floats, rows, columns, in.stride});
  std::vector<float> floats(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t k = 0; k < columns; ++k)
      for (int plane = 0; plane < in.tiles.planes; ++plane)
        floats[static_cast<std::size_t>(row * columns + k)] +=
            bf16_to_float(in.tiles.plane(plane)[in.tiles.offset(row, k)]);
  observer_({op.weight, floats.data(), rows, columns, columns});
}

void CpuProgram::apply(const LinearOp& op, std::int64_t rows, const RowRange* queries) {
  if (observer_) show_inputs(op, buffer(op.in), rows);
  run_linear(op, buffer(op.in), rows, buffer(op.out), queries);
}

// Hidden states of at most kHeadRows rows into head_normed_.
void CpuProgram::norm_head(std::span<const std::int64_t> rows) {
  const auto& norm = std::get<NormOp>(plan_.head_norm.what);
  const NormArgs whole =
      norm_args(norm, vector(norm.gain), vector(norm.bias), buffer(plan_.hidden), head_normed_);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    NormArgs one = whole;
    one.rows = 1;
    one.x += place_of(rows[i]) * one.x_stride;
    one.first_tile_row = static_cast<std::int64_t>(i);
    if (one.y != nullptr) one.y += one.first_tile_row * one.y_stride;
    table_.norm(one);
  }
}

void CpuProgram::head(std::span<const std::int64_t> rows, const HeadSink& sink) {
  const PhaseTimer timer(*this, Phase::head);
  for (std::size_t first = 0; first < rows.size(); first += kHeadRows) {
    const auto part = rows.subspan(first, std::min<std::size_t>(kHeadRows, rows.size() - first));
    const auto count = static_cast<std::int64_t>(part.size());
    norm_head(part);
    const auto* best = std::get_if<ArgmaxSink>(&sink);
    if (best != nullptr && plan_.screens_head && find_highest(count, best->ids.subspan(first, part.size())))
      continue;
    run_linear(std::get<LinearOp>(plan_.head.what), head_normed_, count, logits_);
    drain(part, static_cast<std::int64_t>(first), sink);
  }
}

// Reduces the held logits, a row per chunk of work: the result does not depend on the number of threads.
void CpuProgram::drain(std::span<const std::int64_t> rows, std::int64_t first, const HeadSink& sink) {
  pool_->run(static_cast<std::int64_t>(rows.size()), [&](std::int64_t i) {
    const float* x = logits_.floats + i * logits_.stride;
    const auto at = static_cast<std::size_t>(first + i);
    if (const auto* full = std::get_if<LogitsSink>(&sink))
      std::copy_n(x, plan_.vocab, full->logits.data() + static_cast<std::int64_t>(at) * plan_.vocab);
    if (const auto* best = std::get_if<ArgmaxSink>(&sink))
      best->ids[at] = static_cast<TokenId>(table_.argmax(x, plan_.vocab));
    if (const auto* score = std::get_if<LogProbabilitySink>(&sink))
      score->log_probabilities[at] =
          static_cast<double>(x[score->targets[at]]) - table_.log_sum_exp(x, plan_.vocab);
  });
}

}  // namespace assay::cpu
