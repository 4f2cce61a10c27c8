// Keys and values on the CPU, in float32, bfloat16 or int8: blocks of 64 positions that hold all layers.
#pragma once

#include <memory>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/backend/cpu/kernels/kernels.h"
#include "assay/base/aligned.h"

namespace assay::cpu {

// Blocks that sequences gave back, for those that come later: fresh pages cost as much as filling them. One
// user at a time.
using KvBlockPool = std::vector<AlignedBuffer>;

// Within a block: per layer, the keys of each head, then the values of each head, as kernels.h lays them out.
class CpuKvCache : public KvCache {
 public:
  CpuKvCache(int layers, int heads, int head_dim, KvFormat format, std::shared_ptr<KvBlockPool> pool);
  ~CpuKvCache() override;
  CpuKvCache(const CpuKvCache&) = delete;
  CpuKvCache& operator=(const CpuKvCache&) = delete;

  int add_sequence() override;
  void remove_sequence(int sequence) override;
  void truncate(int sequence, std::int64_t length) override;
  std::int64_t length(int sequence) const override { return at(sequence).length; }
  Bytes bytes() const override;
  Bytes bytes_of(std::int64_t length) const;  // of a sequence

  // Takes blocks until `rows` more positions fit, and counts them as held.
  void grow(int sequence, std::int64_t rows);
  // Block pointers of a sequence, one per 64 positions.
  void* const* blocks(int sequence) const { return at(sequence).pointers.data(); }
  // In elements, of int8 in bytes, from the beginning of a block.
  std::int64_t k_offset(int layer, int head) const { return layer * layer_size_ + head * key_size_; }
  std::int64_t v_offset(int layer, int head) const {
    return layer * layer_size_ + heads_ * key_size_ + head * value_size_;
  }
  KvShape shape() const { return shape_; }
  KvFormat format() const { return format_; }

 private:
  struct Sequence {
    bool is_used = false;
    std::int64_t length = 0;
    std::vector<AlignedBuffer> blocks;
    std::vector<void*> pointers;
  };
  Sequence& at(int sequence);
  const Sequence& at(int sequence) const;
  std::size_t block_bytes() const;
  void give_back(AlignedBuffer block);

  KvFormat format_;
  int layers_;
  std::int64_t heads_;
  KvShape shape_;
  std::int64_t key_size_, value_size_, layer_size_;  // per block, in elements, of int8 in bytes
  std::vector<Sequence> sequences_;
  std::shared_ptr<KvBlockPool> free_blocks_;
};

}  // namespace assay::cpu
