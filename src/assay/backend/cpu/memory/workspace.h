// The memory that a program computes in: activations in the forms that their readers want, and what quantized
// matrix multiplications need beside them.
#pragma once

#include <atomic>
#include <vector>

#include "assay/backend/cpu/lower/packed_plan.h"
#include "assay/backend/cpu/run/tasks.h"
#include "assay/base/aligned.h"

namespace assay::cpu {

inline constexpr std::int64_t kHeadRows = 32;  // logits held at once
// Panels a task of many rows takes at most: they share the rows while these are near.
inline constexpr std::int64_t kManyRowsPanels = 4 * kGroup;

// Panels that 4-bit codes become at a time: even, so that pairs of columns stay whole.
inline constexpr std::int64_t kExpandedPanels = kGroup;

// Activations, a row per token of the batch.
struct Buffer {
  std::int64_t columns = 0;
  std::int64_t stride = 0;
  float* floats = nullptr;  // [rows][stride]; null where only tile products read it
  Tiles tiles = kNoTiles;   // none where no tile products do
  bool is_rounded = false;  // to bfloat16 or to bytes by all that reads it

  // A row in each form that the buffer has; `x` may be the row itself.
  void put_row(std::int64_t row, const float* x) const;
  // Rows whose floats have changed, as tiles too, where there are any.
  void update_tiles(std::int64_t first_row, std::int64_t rows) const;
};

// What a buffer needs of memory: floats, then tiles.
struct BufferForm {
  std::int64_t columns = 0, rows = 0;
  bool has_floats = false;
  int planes = 0;
  std::int64_t stride() const;
  std::int64_t float_bytes() const;
  Tiles tiles(std::byte* data) const;  // without memory where that is null
  std::int64_t bytes() const;
  // Columns that must stay zero.
  bool has_tile_padding() const { return planes > 0 && columns % kTileColumns != 0; }
};

// One allocation for all activations: huge pages serve them, where each alone would be too small for one.
class Arena {
 public:
  // Counts first, gives after reserve().
  std::byte* take(std::int64_t bytes);
  void reserve();
  std::int64_t size() const { return used_; }

 private:
  AlignedBuffer memory_;
  std::int64_t used_ = 0;
};

// Codes of the activations of one int8 matrix multiplication at a time.
struct Int8Inputs {
  Tiles codes = kNoTiles;
  float* absmax = nullptr;
  std::int32_t* zero_points = nullptr;
};

// Cosines and sines of one kind of rotary embedding, of each row of a step.
struct RotaryTable {
  const RotaryOp* op = nullptr;
  std::int64_t pairs = 0;
  float *cosines = nullptr, *sines = nullptr;  // [rows][pairs]
};

class Workspace {
 public:
  // Only counts what it would take, until reserve().
  Workspace(const PackedPlan& packed, int threads);
  void reserve();  // throws Error where the memory cannot be had
  std::int64_t bytes() const { return arena_.size(); }

  Buffer& operator[](BufferId id) { return buffers_[static_cast<std::size_t>(id)]; }
  Buffer head_normed;  // for kMaxRows rows
  Buffer logits;       // for kHeadRows rows
  Int8Inputs int8;
  // Activations of `rows` rows as int8 beside 4-bit codes.
  CodedRows coded_rows(std::int64_t rows) const;
  // The same beside grouped codes.
  GroupedRows grouped_rows(std::int64_t rows) const;
  std::vector<RotaryTable> rotary_tables;
  const RotaryTable& table_of(const RotaryOp& op) const;

  // For each thread: panels that 4-bit codes become, and outputs that wait for their gate, `gate_columns` of
  // both halves together.
  std::byte* expanded(int thread) const { return expanded_ + thread * expanded_bytes_; }
  float* gate_outputs(int thread) const { return gate_outputs_ + thread * kMaxRows * kGateColumns; }
  static constexpr std::int64_t kGateColumns = 2 * kManyRowsPanels * kPanel;

 private:
  void lay_out();
  void make_buffers();
  void make_quantized_buffers();
  void make_grouped_rows();
  void make_rotary_tables();
  std::vector<BufferForm> forms() const;
  Placement place_buffers(const std::vector<BufferForm>& forms) const;

  const PackedPlan& packed_;
  int threads_;
  Arena arena_;
  std::vector<Buffer> buffers_;
  std::int64_t expanded_bytes_ = 0;
  CodedRows coded_{};
  GroupedRows grouped_{};
  std::byte* expanded_ = nullptr;
  float* gate_outputs_ = nullptr;
};

}  // namespace assay::cpu
