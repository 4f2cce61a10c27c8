// The program of the CPU backend: buffers, the order of the work, and how it is cut into tasks. Products of
// quantized weights are in quantized_products.cpp, attention in cpu_attention.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <utility>

#include "assay/backend/backend.h"
#include "assay/backend/cpu/kernels.h"
#include "assay/backend/cpu/kv_cache.h"
#include "assay/backend/cpu/pack.h"
#include "assay/base/memory.h"
#include "assay/base/thread_pool.h"

namespace assay::cpu {

// Of one run: bounds the workspace, and weights are read once per 512 tokens.
inline constexpr std::int64_t kMaxRows = 512;
inline constexpr std::int64_t kHeadRows = 32;  // logits held at once
inline constexpr std::int64_t kNormRows = 8;   // rows a thread takes at a time
// Panels a thread takes at a time, of few rows: as many as it reads side by side, so that all threads end
// together.
inline constexpr std::int64_t kFewRows = 16, kFewRowsPanels = 2 * kGroup;

// Rows cut into shares that threads keep to, so that what they make of them stays in their own caches.
struct RowShares {
  std::int64_t rows, count, each;  // `each` a multiple of 32; the last share may be smaller
  std::int64_t first(std::int64_t share) const { return share * each; }
  std::int64_t size(std::int64_t share) const {
    return std::clamp<std::int64_t>(rows - first(share), 0, each);
  }
};
inline constexpr std::int64_t kShareRows = 256, kMaxShares = kMaxRows / kShareRows;
RowShares row_shares(std::int64_t rows, int threads);
// Tasks of few rows are taken in turns; in this order each thread reads a region of its own, from its
// beginning on, which memory serves faster than regions that several threads share.
std::int64_t in_regions(std::int64_t task, std::int64_t tasks, int threads);

// New rows [first, end) of a sequence.
struct RowRange {
  std::int64_t first, end;
  std::int64_t size() const { return end - first; }
};

// A part of a product: some panels of outputs of some rows.
struct ProductPart {
  RowRange rows;
  std::int64_t first_panel, panels;
};

struct AttendTask {
  const SequenceRows* rows;
  std::int64_t first_position;  // among the keys that are kept
  int head, heads;              // the first, and how many
  std::int64_t first, count;    // within the sequence's new rows
  bool is_padding;              // rows that see no key
};

// Activations, a row per token of the batch, in the forms their readers want.
struct Buffer {
  std::int64_t columns = 0;
  std::int64_t stride = 0;
  float* floats = nullptr;  // [rows][stride]; null where only tile products read it
  Tiles tiles = kNoTiles;   // none where no tile products do
  bool is_rounded = false;  // to bfloat16 or to bytes by all that reads it
};

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
  double screened_share() const override {
    return panels_screened_ == 0 ? 0
                                 : static_cast<double>(panels_left_) / static_cast<double>(panels_screened_);
  }
  std::int64_t max_rows() const override { return kMaxRows; }
  Bytes cache_bytes(std::int64_t length) const override {
    return CpuKvCache(plan_.layers, plan_.kv_heads, plan_.head_dim, plan_.kv_format, kv_blocks_)
        .bytes_of(length);
  }
  MemoryReport memory() const override;
  std::vector<std::span<const std::byte>> step_weights() const override;
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

