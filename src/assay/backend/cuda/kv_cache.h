// Keys and values in the memory of a GPU: pages of 64 positions that hold all layers (layout.h).
#pragma once

#include <memory>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/backend/cuda/device_memory.h"

namespace assay::cuda {

CacheLayout cache_layout_of(const Plan& plan);

// Pages that sequences gave back, for those that come later. One user at a time.
struct PagePool {
  std::shared_ptr<Runtime> runtime;
  CacheLayout layout;
  std::vector<OwnedMemory> free;
};

class CudaKvCache : public KvCache {
 public:
  explicit CudaKvCache(std::shared_ptr<PagePool> pool) : pool_(std::move(pool)) {}
  ~CudaKvCache() override;
  CudaKvCache(const CudaKvCache&) = delete;
  CudaKvCache& operator=(const CudaKvCache&) = delete;

  int add_sequence() override;
  void remove_sequence(int sequence) override;
  void truncate(int sequence, std::int64_t length) override;
  std::int64_t length(int sequence) const override { return at(sequence).length; }
  Bytes bytes() const override;

  // Takes pages until `rows` more positions fit, and counts them as held.
  void grow(int sequence, std::int64_t rows);
  const std::vector<OwnedMemory>& pages(int sequence) const { return at(sequence).pages; }

 private:
  struct Sequence {
    bool is_used = false;
    std::int64_t length = 0;
    std::vector<OwnedMemory> pages;
  };
  Sequence& at(int sequence);
  const Sequence& at(int sequence) const;
  void give_back(OwnedMemory page);

  std::shared_ptr<PagePool> pool_;
  std::vector<Sequence> sequences_;
};

// Of a sequence of this many tokens.
Bytes cache_bytes_of(const CacheLayout& layout, std::int64_t length);

}  // namespace assay::cuda
