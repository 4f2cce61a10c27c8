// The memory of a GPU that a program computes in: one allocation.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "assay/backend/cuda/lower/pack.h"
#include "assay/backend/cuda/run/gemm_choice.h"
#include "assay/backend/cuda/run/gemm_library.h"
#include "assay/backend/held_logits.h"
#include "assay/base/device.h"

namespace assay::cuda {

inline constexpr std::int64_t kMaxRows = 512;
inline constexpr std::int64_t kHeadRows = 32;     // logits held at once
inline constexpr std::int64_t kQueuedSteps = 16;  // greedy ones whose tokens are held
// Rows whose logits, and what they are reduced to, take half of kHeldBytes; at least one.
constexpr std::int64_t held_rows_of(std::int64_t vocab) {
  const std::int64_t row = vocab * 4 + slices_of(vocab) * static_cast<std::int64_t>(sizeof(RowSlice));
  return std::clamp<std::int64_t>(kHeldBytes / 2 / row, 1, kHeadRows);
}

// Activations, float32, a row per token of the batch.
struct Buffer {
  DevicePointer<float> data;
  std::int64_t columns = 0, stride = 0;  // in elements
};

// Cosines and sines of one kind of rotary embedding: of each position, [context][pairs] each, followed by as
// many of the long frequencies where there are some; and of each row of a step, [kMaxRows][pairs] each.
struct RotaryTable {
  const RotaryOp* op = nullptr;
  std::int64_t pairs = 0, all_cosines_at = 0, all_sines_at = 0, cosines_at = 0, sines_at = 0;
  bool has_long() const { return !op->long_frequencies.empty(); }
};

// What a batch tells of its rows, int32, [kMaxRows] each, one behind the other.
enum RowFact { kIds, kPositions, kAngles, kKeys, kFirstPages, kKept, kKeptKeys, kKeptFirstPages, kRowFacts };

// Where everything lies, from the beginning of the allocation. Takes no memory. The plan outlives it.
struct WorkspaceLayout {
  WorkspaceLayout(const Plan& plan, const DeviceFacts& facts, const GemmWays& ways = {});

  struct Place {
    std::int64_t at = 0, columns = 0, stride = 0;
  };
  std::vector<Place> buffers;  // the plan's
  Place head_normed, logits;   // for kHeadRows rows
  std::int64_t gathered_at = 0;
  std::vector<RotaryTable> rotary_tables;
  std::int64_t row_facts_at = 0;                             // RowFact
  std::int64_t pages_at = 0, most_pages = 0;                 // addresses
  std::int64_t head_rows_at = 0, targets_at = 0;             // int32 [kHeadRows]
  std::int64_t log_probabilities_at = 0;                     // double [kHeadRows]
  std::int64_t every_row_at = 0;                             // int32 [kMaxRows]: 0, 1, ...
  std::int64_t highest_at = 0;                               // int32 [kHeadRows]
  std::int64_t slices_at = 0;                                // RowSlice, of held_rows_of() rows
  std::int64_t best_keys_at = 0;                             // uint64 [kMaxRows], 0 between steps
  std::int64_t tokens_at = 0, made_at = 0;                   // int32 [kMaxRows][kQueuedSteps] and [kMaxRows]
  std::int64_t codes_at = 0, absmax_at = 0, zeros_at = 0;    // for int8 inputs
  std::int64_t ranges_at = 0;                                // float32 [2 * kMaxRows]
  std::int64_t marks_at = 0, outliers_at = 0, count_at = 0;  // for LLM.int8()
  std::int64_t seen_at = 0;                                  // int64 [2]
  std::int64_t scratch_at = 0, scratch_floats = 0;           // for attention
  std::int64_t counters_at = 0, counters_bytes = 0;          // uint32, 0 between kernels of attention
  std::int64_t gemm_at = 0, gemm_bytes = 0;                  // Scratch of multiplications of many rows
  std::int64_t ordered_at = 0, ordered_stride = 0;           // OrderedRowsOut [kFewRows]
  std::int64_t moments_at = 0, moments_stride = 0;           // MomentParts [kFewRows]
  std::int64_t expanded_at = 0, expanded_bytes = 0;          // for a library: one matrix row by row,
  std::int64_t library_at = 0, library_bytes = 0;            // and what it works in
  std::int64_t bytes = 0;

  // The longest sequence that takes the short frequencies; 0: all do.
  std::int64_t rotary_switch() const;

 private:
  void place_buffers(const Plan& plan, Offsets& offsets);
  void place_rotary_tables(const Plan& plan, Offsets& offsets);
  void place_int8_inputs(const Plan& plan, Offsets& offsets);
  void place_gemm_scratch(const Plan& plan, const DeviceFacts& facts, Offsets& offsets);
  void place_ordered_rows(const Plan& plan, Offsets& offsets);
  void place_library_scratch(const Plan& plan, const DeviceFacts& facts, const GemmWays& ways,
                             Offsets& offsets);
};

class Workspace {
 public:
  Workspace(const Plan& plan, const std::shared_ptr<Runtime>& runtime, const GemmWays& ways)
      : layout_(plan, runtime->facts(), ways), memory_(runtime, layout_.bytes) {}
  const WorkspaceLayout& layout() const { return layout_; }
  template <typename T>
  DevicePointer<T> at(std::int64_t offset) const {
    return memory_.at<T>(offset);
  }
  Buffer operator[](BufferId id) const { return buffer(layout_.buffers[static_cast<std::size_t>(id)]); }
  Buffer head_normed() const { return buffer(layout_.head_normed); }
  Buffer logits() const { return buffer(layout_.logits); }
  DevicePointer<std::int32_t> rows(RowFact fact) const {
    return at<std::int32_t>(layout_.row_facts_at) + fact * kMaxRows;
  }
  Scratch gemm_scratch() const { return {at<std::byte>(layout_.gemm_at), layout_.gemm_bytes}; }
  LibraryScratch library_scratch() const {
    return {{at<std::byte>(layout_.expanded_at), layout_.expanded_bytes},
            {at<std::byte>(layout_.library_at), layout_.library_bytes}};
  }
  const RotaryTable& table_of(const RotaryOp& op) const;

 private:
  Buffer buffer(const WorkspaceLayout::Place& place) const {
    return {at<float>(place.at), place.columns, place.stride};
  }

  WorkspaceLayout layout_;
  OwnedMemory memory_;
};

}  // namespace assay::cuda
