// Keys and values on the CPU, float32: blocks of 64 positions that hold all layers.
#pragma once

#include <vector>

#include "assay/backend/backend.h"
#include "assay/base/aligned.h"

namespace assay::cpu {

// Within a block: per layer, per head, keys [head_dim][64] (position last, so that 16 scores are one vector),
// then per head, values [64][padded], padded = head_dim rounded up to 16.
class CpuKvCache : public KvCache {
 public:
  CpuKvCache(int layers, int heads, int head_dim);

  int add_sequence() override;
  void remove_sequence(int sequence) override;
  void truncate(int sequence, std::int64_t length) override;
  std::int64_t length(int sequence) const override { return at(sequence).length; }
  Bytes bytes() const override;

  // Takes blocks until `rows` more positions fit, and counts them as held.
  void grow(int sequence, std::int64_t rows);
  // Block pointers of a sequence, one per 64 positions.
  const float* const* blocks(int sequence) const { return at(sequence).pointers.data(); }
  float* block(int sequence, std::int64_t position) {
    return at(sequence).blocks[static_cast<std::size_t>(position / kKvBlock)].floats();
  }
  std::int64_t k_offset(int layer, int head) const {
    return layer * layer_floats_ + head * head_dim_ * kKvBlock;
  }
  std::int64_t v_offset(int layer, int head) const {
    return layer * layer_floats_ + heads_ * head_dim_ * kKvBlock + head * padded_ * kKvBlock;
  }
  std::int64_t padded() const { return padded_; }

 private:
  struct Sequence {
    bool is_used = false;
    std::int64_t length = 0;
    std::vector<AlignedBuffer> blocks;
    std::vector<const float*> pointers;
  };
  Sequence& at(int sequence);
  const Sequence& at(int sequence) const;

  int layers_;
  std::int64_t heads_, head_dim_, padded_, layer_floats_;
  std::vector<Sequence> sequences_;
  std::vector<AlignedBuffer> free_blocks_;  // returned by sequences that ended
};

}  // namespace assay::cpu
