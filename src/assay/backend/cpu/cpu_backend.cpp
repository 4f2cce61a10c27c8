#include "assay/backend/cpu/cpu_backend.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cmath>
#include <limits>
#include <optional>

#include "assay/backend/cpu/select.h"
#include "assay/base/error.h"
#include "assay/base/memory.h"
#include "assay/tensor/half.h"

namespace assay::cpu {

namespace {

// Of one run: bounds the workspace, and weights are read once per 512 tokens.
constexpr std::int64_t kMaxRows = 512;
constexpr std::int64_t kHeadRows = 32;  // logits held at once
constexpr std::int64_t kNormRows = 8;   // rows a thread takes at a time
constexpr std::int64_t kNoKey = std::int64_t{1} << 40;
// Rows of a head that a thread attends at a time: they share the keys while these are in the nearest cache.
constexpr std::int64_t kAttendChunk = kAttendRows;
constexpr std::int64_t kAttendTasksPerThread = 8;  // enough that threads end together
// Panels a thread takes at a time: of few rows as many as it reads side by side, so that all threads end
// together; of many rows more, which share the rows while these are near.
constexpr std::int64_t kFewRows = 16, kFewRowsPanels = 2 * kGroup;
constexpr std::int64_t kManyRowsPanels = 4 * kGroup, kFewestManyRowsPanels = 2 * kGroup;
// Panels that 4-bit codes become at a time: even, so that pairs of columns stay whole.
constexpr std::int64_t kExpandedPanels = kGroup;
// Rows that pass over the panels together stay in the second-level cache.
constexpr std::int64_t kNearBytes = std::int64_t{3} << 19;

// Codes of static inputs go from 0 to 255, those of the kernels from -128 on.
constexpr int kCodeOffset = 128;

struct AttendTask {
  const SequenceRows* rows;
  std::int64_t first_position;  // among the keys that are kept
  int head, heads;              // the first, and how many
  std::int64_t first, count;    // within the sequence's new rows
  bool is_padding;              // rows that see no key
};

// How many of the new rows are padding. Keys of padding are not kept, so that the others lie in blocks of 64
// as if there were none: a padded sequence gives the bits of an unpadded one.
std::int64_t padding_of(const SequenceRows& s, std::int64_t past) {
  return std::clamp<std::int64_t>(s.first_key - past, 0, s.rows);
}

// Activations, a row per token of the batch, in the forms their readers want.
struct Buffer {
  std::int64_t columns = 0;
  std::int64_t stride = 0;
  float* floats = nullptr;  // [rows][stride]; null where only tile products read it
  Tiles tiles = kNoTiles;   // none where no tile products do
};

// Floats from a row to the next: whole cache lines, and no multiple of 4 KB, at which all rows would share a
// few sets of the nearest cache.
std::int64_t row_stride(std::int64_t columns) {
  constexpr std::int64_t kLine = 16, kAlias = 1024;
  const std::int64_t whole = round_up(columns, kLine);
  return whole % kAlias == 0 ? whole + kLine : whole;
}

// One allocation for all activations: huge pages serve them, where each alone would be too small for one.
class Arena {
 public:
  // Counts first, gives after reserve().
  std::byte* take(std::int64_t bytes) {
    std::byte* p = memory_.size() == 0 ? nullptr : memory_.data() + used_;
    used_ += round_up(bytes, 64);
    return p;
  }
  void reserve() {
    require_memory({used_}, "the activations");
    memory_ = AlignedBuffer(static_cast<std::size_t>(used_), "the activations");
    used_ = 0;
  }
  std::int64_t size() const { return used_; }

 private:
  AlignedBuffer memory_;
  std::int64_t used_ = 0;
};

// Of the inputs and the weights of a tile product.
int planes_for(const PackedWeight& w) {
  return w.packing() == Packing::bfloat16 ? w.planes() : 1;
}

// Of 4-bit codes beside bfloat16: few rows are multiplied as bytes.
bool has_coded_inputs(const PackedWeight& w) {
  return w.spec.expanded == WeightFormat::bfloat16 && w.group >= kSmallestCodedGroup;
}

class CpuProgram : public Program {
 public:
  CpuProgram(const Plan& plan, const WeightSource& source, const KernelTable& table,
             std::shared_ptr<ThreadPool> pool);
  // Without weights or memory: it only knows what it would take.
  CpuProgram(const Plan& plan, const KernelTable& table, std::shared_ptr<ThreadPool> pool);

