#include "assay/backend/cuda/kv_cache.h"

#include <algorithm>
#include <cassert>

namespace assay::cuda {

namespace {

std::int64_t pages_of(std::int64_t length) {
  return (length + kPagePositions - 1) / kPagePositions;
}

CacheFormat format_of(KvFormat format) {
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
  return {format_of(plan.kv_format), plan.layers, plan.kv_heads, plan.head_dim};
}

Bytes cache_bytes_of(const CacheLayout& layout, std::int64_t length) {
  return {pages_of(length) * layout.page_bytes()};
}

CudaKvCache::~CudaKvCache() {
  for (Sequence& s : sequences_)
    for (OwnedMemory& page : s.pages) give_back(std::move(page));
}

CudaKvCache::Sequence& CudaKvCache::at(int sequence) {
  assert(sequence >= 0 && static_cast<std::size_t>(sequence) < sequences_.size());
  return sequences_[static_cast<std::size_t>(sequence)];
}
const CudaKvCache::Sequence& CudaKvCache::at(int sequence) const {
  assert(sequence >= 0 && static_cast<std::size_t>(sequence) < sequences_.size());
  return sequences_[static_cast<std::size_t>(sequence)];
}

// What is kept counts as taken when the next batch is predicted, so a large batch goes back to the device.
void CudaKvCache::give_back(OwnedMemory page) {
  constexpr std::int64_t kKeptBytes = std::int64_t{256} << 20;
  const auto kept = static_cast<std::int64_t>(pool_->free.size());
  if ((kept + 1) * pool_->layout.page_bytes() <= kKeptBytes) pool_->free.push_back(std::move(page));
}

int CudaKvCache::add_sequence() {
  const auto unused =
      std::find_if(sequences_.begin(), sequences_.end(), [](const Sequence& s) { return !s.is_used; });
  const auto index = static_cast<int>(unused - sequences_.begin());
  if (unused == sequences_.end()) sequences_.emplace_back();
  at(index).is_used = true;
  return index;
}

void CudaKvCache::remove_sequence(int sequence) {
  truncate(sequence, 0);
  at(sequence).is_used = false;
}

void CudaKvCache::truncate(int sequence, std::int64_t length) {
  Sequence& s = at(sequence);
  assert(length >= 0 && length <= s.length);
  s.length = length;
  while (static_cast<std::int64_t>(s.pages.size()) > pages_of(length)) {
    give_back(std::move(s.pages.back()));
    s.pages.pop_back();
  }
}

void CudaKvCache::grow(int sequence, std::int64_t rows) {
  Sequence& s = at(sequence);
  while (static_cast<std::int64_t>(s.pages.size()) < pages_of(s.length + rows)) {
    if (pool_->free.empty()) {
      s.pages.emplace_back(pool_->runtime, pool_->layout.page_bytes());
    } else {
      s.pages.push_back(std::move(pool_->free.back()));
      pool_->free.pop_back();
    }
  }
  s.length += rows;
}

Bytes CudaKvCache::bytes() const {
  std::int64_t pages = 0;
  for (const Sequence& s : sequences_) pages += static_cast<std::int64_t>(s.pages.size());
  return {pages * pool_->layout.page_bytes()};
}

}  // namespace assay::cuda
