// Attention: keys and values into the cache, and the tasks of the heads.
#include <algorithm>

#include "assay/backend/cpu/cpu_program.h"

namespace assay::cpu {

namespace {

constexpr std::int64_t kNoKey = std::int64_t{1} << 40;
// Rows of a head that a thread attends at a time: they share the keys while these are in the nearest cache.
constexpr std::int64_t kAttendChunk = kAttendRows;
constexpr std::int64_t kLineFloats = 16;           // of a line of the caches
constexpr std::int64_t kRowsAhead = 8;             // whose keys and values are fetched
constexpr std::int64_t kAttendTasksPerThread = 8;  // enough that threads end together

// How many of the new rows are padding. Keys of padding are not kept, so that the others lie in blocks of 64
// as if there were none: a padded sequence gives the bits of an unpadded one.
std::int64_t padding_of(const SequenceRows& s, std::int64_t past) {
  return std::clamp<std::int64_t>(s.first_key - past, 0, s.rows);
}

}  // namespace

// Rows of every head in chunks, the longest first for each sequence, so that threads end together.
void CpuProgram::plan_attention(const Batch& batch, const CpuKvCache& cache, int heads,
                                std::span<const RowRange> ranges) {
  attend_tasks_.clear();
  has_one_task_each_ = true;
  // Heads lie side by side in the cache: of many sequences a task takes several, so that memory is read in
  // long streams.
  const auto sequences = static_cast<std::int64_t>(batch.sequences.size());
  const auto together = static_cast<int>(
      std::clamp<std::int64_t>(sequences * heads / (kAttendTasksPerThread * pool_->size()), 1, heads));
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
      for (int head = 0; head < heads; head += together)
        attend_tasks_.push_back({&s, past + first - s.first_key, head, std::min(together, heads - head),
                                 first, end - first, is_padding});
      end = first;
    }
  }
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
  const std::int64_t padded = cache.shape().padded();
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
    table_.end_attending();
  });
}

}  // namespace assay::cpu