  const Plan& plan() const override { return plan_; }
  std::unique_ptr<KvCache> make_cache() override {
    return std::make_unique<CpuKvCache>(plan_.layers, plan_.kv_heads, plan_.head_dim, plan_.kv_format,
                                        kv_blocks_);
  }
  void run(const Batch& batch, KvCache& cache) override;
  void head(std::span<const std::int64_t> rows, const HeadSink& sink) override;
  void observe_inputs(InputObserver observer) override { observer_ = std::move(observer); }
  double outlier_share() const override {
    return columns_seen_ == 0 ? 0 : static_cast<double>(columns_apart_) / static_cast<double>(columns_seen_);
  }
  std::int64_t max_rows() const override { return kMaxRows; }
  Bytes cache_bytes(std::int64_t length) const override {
    return CpuKvCache(plan_.layers, plan_.kv_heads, plan_.head_dim, plan_.kv_format, kv_blocks_)
        .bytes_of(length);
  }
  MemoryReport memory() const override;
  void trim() override { kv_blocks_->clear(); }
  void begin_profile() override {
    profile_ = StepProfile{};
    pool_->account_busy_time(true);
  }
  StepProfile end_profile() override {
    pool_->account_busy_time(false);
    return std::exchange(profile_, std::nullopt).value_or(StepProfile{});
  }

 private:
  // Adds the time from its making to its end to a phase of the profile, where one is taken.
  class PhaseTimer {
   public:
    PhaseTimer(CpuProgram& program, Phase phase) : program_(program), phase_(phase) {
      if (!program.profile_) return;
      busy_ = program.pool_->busy_time();
      begin_ = Clock::now();
    }
    ~PhaseTimer() {
      if (!program_.profile_) return;
      StepProfile::Part& part = program_.profile_->parts[static_cast<std::size_t>(phase_)];
      const Seconds time = elapsed(begin_, Clock::now());
      const double busy = (program_.pool_->busy_time() - busy_).value / program_.pool_->size();
      part.time = part.time + time;
      part.waiting = part.waiting + Seconds{std::max(0.0, time.value - busy)};
    }
    PhaseTimer(const PhaseTimer&) = delete;
    PhaseTimer& operator=(const PhaseTimer&) = delete;

   private:
    CpuProgram& program_;
    Phase phase_;
    TimePoint begin_;
    Seconds busy_;
  };

  void check(const Batch& batch, const CpuKvCache& cache) const;
  void plan_attention(const Batch& batch, const CpuKvCache& cache, int heads);
  void apply(const EmbedOp& op, const Batch& batch);
  void apply(const NormOp& op, std::int64_t rows);
  void apply(const LinearOp& op, std::int64_t rows);
  void apply(const AttentionOp& op, const Batch& batch, CpuKvCache& cache);
  void store_keys_and_values(const AttentionOp& op, const SequenceRows& s, int head, CpuKvCache& cache);
  void head_logits(std::span<const std::int64_t> rows);
  void drain(std::span<const std::int64_t> rows, std::int64_t first, const HeadSink& sink);

  const PackedWeight& weight(WeightId id) const { return weights_[static_cast<std::size_t>(id)]; }
  const float* vector(WeightId id) const { return id == kNone ? nullptr : weight(id).data.floats(); }
  Buffer& buffer(BufferId id) { return buffers_[static_cast<std::size_t>(id)]; }
  std::int64_t width(BufferId id) const { return plan_.buffers[static_cast<std::size_t>(id)].columns; }
  void make_buffers();
  void make_quantized_buffers();
  Buffer make_buffer(std::int64_t columns, std::int64_t rows, bool has_floats, int planes);
  // By tile products: bfloat16, or 4-bit codes that become bfloat16.
  bool multiplies_tiles(const PackedWeight& w) const {
    return table_.uses_tiles &&
           (w.packing() == Packing::bfloat16 ||
            (w.packing() == Packing::four_bit && w.spec.expanded == WeightFormat::bfloat16));
  }
  void run_linear(const LinearOp& op, const Buffer& in, std::int64_t rows, Buffer& out);
  void fold_zero_points();
  void show_inputs(const LinearOp& op, const Buffer& in, std::int64_t rows) const;
  void run_int8(const LinearOp& op, LinearArgs whole, const Buffer& in);
  StaticInput input_of_all(const LinearOp& op, const LinearArgs& whole);
  void run_four_bit(const PackedWeight& w, LinearArgs whole);
  void run_four_bit_few_rows(const PackedWeight& w, const LinearArgs& whole, const ExpandArgs& weights);

