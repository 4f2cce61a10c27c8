// Keys and values in the memory of a GPU: pages of 64 positions that hold all layers (layout.h), cut from a
// few large allocations.
#pragma once

#include <memory>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/backend/cuda/memory/device_memory.h"

namespace assay::cuda {

CacheLayout cache_layout_of(const Plan& plan);

// The pages of all caches of a program. Grows by what reserve() asks for; else in steps that double, up to 64
// MB. One user at a time.
class PagePool {
 public:
  using Page = DevicePointer<std::byte>;

  PagePool(std::shared_ptr<Runtime> runtime, const CacheLayout& layout)
      : runtime_(std::move(runtime)), layout_(layout) {}
  const CacheLayout& layout() const { return layout_; }
  Page take();
  void give_back(Page page);
  // Takes memory until this many pages more can be had.
  void reserve(std::int64_t pages);
  // Gives back what holds no page that is in use.
  void trim();
  Bytes free_bytes() const { return {static_cast<std::int64_t>(free_.size()) * page_bytes()}; }

 private:
  struct Slab {
    OwnedMemory memory;
    std::int64_t used = 0;  // pages
  };
  std::int64_t page_bytes() const { return layout_.page_bytes() > 0 ? layout_.page_bytes() : 1; }
  void add_slab(std::int64_t pages);
  Slab& slab_of(Page page);

  std::shared_ptr<Runtime> runtime_;
  CacheLayout layout_;
  std::vector<Slab> slabs_;
  std::vector<Page> free_;
  std::int64_t pages_ = 0;
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
  Bytes bytes() const override { return {held() * pool_->layout().page_bytes()}; }
  void reserve(std::int64_t blocks) override { pool_->reserve(blocks - held()); }

  // Takes pages until `rows` more positions fit, and counts them as held.
  void grow(int sequence, std::int64_t rows);
  const std::vector<PagePool::Page>& pages(int sequence) const { return at(sequence).pages; }

 private:
  struct Sequence {
    bool is_used = false;
    std::int64_t length = 0;
    std::vector<PagePool::Page> pages;
  };
  Sequence& at(int sequence);
  const Sequence& at(int sequence) const;
  std::int64_t held() const;  // pages

  std::shared_ptr<PagePool> pool_;
  std::vector<Sequence> sequences_;
};

// Of a sequence of this many tokens.
Bytes cache_bytes_of(const CacheLayout& layout, std::int64_t length);

}  // namespace assay::cuda