  // Calls task(share, i) for i in [0, tasks) of every share. A thread begins with a share of its own, then
  // helps with the others.
  template <typename Task>
  void run_in_shares(const RowShares& shares, std::int64_t tasks, const Task& task) {
    for (auto& next : next_of_share_) next.store(0, std::memory_order_relaxed);
    pool_->run(tasks * shares.count, [&](std::int64_t) {
      for (std::int64_t share = ThreadPool::worker();; ++share) {
        const std::int64_t mine = share % shares.count;
        const std::int64_t i =
            next_of_share_[static_cast<std::size_t>(mine)].fetch_add(1, std::memory_order_relaxed);
        if (i < tasks) return task(mine, i);
      }
    });
  }
  // Calls task(first row, rows) for some rows at a time.
  template <typename Task>
  void run_rows(std::int64_t rows, const Task& task) {
    const RowShares shares = row_shares(rows, pool_->size());
    run_in_shares(shares, (shares.each + kNormRows - 1) / kNormRows, [&](std::int64_t share, std::int64_t i) {
      const std::int64_t left = shares.size(share) - i * kNormRows;
      if (left > 0) task(shares.first(share) + i * kNormRows, std::min(kNormRows, left));
    });
  }
  void check(const Batch& batch, const CpuKvCache& cache) const;
  // The tail of a batch that does not want all rows (cpu_tail.cpp). Of each sequence the rows that are left
  // there; empty: all are.
  std::vector<RowRange> rows_to_keep(const Batch& batch) const;
  void find_tail();
  // The rows whose queries the tail's attention reads, where leaving out the others is worth it; null: all.
  const RowRange* queries_to_compute(std::size_t op, std::span<const RowRange> kept) const;
  // Moves what is read of the rows after the tail's attention to the beginning of its buffers; how many rows.
  std::int64_t keep_rows(const Batch& batch, std::span<const RowRange> ranges);
  std::int64_t place_of(std::int64_t row) const;  // of a row of the batch among the hidden states
  // Attention of some rows of each sequence.
  void plan_attention(const Batch& batch, const CpuKvCache& cache, int heads,
                      std::span<const RowRange> ranges);
  void apply(const EmbedOp& op, const Batch& batch);
  void apply(const NormOp& op, std::int64_t rows);
  void apply(const LinearOp& op, std::int64_t rows, const RowRange* queries);
  void apply(const AttentionOp& op, const Batch& batch, CpuKvCache& cache);
  void store_keys_and_values(const AttentionOp& op, const SequenceRows& s, int head, CpuKvCache& cache);
  void norm_head(std::span<const std::int64_t> rows);
  // A head that is screened (head_screen.cpp): its codes are the last of the weights.
  void measure_screen();
  bool screen_rows(std::int64_t rows);
  bool find_highest(std::int64_t rows, std::span<TokenId> ids);
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
  // Of a task of a product of rows in shares.
  std::int64_t panels_at_once(const ProductPart& part, const PackedWeight& w, const RowShares& shares) const;
  // Cuts a part of a product with `w` into tasks and calls task(part of the part) for each.
  template <typename Task>
  void run_tasks(const ProductPart& part, const PackedWeight& w, const Task& task) {
    const RowShares shares = row_shares(part.rows.size(), pool_->size());
    const std::int64_t panels = panels_at_once(part, w, shares), groups = (part.panels + panels - 1) / panels;
    run_in_shares(shares, groups, [&](std::int64_t share, std::int64_t group) {
      if (part.rows.size() <= kFewRows) group = in_regions(group, groups, pool_->size());
      const std::int64_t row = part.rows.first + shares.first(share), panel = group * panels;
      task(ProductPart{
          {row, row + shares.size(share)}, part.first_panel + panel, std::min(panels, part.panels - panel)});
    });
  }
  // Inputs lose more by becoming bytes, or one bfloat16, than an activation to 1e-4 does; schemes that repeat
  // the arithmetic of others have it exact.
  bool rounds_inputs(const LinearOp& op) const;
  bool quantizes_tiles(const LinearOp& op) const;  // what a product before it made, as bfloat16
  LinearArgs linear_args(const LinearOp& op, const Buffer& in, std::int64_t rows, const Buffer& out) const;
  // Where `queries` are given, the first outputs, tail_query_panels_ of them, are computed of these rows
  // alone.
  void run_linear(const LinearOp& op, const Buffer& in, std::int64_t rows, Buffer& out,
                  const RowRange* queries = nullptr);
  void run_part(const LinearOp& op, const LinearArgs& whole, const ProductPart& part);
  void fold_zero_points();
  void show_inputs(const LinearOp& op, const Buffer& in, std::int64_t rows) const;
  // Finds outliers and quantizes the inputs of all rows: what run_int8 takes.
  LinearArgs quantize_inputs(const LinearOp& op, LinearArgs whole, const Buffer& in);
  void run_int8(const LinearOp& op, const LinearArgs& whole, const ProductPart& part);
  StaticInput input_of_all(const LinearOp& op, const LinearArgs& whole);
  void run_four_bit(const PackedWeight& w, const LinearArgs& whole, const ProductPart& part);
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
  // Of the screen of the head: the norms of each output's codes, and of what the weights differ from them,
  // with what rounding adds; empty where there is none, or no bound. Of each row the panels that it leaves.
  std::vector<float> code_norms_, error_norms_;
  std::vector<std::uint8_t> panel_marks_;
  std::vector<std::pair<std::int64_t, std::int64_t>> panels_to_compute_;  // row, panel
  std::int64_t panels_left_ = 0, panels_screened_ = 0;                    // of all calls
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
  std::size_t tail_ = 0;                // tail_of(plan_)
  std::size_t tail_product_ = 0;        // tail_product_of(plan_)
  std::int64_t tail_query_panels_ = 0;  // of its outputs the first; 0: panels hold more than queries
  std::vector<BufferId> tail_inputs_;   // what is read after its attention and was written before or by it
  std::vector<std::int64_t> kept_;      // rows of the last batch that have hidden states; unless it kept all
  std::int64_t hidden_rows_ = 0;        // of the last batch
  bool keeps_all_ = true;
  std::vector<AttendTask> attend_tasks_;
  bool has_one_task_each_ = false;  // the sequences, for each of their heads
  std::array<std::atomic<std::int64_t>, kMaxShares> next_of_share_{};
  std::optional<StepProfile> profile_;  // while one is taken
};

// Panels of a task of many rows: the most, up to `most`, with which the threads end together, or nearly so.
std::int64_t panels_of_task(std::int64_t panels, int threads, std::int64_t most);
// The same products of some of the rows.
LinearArgs rows_of(LinearArgs args, std::int64_t first, std::int64_t count);
LinearArgs part_of(const LinearArgs& whole, const ProductPart& part);

}  // namespace assay::cpu