  Plan plan_;
  KernelTable table_;
  std::shared_ptr<ThreadPool> pool_;
  std::vector<PackedWeight> weights_;
  // By weight: the bias of a product with static inputs, less what their zero point adds to its sums.
  std::vector<std::vector<float>> static_biases_;
  InputObserver observer_;
  std::shared_ptr<KvBlockPool> kv_blocks_ = std::make_shared<KvBlockPool>();
  Arena arena_;
  std::vector<Buffer> buffers_;
  Buffer head_normed_, logits_;
  // Inputs of int8 products, and panels that 4-bit codes become: one at a time for each thread.
  Tiles codes_ = kNoTiles;
  float* absmax_ = nullptr;
  std::int32_t* zero_points_ = nullptr;
  std::array<Range, kMaxRows / kNormRows> ranges_;  // of some rows each, where one code serves all
  std::vector<std::uint8_t> is_outlier_;
  std::vector<std::int32_t> outliers_;
  std::int64_t columns_apart_ = 0, columns_seen_ = 0;  // of all products that look for outliers
  // Inputs of few rows times 4-bit codes: as bytes, with the scales and sums of their groups.
  std::int8_t* coded_inputs_ = nullptr;
  float* input_scales_ = nullptr;
  std::int32_t* input_sums_ = nullptr;
  std::int64_t expanded_bytes_ = 0;
  std::byte* expanded_ = nullptr;
  std::vector<std::atomic<bool>> expanded_in_use_;
  std::int64_t hidden_rows_ = 0;
  std::vector<AttendTask> attend_tasks_;
  bool has_one_task_each_ = false;      // the sequences, for each of their heads
  std::optional<StepProfile> profile_;  // while one is taken
};

CpuProgram::CpuProgram(const Plan& plan, const WeightSource& source, const KernelTable& table,
                       std::shared_ptr<ThreadPool> pool)
    : plan_(plan),
      table_(table),
      pool_(std::move(pool)),
      expanded_in_use_(static_cast<std::size_t>(pool_->size())) {
  weights_ = pack_weights(plan_.weights, source, *pool_);
  fold_zero_points();
  make_buffers();
  arena_.reserve();
  make_buffers();
}

CpuProgram::CpuProgram(const Plan& plan, const KernelTable& table, std::shared_ptr<ThreadPool> pool)
    : plan_(plan),
      table_(table),
      pool_(std::move(pool)),
      weights_(lay_out_weights(plan.weights)),
      expanded_in_use_(static_cast<std::size_t>(pool_->size())) {
  make_buffers();
}

// Inputs are scale * (code - zero_point): what the zero point adds to an output does not depend on the
// inputs.
void CpuProgram::fold_zero_points() {
  static_biases_.resize(weights_.size());
  for (const Op& op : plan_.ops) {
    const auto* linear = std::get_if<LinearOp>(&op.what);
    if (linear == nullptr || !linear->static_input) continue;
    const PackedWeight& w = weight(linear->weight);
    const float* bias = vector(linear->bias);
    std::vector<float>& folded = static_biases_[static_cast<std::size_t>(linear->weight)];
    for (std::int64_t i = 0; i < w.spec.rows; ++i) {
      const double sum = w.sums()[i], unit = static_cast<double>(w.scales()[i]) / 127;
      const double zero = static_cast<double>(linear->static_input->scale) * unit * sum *
                          (linear->static_input->zero_point - kCodeOffset);
      folded.push_back(static_cast<float>((bias == nullptr ? 0.0 : static_cast<double>(bias[i])) - zero));
    }
  }
}

void CpuProgram::make_buffers() {
  // What only tile products read is kept in tiles alone.
  std::vector<int> planes(plan_.buffers.size());
  std::vector<bool> has_floats(plan_.buffers.size());
  has_floats[static_cast<std::size_t>(plan_.hidden)] = true;
  for (const Op& op : plan_.ops) {
    if (const auto* norm = std::get_if<NormOp>(&op.what))
      has_floats[static_cast<std::size_t>(norm->in)] = true;
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
      if (multiplies_tiles(weight(linear->weight)))
        planes[in] = std::max(planes[in], planes_for(weight(linear->weight)));
      else
        has_floats[in] = true;
    }
  }
  buffers_.clear();
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i)
    buffers_.push_back(make_buffer(plan_.buffers[i].columns, kMaxRows, has_floats[i], planes[i]));
  const PackedWeight& head = weight(std::get<LinearOp>(plan_.head.what).weight);
  const int head_planes = multiplies_tiles(head) ? planes_for(head) : 0;
  head_normed_ = make_buffer(width(plan_.hidden), kHeadRows, head_planes == 0, head_planes);
  logits_ = make_buffer(plan_.vocab, kHeadRows, true, 0);
  make_quantized_buffers();
}

