// Attention of a step: keys and values into the cache, and the tasks of the heads.
#pragma once

#include <span>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/backend/cpu/lower/packed_plan.h"
#include "assay/backend/cpu/memory/kv_cache.h"
#include "assay/backend/cpu/memory/workspace.h"
#include "assay/backend/cpu/run/tasks.h"

namespace assay::cpu {

class Attention {
 public:
  Attention(const PackedPlan& packed, Tasks& tasks, Workspace& work)
      : packed_(packed), tasks_(tasks), work_(work) {}

  // Before the first operation of a step: cosines and sines of its positions.
  void begin(const Batch& batch);
  // Attention of some rows of each sequence; keys and values of all are stored. `rotary`, where it is given,
  // turns queries and keys on their way.
  void run(const AttentionOp& op, const RotaryOp* rotary, const Batch& batch, CpuKvCache& cache,
           std::span<const RowRange> ranges);
  // In place, of all heads of all rows.
  void rotate(const RotaryOp& op, std::int64_t rows);

 private:
  struct Task {
    const SequenceRows* rows;
    std::int64_t first_position;  // among the keys that are kept
    int head, heads;              // the first, and how many
    std::int64_t first, count;    // within the sequence's new rows
    bool is_padding;              // rows that see no key
  };
  // What is the same for all tasks of one operation.
  struct Call {
    const AttentionOp& op;
    const RotaryOp* rotary;
    CpuKvCache& cache;
    bool stores_its_own;  // a task stores the keys and values that it alone reads
  };
  void cut(const AttentionOp& op, const Batch& batch, const CpuKvCache& cache,
           std::span<const RowRange> ranges);
  void store(const Call& call, const SequenceRows& s, int kv_head);
  // Attends some heads that share keys and values, from `head` on.
  void attend(const Call& call, const Task& task, int head, int heads, int next);
  void rotate_head(const RotaryOp& op, std::int64_t first_row, std::int64_t rows, std::int64_t column);

  const PackedPlan& packed_;
  Tasks& tasks_;
  Workspace& work_;
  std::vector<Task> cut_;
  std::vector<std::int64_t> extents_;  // for the sequence of each row
  int heads_together_ = 1;
  bool has_one_task_each_ = false;  // the sequences, for each of their heads
  // What cut_ was made for, within a step.
  int cut_heads_ = 0, cut_kv_heads_ = 0;
  const RowRange* cut_ranges_ = nullptr;
};

}  // namespace assay::cpu
