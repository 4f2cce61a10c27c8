#include "assay/backend/cuda/memory/kv_cache.h"

#include <algorithm>
#include <functional>

namespace assay::cuda {

namespace {

CacheFormat cache_format_of(KvFormat format) {
  switch (format) {
    case KvFormat::float32:
      return CacheFormat::float32;
    case KvFormat::bfloat16:
      return CacheFormat::bfloat16;
    case KvFormat::int8:
      return CacheFormat::int8;
    case KvFormat::float16:
      return CacheFormat::float16;
  }
  return CacheFormat::float32;
}

}  // namespace

CacheLayout cache_layout_of(const Plan& plan) {
  return {cache_format_of(plan.kv_format), plan.layers, plan.kv_heads, plan.head_dim};
}

Bytes cache_bytes_of(const CacheLayout& layout, std::int64_t length) {
  return {kv_pages_of(length) * layout.page_bytes()};
}

void PagePool::add_slab(std::int64_t pages) {
  slabs_.push_back({OwnedMemory(runtime_, pages * held_bytes()), 0});
  // The last to be taken is the slab's first.
  for (std::int64_t i = pages; i > 0; --i)
    free_.push_back(slabs_.back().memory.get() + (i - 1) * held_bytes());
  pages_ += pages;
}

PagePool::Slab& PagePool::slab_of(Page page) {
  return *std::find_if(slabs_.begin(), slabs_.end(), [&](const Slab& slab) {
    const std::byte* const begin = slab.memory.get().address;
    return !std::less<>()(page.address, begin) && std::less<>()(page.address, begin + slab.memory.bytes());
  });
}

PagePool::Page PagePool::take() {
  constexpr std::int64_t kMaxStep = std::int64_t{64} << 20;
  if (free_.empty())
    add_slab(std::clamp<std::int64_t>(pages_, 1, std::max<std::int64_t>(kMaxStep / held_bytes(), 1)));
  const Page page = free_.back();
  free_.pop_back();
  ++slab_of(page).used;
  return page;
}

// What is kept counts as taken when the next batch is predicted, so a large batch goes back to the device.
void PagePool::give_back(Page page) {
  constexpr std::int64_t kKeptBytes = std::int64_t{256} << 20;
  free_.push_back(page);
  --slab_of(page).used;
  if (free_bytes().value > kKeptBytes) trim();
}

void PagePool::reserve(std::int64_t pages) {
  const std::int64_t missing = pages - static_cast<std::int64_t>(free_.size());
  if (missing > 0) add_slab(missing);
}

void PagePool::trim() {
  std::erase_if(free_, [&](Page page) { return slab_of(page).used == 0; });
  std::erase_if(slabs_, [&](const Slab& slab) {
    if (slab.used > 0) return false;
    pages_ -= slab.memory.bytes() / held_bytes();
    return true;
  });
}

}  // namespace assay::cuda