void CpuProgram::make_quantized_buffers() {
  std::int64_t widest_int8 = 0, widest_four_bit = 0;
  expanded_bytes_ = 0;
  for (const PackedWeight& w : weights_) {
    if (w.packing() == Packing::int8) widest_int8 = std::max(widest_int8, w.k_padded());
    if (w.packing() == Packing::four_bit) widest_four_bit = std::max(widest_four_bit, w.k_padded());
    if (w.packing() == Packing::four_bit)
      expanded_bytes_ =
          std::max(expanded_bytes_, kExpandedPanels * w.k_padded() * kPanel * (multiplies_tiles(w) ? 2 : 4));
  }
  if (widest_int8 > 0) {
    const std::int64_t capacity = kMaxRows + kTileRows;
    codes_ = {reinterpret_cast<std::uint16_t*>(arena_.take(capacity * widest_int8)), capacity,
              widest_int8 / 2, 1};
    absmax_ = reinterpret_cast<float*>(arena_.take(capacity * 4));
    zero_points_ = reinterpret_cast<std::int32_t*>(arena_.take(capacity * 4));
    is_outlier_.resize(static_cast<std::size_t>(widest_int8));
  }
  if (expanded_bytes_ > 0) expanded_ = arena_.take(expanded_bytes_ * pool_->size());
  if (widest_four_bit > 0) {
    const std::int64_t inputs = widest_four_bit * kFourBitRows, groups = inputs / kSmallestCodedGroup;
    coded_inputs_ = reinterpret_cast<std::int8_t*>(arena_.take(inputs));
    input_scales_ = reinterpret_cast<float*>(arena_.take(groups * 4));
    input_sums_ = reinterpret_cast<std::int32_t*>(arena_.take(groups * 4));
  }
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
    const PhaseTimer timer(*this, op.phase);
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
  has_one_task_each_ = true;
  // Heads lie side by side in the cache: of many sequences a task takes several, so that memory is read in
  // long streams.
  const auto sequences = static_cast<std::int64_t>(batch.sequences.size());
  const auto together = static_cast<int>(
      std::clamp<std::int64_t>(sequences * heads / (kAttendTasksPerThread * pool_->size()), 1, heads));
  for (const SequenceRows& s : batch.sequences) {
    const std::int64_t past = cache.length(s.sequence) - s.rows, padding = padding_of(s, past);
    has_one_task_each_ = has_one_task_each_ && padding == 0 && s.rows <= kAttendChunk;
    for (std::int64_t end = s.rows; end > 0;) {
      const bool is_padding = end <= padding;
      const std::int64_t first = std::max(end - kAttendChunk, is_padding ? 0 : padding);
      for (int head = 0; head < heads; head += together)
        attend_tasks_.push_back({&s, past + first - s.first_key, head, std::min(together, heads - head),
                                 first, end - first, is_padding});
      end = first;
    }
  }
}

