// Keys and values in the memory of a GPU: pages of 64 positions that hold all layers (layout.h), cut from a
// few large allocations.
#pragma once

#include <memory>
#include <vector>

#include "assay/backend/common/paged_kv_cache.h"
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
  std::int64_t page_bytes() const { return layout_.page_bytes(); }
  Page take();
  void give_back(Page page);
  // Takes memory until this many pages more can be had.
  void reserve(std::int64_t pages);
  // Gives back what holds no page that is in use.
  void trim();
  Bytes free_bytes() const { return {static_cast<std::int64_t>(free_.size()) * held_bytes()}; }

 private:
  struct Slab {
    OwnedMemory memory;
    std::int64_t used = 0;  // pages
  };
  std::int64_t held_bytes() const { return page_bytes() > 0 ? page_bytes() : 1; }  // that a page holds
  void add_slab(std::int64_t pages);
  Slab& slab_of(Page page);

  std::shared_ptr<Runtime> runtime_;
  CacheLayout layout_;
  std::vector<Slab> slabs_;
  std::vector<Page> free_;
  std::int64_t pages_ = 0;
};

using CudaKvCache = PagedKvCache<PagePool>;

// Bytes of a sequence of this many tokens.
Bytes cache_bytes_of(const CacheLayout& layout, std::int64_t length);

}  // namespace assay::cuda
