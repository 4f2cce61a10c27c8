// Keys and values on the CPU, in float32, bfloat16 or int8: blocks of 64 positions that hold all layers.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "assay/backend/common/paged_kv_cache.h"
#include "assay/backend/cpu/kernels/kernels.h"
#include "assay/base/aligned.h"

namespace assay::cpu {

// Within a block: per layer, the keys of each head, then the values of each head, as kernels.h lays them out.
class KvLayout {
 public:
  explicit KvLayout(const Plan& plan);

  KvFormat format() const { return format_; }
  KvShape shape() const { return shape_; }
  // In elements, of int8 in bytes, from the beginning of a block.
  std::int64_t k_offset(int layer, int head) const { return layer * layer_size_ + head * key_size_; }
  std::int64_t v_offset(int layer, int head) const {
    return layer * layer_size_ + heads_ * key_size_ + head * value_size_;
  }
  std::int64_t block_bytes() const;
  Bytes bytes_of(std::int64_t length) const {
    return {kv_pages_of(length) * block_bytes()};
  }  // that a sequence holds

 private:
  KvFormat format_;
  int layers_;
  std::int64_t heads_;
  KvShape shape_;
  std::int64_t key_size_, value_size_, layer_size_;  // per block, in elements, of int8 in bytes
};

// The blocks of all caches of a program. Those that sequences gave back are kept for those that come later:
// fresh memory costs as much as filling it. One user at a time.
class KvBlockPool {
 public:
  using Page = void*;

  explicit KvBlockPool(const KvLayout& layout) : layout_(layout) {}
  const KvLayout& layout() const { return layout_; }
  std::int64_t page_bytes() const { return layout_.block_bytes(); }
  Page take();
  void give_back(Page block);
  void reserve(std::int64_t /*blocks*/) {}  // each is an allocation of its own
  // Gives back what no sequence uses.
  void trim() { free_.clear(); }

 private:
  KvLayout layout_;
  std::unordered_map<Page, AlignedBuffer> used_;
  std::vector<AlignedBuffer> free_;
};

class CpuKvCache : public PagedKvCache<KvBlockPool> {
 public:
  using PagedKvCache::PagedKvCache;

  const KvLayout& layout() const { return pool().layout(); }
  // Block pointers of a sequence, one per 64 positions.
  void* const* blocks(int sequence) const { return pages(sequence).data(); }
};

}  // namespace assay::cpu