void CpuProgram::apply(const EmbedOp& op, const Batch& batch) {
  const PackedWeight& tokens = weight(op.tokens);
  const Buffer& out = buffer(op.out);
  pool_->run(
      static_cast<std::int64_t>((batch.ids.size() + kNormRows - 1) / kNormRows), [&](std::int64_t chunk) {
        const auto end = std::min(static_cast<std::int64_t>(batch.ids.size()), (chunk + 1) * kNormRows);
        for (std::int64_t row = chunk * kNormRows; row < end; ++row) {
          float* x = out.floats + row * out.stride;
          tokens.copy_row(batch.ids[static_cast<std::size_t>(row)], x);
          if (op.positions == kNone) continue;
          weight(op.positions)
              .add_row(batch.positions[static_cast<std::size_t>(row)] + op.position_offset, x);
        }
      });
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

void CpuProgram::apply(const NormOp& op, std::int64_t rows) {
  const NormArgs whole = norm_args(op, vector(op.gain), vector(op.bias), buffer(op.in), buffer(op.out));
  pool_->run((rows + kNormRows - 1) / kNormRows, [&](std::int64_t chunk) {
    NormArgs part = whole;
    part.first_tile_row = chunk * kNormRows;
    part.x += part.first_tile_row * part.x_stride;
    if (part.y != nullptr) part.y += part.first_tile_row * part.y_stride;
    part.rows = std::min(kNormRows, rows - part.first_tile_row);
    table_.norm(part);
  });
}

constexpr std::int64_t kBlockUnit = 2 * kTileRows;

// Panels of a task of many rows: the most with which the threads end together, or nearly so.
std::int64_t panels_of_task(std::int64_t panels, int threads) {
  std::int64_t best = 0, best_time = 0;
  for (std::int64_t size = kManyRowsPanels; size >= kFewestManyRowsPanels; size -= 2) {
    const std::int64_t tasks = (panels + size - 1) / size, time = (tasks + threads - 1) / threads * size;
    if (best == 0 || time < best_time) {
      best = size;
      best_time = time;
    }
  }
  return best;
}

// Tasks of few rows are taken in turns; in this order each thread reads a region of its own, from its
// beginning on, which memory serves faster than regions that several threads share.
std::int64_t in_regions(std::int64_t task, std::int64_t tasks, int threads) {
  const std::int64_t region = task % threads;
  return region * (tasks / threads) + std::min(region, tasks % threads) + task / threads;
}

// The same tiles from a row on.
Tiles tiles_from(Tiles tiles, std::int64_t row) {
  if (tiles.data != nullptr) tiles.data += tiles.offset(row, 0);
  return tiles;
}

void CpuProgram::run_linear(const LinearOp& op, const Buffer& in, std::int64_t rows, Buffer& out) {
  const PackedWeight& w = weight(op.weight);
  const bool has_tiles = multiplies_tiles(w);
  const LinearArgs whole{.x = has_tiles ? nullptr : in.floats,
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
                         .y = out.floats,
                         .y_stride = out.stride,
                         .y_tiles = out.tiles,
                         .n = w.spec.rows,
                         .first_panel = 0,
                         .panels = 0};
  if (w.packing() == Packing::int8) return run_int8(op, whole, in);
  if (w.packing() == Packing::four_bit) return run_four_bit(w, whole);
  const auto kernel = has_tiles ? table_.linear_tiles : table_.linear;
  const std::int64_t row_bytes = w.spec.columns * 4;
  const bool is_chunked = has_tiles || (table_.chunks_inputs && w.packing() == Packing::float32);
  const std::int64_t block =
      is_chunked ? kMaxRows
                 : std::clamp(kNearBytes / row_bytes / kBlockUnit * kBlockUnit, kBlockUnit, kMaxRows);
  const std::int64_t panels = rows <= kFewRows ? kFewRowsPanels : panels_of_task(w.panels, pool_->size());
  const std::int64_t groups = (w.panels + panels - 1) / panels;
  pool_->run((rows + block - 1) / block * groups, [&](std::int64_t chunk) {
    LinearArgs part = whole;
    const std::int64_t first_row = chunk / groups * block;
    part.rows = std::min(block, rows - first_row);
    if (part.x != nullptr) part.x += first_row * part.x_stride;
    part.x_tiles = tiles_from(part.x_tiles, first_row);
    if (part.y != nullptr) part.y += first_row * part.y_stride;
    part.y_tiles = tiles_from(part.y_tiles, first_row);
    const std::int64_t group = chunk % groups;
    part.first_panel = (rows <= kFewRows ? in_regions(group, groups, pool_->size()) : group) * panels;
    part.panels = std::min(panels, w.panels - part.first_panel);
    kernel(part);
  });
}

// The part of an operation that computes panels [first, first + count) of all rows.
LinearArgs panels_of(LinearArgs whole, std::int64_t first, std::int64_t count) {
  whole.first_panel = first;
  whole.panels = count;
  return whole;
}

// Widened by a row's inputs; NaN is passed over, as in the kernels.
Range range_of_row(const float* x, std::int64_t k, const float* factors, Range range) {
  for (std::int64_t i = 0; i < k; ++i) {
    const float value = factors == nullptr ? x[i] : x[i] * factors[i];
    range.low = value < range.low ? value : range.low;
    range.high = value > range.high ? value : range.high;
  }
  return range;
}

// The code of the inputs of all rows together.
StaticInput CpuProgram::input_of_all(const LinearOp& op, const LinearArgs& whole) {
  const float* factors = op.input_factors.empty() ? nullptr : op.input_factors.data();
  const std::int64_t chunks = (whole.rows + kNormRows - 1) / kNormRows;
  pool_->run(chunks, [&](std::int64_t chunk) {
    Range range;
    const std::int64_t end = std::min(whole.rows, (chunk + 1) * kNormRows);
    for (std::int64_t row = chunk * kNormRows; row < end; ++row)
      range = range_of_row(whole.x + row * whole.x_stride, whole.k, factors, range);
    ranges_[static_cast<std::size_t>(chunk)] = range;
  });
  Range all;
  for (const Range& range : std::span(ranges_).first(static_cast<std::size_t>(chunks)))
    all = {std::min(all.low, range.low), std::max(all.high, range.high)};
  const UniformCode code = dynamic_uint8_code(all);
  return {.scale = code.scale, .zero_point = code.zero_point};
}

void CpuProgram::run_int8(const LinearOp& op, LinearArgs whole, const Buffer& in) {
  const PackedWeight& w = weight(op.weight);
  const bool has_outliers = w.spec.format == WeightFormat::llm_int8 && op.outlier_threshold > 0;
  const std::int64_t chunks = (whole.rows + kNormRows - 1) / kNormRows;
  outliers_.clear();
  if (has_outliers) {
    // A column is apart for all rows of the call when one of them has an outlier there.
    std::fill(is_outlier_.begin(), is_outlier_.end(), std::uint8_t{0});
    pool_->run(chunks, [&](std::int64_t chunk) {
      const std::int64_t end = std::min(whole.rows, (chunk + 1) * kNormRows);
      for (std::int64_t row = chunk * kNormRows; row < end; ++row)
        for (std::int64_t k = 0; k < whole.k; ++k) {
          const float x = std::fabs(whole.x[row * whole.x_stride + k]);
          // As float16, which is looked at where it can matter.
          if (x >= op.outlier_threshold * 0.999F && f16_to_float(float_to_f16(x)) >= op.outlier_threshold)
            std::atomic_ref(is_outlier_[static_cast<std::size_t>(k)]).store(1, std::memory_order_relaxed);
        }
    });
    for (std::int64_t k = 0; k < whole.k; ++k)
      if (is_outlier_[static_cast<std::size_t>(k)] != 0) outliers_.push_back(static_cast<std::int32_t>(k));
    columns_apart_ += static_cast<std::int64_t>(outliers_.size());
    columns_seen_ += whole.k;
  }
  Tiles codes = codes_;
  codes.columns = w.k_padded() / 2;
  const float threshold =
      w.spec.format == WeightFormat::llm_int8
          ? op.outlier_threshold > 0 ? op.outlier_threshold : std::numeric_limits<float>::infinity()
          : 0.0F;
  const bool has_row_ranges = w.spec.format == WeightFormat::int8 && !op.static_input;
  const StaticInput fixed =
      op.has_tensor_scale ? input_of_all(op, whole) : op.static_input.value_or(StaticInput{.scale = 0});
  if (op.static_input) whole.bias = static_biases_[static_cast<std::size_t>(op.weight)].data();
  pool_->run(chunks, [&](std::int64_t chunk) {
    table_.quantize({.x = in.floats,
                     .x_stride = in.stride,
                     .codes = codes,
                     .first_row = chunk * kNormRows,
                     .rows = std::min(kNormRows, whole.rows - chunk * kNormRows),
                     .k = whole.k,
                     .absmax = absmax_,
                     .threshold = threshold,
                     .is_outlier = outliers_.empty() ? nullptr : is_outlier_.data(),
                     .factors = op.input_factors.empty() ? nullptr : op.input_factors.data(),
                     .zero_points = has_row_ranges ? zero_points_ : nullptr,
                     .fixed_scale = fixed.scale,
                     .fixed_zero_point = fixed.zero_point - kCodeOffset});
  });
  whole.x_tiles = codes;
  const std::int64_t panels =
      whole.rows <= kFewRows ? kFewRowsPanels : panels_of_task(w.panels, pool_->size());
  const std::int64_t tasks = (w.panels + panels - 1) / panels;
  pool_->run(tasks, [&](std::int64_t task) {
    if (whole.rows <= kFewRows) task = in_regions(task, tasks, pool_->size());
    table_.linear_int8({.to = panels_of(whole, task * panels, std::min(panels, w.panels - task * panels)),
                        .x_absmax = absmax_,
                        .w_absmax = w.scales(),
                        .w_sums = w.sums(),
                        .x_zero = has_row_ranges ? zero_points_ : nullptr,
                        .outliers = outliers_.data(),
                        .outlier_count = static_cast<std::int64_t>(outliers_.size())});
  });
}

// Few rows read the codes as they are. Beside bfloat16 their inputs become bytes: the sums of bytes keep up
// with memory, where those of floats do not.
void CpuProgram::run_four_bit_few_rows(const PackedWeight& w, const LinearArgs& whole,
                                       const ExpandArgs& weights) {
  if (has_coded_inputs(w))
    table_.quantize_groups({.x = whole.x,
                            .x_stride = whole.x_stride,
                            .x_tiles = whole.x_tiles,
                            .rows = whole.rows,
                            .k = whole.k,
                            .k_padded = weights.k_padded,
                            .group = weights.group,
                            .codes = coded_inputs_,
                            .scales = input_scales_,
                            .sums = input_sums_});
  const std::int64_t tasks = (w.panels + kFewRowsPanels - 1) / kFewRowsPanels;
  pool_->run(tasks, [&](std::int64_t task) {
    const std::int64_t first = in_regions(task, tasks, pool_->size()) * kFewRowsPanels;
    const LinearArgs part = panels_of(whole, first, std::min(kFewRowsPanels, w.panels - first));
    if (has_coded_inputs(w))
      table_.linear_coded_inputs({.to = part,
                                  .weights = weights,
                                  .book = w.byte_book().values.data(),
                                  .unit = w.byte_book().unit,
                                  .x_codes = coded_inputs_,
                                  .x_scales = input_scales_,
                                  .x_sums = input_sums_});
    else
      table_.linear_four_bit({.to = part, .weights = weights});
  });
}

// Codes become panels in the second-level cache, a few at a time, which are then multiplied like any other.
void CpuProgram::run_four_bit(const PackedWeight& w, LinearArgs whole) {
  const bool has_tiles = multiplies_tiles(w);
  const std::int64_t groups = (w.k_padded() + w.group - 1) / w.group;
  ExpandArgs expand{.codes = reinterpret_cast<const std::uint8_t*>(w.data.data()),
                    .scales = w.scales(),
                    .book = w.book().data(),
                    .k = whole.k,
                    .k_padded = w.k_padded(),
                    .group = w.group,
                    .panels = w.panels,
                    .packing = has_tiles ? Packing::bfloat16 : Packing::float32,
                    .out = nullptr};
  if (whole.rows <= kFourBitRows && (!has_tiles || has_coded_inputs(w)))
    return run_four_bit_few_rows(w, whole, expand);
  whole.packing = expand.packing;
  const auto kernel = has_tiles ? table_.linear_tiles : table_.linear;
  pool_->run((w.panels + kExpandedPanels - 1) / kExpandedPanels, [&](std::int64_t task) {
    std::size_t mine = 0;  // there is one for each thread
    while (expanded_in_use_[mine].exchange(true, std::memory_order_acquire))
      mine = (mine + 1) % expanded_in_use_.size();
    const std::int64_t first = task * kExpandedPanels, count = std::min(kExpandedPanels, w.panels - first);
    std::byte* out = expanded_ + static_cast<std::int64_t>(mine) * expanded_bytes_;
    ExpandArgs some = expand;
    some.codes += first * w.panel_bytes();
    some.scales += first * groups * kPanel;
    some.panels = count;
    some.out = out;
    table_.expand(some);
    LinearArgs part = panels_of(whole, 0, count);
    const std::int64_t column = first * kPanel;
    part.w = out;
    part.n = std::min(count * kPanel, whole.n - column);
    if (part.bias != nullptr) part.bias += column;
    if (part.y != nullptr) part.y += column;
    if (part.y_tiles.data != nullptr) part.y_tiles.data += part.y_tiles.offset(0, column);
    kernel(part);
    expanded_in_use_[mine].store(false, std::memory_order_release);
  });
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

void CpuProgram::apply(const LinearOp& op, std::int64_t rows) {
  if (observer_) show_inputs(op, buffer(op.in), rows);
  run_linear(op, buffer(op.in), rows, buffer(op.out));
}

// Keys and values of one head of one sequence's new rows.
void CpuProgram::store_keys_and_values(const AttentionOp& op, const SequenceRows& s, int head,
                                       CpuKvCache& cache) {
  const Buffer& qkv = buffer(op.qkv);
  const std::int64_t dim = op.head_dim, past = cache.length(s.sequence) - s.rows;
  const std::int64_t padding = padding_of(s, past), rows = s.rows - padding;
  const std::int64_t first_position = past + padding - s.first_key;
  const std::int64_t k_column = (op.heads + head) * dim, v_column = k_column + op.kv_heads * dim;
  const bool has_tiles = qkv.floats == nullptr;
  const float* row_floats = has_tiles ? nullptr : qkv.floats + (s.first_row + padding) * qkv.stride;
  const std::int64_t k_offset = cache.k_offset(op.layer, head), v_offset = cache.v_offset(op.layer, head);
  if (cache.format() != KvFormat::float32) {
    const auto store = cache.format() == KvFormat::int8 ? table_.store_int8 : table_.store_bfloat16;
    store({.k = has_tiles ? nullptr : row_floats + k_column,
           .v = has_tiles ? nullptr : row_floats + v_column,
           .stride = qkv.stride,
           .tiles = has_tiles ? qkv.tiles : kNoTiles,
           .first_tile_row = s.first_row + padding,
           .k_column = k_column,
           .v_column = v_column,
           .rows = rows,
           .first_position = first_position,
           .shape = cache.shape(),
           .blocks = cache.blocks(s.sequence),
           .k_offset = k_offset,
           .v_offset = v_offset});
    return;
  }
  const float *k = row_floats + k_column, *v = row_floats + v_column;
  for (std::int64_t row = 0; row < rows; ++row, k += qkv.stride, v += qkv.stride) {
    const std::int64_t at = (first_position + row) % kKvBlock;
    auto* block = static_cast<float*>(cache.blocks(s.sequence)[(first_position + row) / kKvBlock]);
    for (std::int64_t i = 0; i < dim; ++i) block[k_offset + i * kKvBlock + at] = k[i];
    std::copy(v, v + dim, block + v_offset + at * cache.shape().padded());
  }
}

void CpuProgram::apply(const AttentionOp& op, const Batch& batch, CpuKvCache& cache) {
  const auto sequences = static_cast<std::int64_t>(batch.sequences.size());
  // A task that alone reads the keys of its head stores them too: threads wait for each other once less.
  const bool stores_its_own = op.heads == op.kv_heads && has_one_task_each_;
  if (!stores_its_own)
    pool_->run(sequences * op.kv_heads, [&](std::int64_t task) {
      store_keys_and_values(op, batch.sequences[static_cast<std::size_t>(task / op.kv_heads)],
                            static_cast<int>(task % op.kv_heads), cache);
    });
  const Buffer& qkv = buffer(op.qkv);
  Buffer& out = buffer(op.out);
  const auto kernel = cache.format() == KvFormat::int8       ? table_.attend_int8
                      : cache.format() == KvFormat::bfloat16 ? table_.attend_bfloat16
                                                             : table_.attend;
  const auto attend_head = [&](const AttendTask& task, int head) {
    const int kv_head = head / (op.heads / op.kv_heads);
    if (stores_its_own) store_keys_and_values(op, *task.rows, kv_head, cache);
    const std::int64_t row = task.rows->first_row + task.first, column = std::int64_t{head} * op.head_dim;
    float* floats = out.floats;
    kernel({.q = qkv.floats == nullptr ? nullptr : qkv.floats + row * qkv.stride + column,
            .q_stride = qkv.stride,
            .q_tiles = qkv.floats == nullptr ? qkv.tiles : kNoTiles,
            .q_first_column = column,
            .rows = task.count,
            .first_position = task.is_padding ? 0 : task.first_position,
            .first_key = task.is_padding ? kNoKey : 0,
            .window = op.window,
            .shape = cache.shape(),
            .scale = op.scale,
            .blocks = cache.blocks(task.rows->sequence),
            .k_offset = cache.k_offset(op.layer, kv_head),
            .v_offset = cache.v_offset(op.layer, kv_head),
            .next_k_offset =
                stores_its_own && head + 1 < task.head + task.heads ? cache.k_offset(op.layer, head + 1) : 0,
            .out = floats == nullptr ? nullptr : floats + row * out.stride + column,
            .out_stride = out.stride,
            .out_tiles = out.tiles,
            .first_tile_row = row,
            .first_tile_column = column});
  };
  pool_->run(static_cast<std::int64_t>(attend_tasks_.size()), [&](std::int64_t index) {
    const AttendTask& task = attend_tasks_[static_cast<std::size_t>(index)];
    for (int head = task.head; head < task.head + task.heads; ++head) attend_head(task, head);
  });
}

// The logits of at most kHeadRows rows into logits_.
void CpuProgram::head_logits(std::span<const std::int64_t> rows) {
  const auto& norm = std::get<NormOp>(plan_.head_norm.what);
  const NormArgs whole =
      norm_args(norm, vector(norm.gain), vector(norm.bias), buffer(plan_.hidden), head_normed_);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    assert(rows[i] < hidden_rows_);
    NormArgs one = whole;
    one.rows = 1;
    one.x += rows[i] * one.x_stride;
    one.first_tile_row = static_cast<std::int64_t>(i);
    if (one.y != nullptr) one.y += one.first_tile_row * one.y_stride;
    table_.norm(one);
  }
  run_linear(std::get<LinearOp>(plan_.head.what), head_normed_, static_cast<std::int64_t>(rows.size()),
             logits_);
}

void CpuProgram::head(std::span<const std::int64_t> rows, const HeadSink& sink) {
  const PhaseTimer timer(*this, Phase::head);
  for (std::size_t first = 0; first < rows.size(); first += kHeadRows) {
    const auto part = rows.subspan(first, std::min<std::size_t>(kHeadRows, rows.size() - first));
    head_logits(part);
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

int threads_of(const BackendOptions& options) {
  if (options.threads != 0) return options.threads;
  const int threads = default_thread_count();
  const auto masked = static_cast<int>(options.processors.size());
  return masked == 0 ? threads : std::min(threads, masked);
}

}  // namespace

CpuBackend::CpuBackend(const BackendOptions& options)
    : isa_(options.is_isa_forced ? options.isa : best_usable_isa()),
      table_(select_kernels(isa_)),
      pool_(std::make_shared<ThreadPool>(threads_of(options), options.processors, options.pins_caller)) {}

std::unique_ptr<Program> CpuBackend::prepare(const Plan& plan, const WeightSource& source) {
  assert(plan.head_dim <= kMaxHeadDim);
  for (const WeightSpec& w : plan.weights)
    if (planes_of(w.format) > 1 && !table_.uses_tiles)
      throw UsageError(
          "--float32-matmul: products of bfloat16 parts need AMX, which --isa {} on this machine does not "
          "use",
          name_of(isa_));
  return std::make_unique<CpuProgram>(plan, source, table_, pool_);
}

PredictedMemory CpuBackend::predict(const Plan& plan, std::int64_t tokens) {
  const CpuProgram program(plan, table_, pool_);
  return {program.memory(), program.cache_bytes(tokens)};
}

}  // namespace assay::cpu
