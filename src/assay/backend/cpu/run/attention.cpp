#include "assay/backend/cpu/run/attention.h"

#include <algorithm>
#include <cmath>

namespace assay::cpu {

namespace {

constexpr std::int64_t kNoKey = std::int64_t{1} << 40;
// Rows of a head that a thread attends at a time: they share the keys while these are in the nearest cache.
constexpr std::int64_t kAttendChunk = kAttendRows;
constexpr std::int64_t kLineFloats = 16;           // the size of a line of the caches
constexpr std::int64_t kRowsAhead = 8;             // whose keys and values are fetched
constexpr std::int64_t kAttendTasksPerThread = 8;  // enough that threads end together

// How many of the new rows are padding. Keys of padding are not kept, so that the others lie in blocks of 64
// as if there were none: a padded sequence gives the bits of an unpadded one.
std::int64_t padding_of(const SequenceRows& s, std::int64_t past) {
  return std::clamp<std::int64_t>(s.first_key - past, 0, s.rows);
}

}  // namespace

void Attention::begin(const Batch& batch) {
  cut_ranges_ = nullptr;
  const auto rows = static_cast<std::int64_t>(batch.positions.size());
  extents_.assign(batch.positions.size(), 0);
  for (const SequenceRows& s : batch.sequences)
    std::fill_n(extents_.begin() + s.first_row, s.rows, s.rows > 0 ? batch.extent_of(s) : 0);
  for (const RotaryTable& table : work_.rotary_tables)
    tasks_.run_rows(rows, [&](std::int64_t first, std::int64_t count) {
      for (std::int64_t row = first; row < first + count; ++row) {
        const std::vector<float>& frequencies =
            table.op->frequencies_of(extents_[static_cast<std::size_t>(row)]);
        for (std::int64_t i = 0; i < table.pairs; ++i) {
          // In float32, as Transformers has it; cosine and sine of exactly that.
          const float angle = static_cast<float>(batch.positions[static_cast<std::size_t>(row)]) *
                              frequencies[static_cast<std::size_t>(i)];
          table.cosines[row * table.pairs + i] =
              static_cast<float>(std::cos(static_cast<double>(angle))) * table.op->amplitude;
          table.sines[row * table.pairs + i] =
              static_cast<float>(std::sin(static_cast<double>(angle))) * table.op->amplitude;
        }
      }
    });
}

void Attention::rotate_head(const RotaryOp& op, std::int64_t first_row, std::int64_t rows,
                            std::int64_t column) {
  const RotaryTable& table = work_.table_of(op);
  const Buffer& buffer = work_[op.buffer];
  packed_.table.rotate({.x = buffer.floats + first_row * buffer.stride + column,
                        .x_stride = buffer.stride,
                        .rows = rows,
                        .heads = 1,
                        .head_dim = op.head_dim,
                        .pairing = op.pairing,
                        .pairs = table.pairs,
                        .cosines = table.cosines + first_row * table.pairs,
                        .sines = table.sines + first_row * table.pairs});
}

void Attention::rotate(const RotaryOp& op, std::int64_t rows) {
  tasks_.run_rows(rows, [&](std::int64_t first, std::int64_t count) {
    for (int head = 0; head < op.heads; ++head)
      rotate_head(op, first, count, op.column + std::int64_t{head} * op.head_dim);
    work_[op.buffer].update_tiles(first, count);
  });
}

// Rows of every head in chunks, the longest first for each sequence, so that threads end together.
void Attention::cut(const AttentionOp& op, const Batch& batch, const CpuKvCache& cache,
                    std::span<const RowRange> ranges) {
  if (cut_heads_ == op.heads && cut_kv_heads_ == op.kv_heads && cut_ranges_ == ranges.data()) return;
  cut_heads_ = op.heads;
  cut_kv_heads_ = op.kv_heads;
  cut_ranges_ = ranges.data();
  cut_.clear();
  has_one_task_each_ = true;
  // Heads lie side by side in the cache: of many sequences a task takes several, so that memory is read in
  // long streams.
  const auto sequences = static_cast<std::int64_t>(batch.sequences.size());
  const int group = op.heads / op.kv_heads;
  heads_together_ = static_cast<int>(std::clamp<std::int64_t>(
      sequences * op.heads / (kAttendTasksPerThread * tasks_.threads()), 1, op.heads));
  // Heads that share keys and values stay together, where that leaves work for all threads.
  const std::int64_t groups = sequences * op.kv_heads, threads = tasks_.threads();
  const auto is_one_row = [](const RowRange& range) { return range.size() == 1; };
  if (groups >= threads)
    heads_together_ = static_cast<int>(round_up(heads_together_, group));
  else if (std::all_of(ranges.begin(), ranges.end(), is_one_row))
    heads_together_ = std::max(heads_together_, static_cast<int>((group * groups + threads - 1) / threads));
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const SequenceRows& s = batch.sequences[i];
    const RowRange& range = ranges[i];
    const std::int64_t past = cache.length(s.sequence) - s.rows, padding = padding_of(s, past);
    has_one_task_each_ =
        has_one_task_each_ && padding == 0 && s.rows <= kAttendChunk && range.size() == s.rows;
    for (std::int64_t end = range.end; end > range.first;) {
      const bool is_padding = end <= padding;
      const std::int64_t first =
          std::max({end - kAttendChunk, range.first, is_padding ? range.first : padding});
      for (int head = 0; head < op.heads; head += heads_together_)
        cut_.push_back({&s, past + first - s.first_key, head, std::min(heads_together_, op.heads - head),
                        first, end - first, is_padding});
      end = first;
    }
  }
}

