#include "assay/backend/cpu/memory/kv_cache.h"

#include <algorithm>
#include <cassert>

namespace assay::cpu {

namespace {

constexpr std::int64_t element_bytes(KvFormat format) {
  return format == KvFormat::int8 ? 1 : format == KvFormat::bfloat16 ? 2 : 4;
}
// Of the keys or the values of a head in a block, in elements: scales follow codes.
constexpr std::int64_t size_of(KvFormat format, std::int64_t columns) {
  return columns * kKvBlock + (format == KvFormat::int8 ? kInt8ScaleBytes : 0);
}

}  // namespace

CpuKvCache::CpuKvCache(int layers, int heads, int head_dim, KvFormat format,
                       std::shared_ptr<KvBlockPool> pool)
    : format_(format),
      layers_(layers),
      heads_(heads),
      shape_{head_dim},
      key_size_(size_of(format, format == KvFormat::bfloat16 ? shape_.dim_padded() : head_dim)),
      value_size_(size_of(format, shape_.padded())),
      layer_size_(heads_ * (key_size_ + value_size_)),
      free_blocks_(std::move(pool)) {}

CpuKvCache::~CpuKvCache() {
  for (Sequence& s : sequences_)
    for (AlignedBuffer& block : s.blocks) give_back(std::move(block));
}

std::size_t CpuKvCache::block_bytes() const {
  return static_cast<std::size_t>(layers_ * layer_size_ * element_bytes(format_));
}

CpuKvCache::Sequence& CpuKvCache::at(int sequence) {
  assert(sequence >= 0 && static_cast<std::size_t>(sequence) < sequences_.size());
  return sequences_[static_cast<std::size_t>(sequence)];
}
const CpuKvCache::Sequence& CpuKvCache::at(int sequence) const {
  assert(sequence >= 0 && static_cast<std::size_t>(sequence) < sequences_.size());
  return sequences_[static_cast<std::size_t>(sequence)];
}

// What is kept counts as taken when the next batch is predicted, so a large batch goes back to the system.
void CpuKvCache::give_back(AlignedBuffer block) {
  constexpr std::size_t kKeptBytes = std::size_t{256} << 20;
  if ((free_blocks_->size() + 1) * block_bytes() <= kKeptBytes) free_blocks_->push_back(std::move(block));
}

int CpuKvCache::add_sequence() {
  const auto unused =
      std::find_if(sequences_.begin(), sequences_.end(), [](const Sequence& s) { return !s.is_used; });
  const auto index = static_cast<int>(unused - sequences_.begin());
  if (unused == sequences_.end()) sequences_.emplace_back();
  sequences_[static_cast<std::size_t>(index)].is_used = true;
  return index;
}

void CpuKvCache::remove_sequence(int sequence) {
  truncate(sequence, 0);
  at(sequence).is_used = false;
}

void CpuKvCache::truncate(int sequence, std::int64_t length) {
  Sequence& s = at(sequence);
  assert(length >= 0 && length <= s.length);
  s.length = length;
  const auto kept = static_cast<std::size_t>((length + kKvBlock - 1) / kKvBlock);
  while (s.blocks.size() > kept) {
    give_back(std::move(s.blocks.back()));
    s.blocks.pop_back();
    s.pointers.pop_back();
  }
}

void CpuKvCache::grow(int sequence, std::int64_t rows) {
  Sequence& s = at(sequence);
  const auto needed = static_cast<std::size_t>((s.length + rows + kKvBlock - 1) / kKvBlock);
  while (s.blocks.size() < needed) {
    if (free_blocks_->empty()) {
      s.blocks.emplace_back(block_bytes(), "the KV cache");
    } else {
      s.blocks.push_back(std::move(free_blocks_->back()));
      free_blocks_->pop_back();
    }
    s.pointers.push_back(s.blocks.back().data());
  }
  s.length += rows;
}

Bytes CpuKvCache::bytes_of(std::int64_t length) const {
  return {(length + kKvBlock - 1) / kKvBlock * static_cast<std::int64_t>(block_bytes())};
}

Bytes CpuKvCache::bytes() const {
  std::size_t blocks = 0;
  for (const Sequence& s : sequences_) blocks += s.blocks.size();
  return {static_cast<std::int64_t>(blocks * block_bytes())};
}

}  // namespace assay::cpu