// Keys and values of one head of one sequence's new rows.
void Attention::store(const Call& call, const SequenceRows& s, int kv_head) {
  const AttentionOp& op = call.op;
  CpuKvCache& cache = call.cache;
  const Buffer& qkv = work_[op.qkv];
  const std::int64_t dim = op.head_dim, past = cache.length(s.sequence) - s.rows;
  const std::int64_t padding = padding_of(s, past), rows = s.rows - padding;
  const std::int64_t first_position = past + padding - s.first_key;
  const std::int64_t k_column = op.k_column() + kv_head * dim, v_column = op.v_column() + kv_head * dim;
  if (call.rotary != nullptr) rotate_head(*call.rotary, s.first_row + padding, rows, k_column);
  const bool has_tiles = qkv.floats == nullptr;
  const float* row_floats = has_tiles ? nullptr : qkv.floats + (s.first_row + padding) * qkv.stride;
  const std::int64_t k_offset = cache.layout().k_offset(op.layer, kv_head),
                     v_offset = cache.layout().v_offset(op.layer, kv_head);
  if (cache.layout().format() != KvFormat::float32) {
    const auto store =
        cache.layout().format() == KvFormat::int8 ? packed_.table.store_int8 : packed_.table.store_bfloat16;
    store({.k = has_tiles ? nullptr : row_floats + k_column,
           .v = has_tiles ? nullptr : row_floats + v_column,
           .stride = qkv.stride,
           .tiles = has_tiles ? qkv.tiles : kNoTiles,
           .first_tile_row = s.first_row + padding,
           .k_column = k_column,
           .v_column = v_column,
           .rows = rows,
           .first_position = first_position,
           .shape = cache.layout().shape(),
           .blocks = cache.blocks(s.sequence),
           .k_offset = k_offset,
           .v_offset = v_offset});
    return;
  }
  const float *k = row_floats + k_column, *v = row_floats + v_column;
  const std::int64_t padded = cache.layout().shape().padded();
  for (std::int64_t row = 0; row < rows; ++row, k += qkv.stride, v += qkv.stride) {
    const std::int64_t at = (first_position + row) % kKvBlock;
    auto* block = static_cast<float*>(cache.blocks(s.sequence)[(first_position + row) / kKvBlock]);
    float* value = block + v_offset + at * padded;
    if (at % kLineFloats == 0)
      for (std::int64_t i = 0; i < dim; ++i) __builtin_prefetch(block + k_offset + i * kKvBlock + at, 1);
    // Rows lie too far apart for the processor to see them coming.
    for (std::int64_t i = 0; i < dim && row + kRowsAhead < rows; i += kLineFloats) {
      __builtin_prefetch(k + kRowsAhead * qkv.stride + i);
      __builtin_prefetch(v + kRowsAhead * qkv.stride + i);
      if (at + kRowsAhead < kKvBlock) __builtin_prefetch(value + kRowsAhead * padded + i, 1);
    }
    for (std::int64_t i = 0; i < dim; ++i) block[k_offset + i * kKvBlock + at] = k[i];
    std::copy(v, v + dim, value);
  }
}

void Attention::attend(const Call& call, const Task& task, int head, int heads, int next) {
  const AttentionOp& op = call.op;
  const CpuKvCache& cache = call.cache;
  const Buffer &qkv = work_[op.qkv], &out = work_[op.out];
  const int group = op.heads / op.kv_heads, kv_head = head / group;
  const std::int64_t row = task.rows->first_row + task.first, column = std::int64_t{head} * op.head_dim;
  if (call.stores_its_own && head % group == 0) store(call, *task.rows, kv_head);
  for (int i = 0; call.rotary != nullptr && i < heads; ++i)
    rotate_head(*call.rotary, row, task.count, column + std::int64_t{i} * op.head_dim);
  const bool is_next_read = call.stores_its_own && next != kNone && next % group == 0;
  const auto kernel = cache.layout().format() == KvFormat::int8       ? packed_.table.attend_int8
                      : cache.layout().format() == KvFormat::bfloat16 ? packed_.table.attend_bfloat16
                                                                      : packed_.table.attend;
  kernel({.q = qkv.floats == nullptr ? nullptr : qkv.floats + row * qkv.stride + column,
          .q_stride = heads > 1 ? op.head_dim : qkv.stride,
          .q_tiles = qkv.floats == nullptr ? qkv.tiles : kNoTiles,
          .q_first_column = column,
          .rows = heads > 1 ? heads : task.count,
          .rows_are_heads = heads > 1,
          .first_position = task.is_padding ? 0 : task.first_position,
          .first_key = task.is_padding ? kNoKey : 0,
          .window = op.window,
          .shape = cache.layout().shape(),
          .scale = op.scale,
          .soft_cap = op.soft_cap,
          .alibi_slopes = op.alibi_slopes.empty() ? nullptr : op.alibi_slopes.data() + head,
          .blocks = cache.blocks(task.rows->sequence),
          .k_offset = cache.layout().k_offset(op.layer, kv_head),
          .v_offset = cache.layout().v_offset(op.layer, kv_head),
          .next_k_offset = is_next_read ? cache.layout().k_offset(op.layer, next / group) : 0,
          .out = out.floats == nullptr ? nullptr : out.floats + row * out.stride + column,
          .out_stride = heads > 1 ? op.head_dim : out.stride,
          .out_tiles = out.tiles,
          .first_tile_row = row,
          .first_tile_column = column,
          .fetch = packed_.fetch});
}

void Attention::run(const AttentionOp& op, const RotaryOp* rotary, const Batch& batch, CpuKvCache& cache,
                    std::span<const RowRange> ranges) {
  cut(op, batch, cache, ranges);
  // A task that alone reads the keys of its heads stores them too: threads wait for each other once less.
  const Call call{op, rotary, cache, has_one_task_each_ && heads_together_ % (op.heads / op.kv_heads) == 0};
  if (!call.stores_its_own)
    tasks_.run(static_cast<std::int64_t>(batch.sequences.size()) * op.kv_heads, [&](std::int64_t task) {
      store(call, batch.sequences[static_cast<std::size_t>(task / op.kv_heads)],
            static_cast<int>(task % op.kv_heads));
    });
  // For few rows memory decides: each thread reads heads that lie side by side. Of many rows the longest go
  // first.
  const bool is_in_regions =
      std::all_of(cut_.begin(), cut_.end(), [](const Task& t) { return t.count == 1; });
  const std::int64_t step = is_in_regions ? 1 : tasks_.threads();
  const auto attend_task = [&](std::int64_t index) {
    const Task& task = cut_[static_cast<std::size_t>(index)];
    const int group = op.heads / op.kv_heads, end = task.head + task.heads;
    // The task that this thread will probably take next, if of the same sequence.
    const auto next_index = static_cast<std::size_t>(index + step);
    const int next_head =
        next_index < cut_.size() && cut_[next_index].rows == task.rows ? cut_[next_index].head : kNone;
    // For one row the heads of a group go together: its keys and values are read once.
    const bool are_together = task.count == 1 && work_[op.qkv].floats != nullptr;
    for (int head = task.head, heads = 1; head < end; head += heads) {
      heads = are_together ? std::min(end, (head / group + 1) * group) - head : 1;
      attend(call, task, head, heads, head + heads < end ? head + heads : next_head);
    }
    packed_.table.end_attending();
  };
  const auto count = static_cast<std::int64_t>(cut_.size());
  is_in_regions ? tasks_.run_in_regions(count, attend_task) : tasks_.run(count, attend_task);
}

}  // namespace assay::cpu
