#include "assay/backend/cpu/kv_cache.h"

#include <algorithm>
#include <cassert>

#include "assay/backend/cpu/kernels.h"

namespace assay::cpu {

CpuKvCache::CpuKvCache(int layers, int heads, int head_dim)
    : layers_(layers),
      heads_(heads),
      head_dim_(head_dim),
      padded_((head_dim + kPanel - 1) / kPanel * kPanel),
      layer_floats_(heads_ * (head_dim_ + padded_) * kKvBlock) {}

CpuKvCache::Sequence& CpuKvCache::at(int sequence) {
  assert(sequence >= 0 && static_cast<std::size_t>(sequence) < sequences_.size());
  return sequences_[static_cast<std::size_t>(sequence)];
}
const CpuKvCache::Sequence& CpuKvCache::at(int sequence) const {
  assert(sequence >= 0 && static_cast<std::size_t>(sequence) < sequences_.size());
  return sequences_[static_cast<std::size_t>(sequence)];
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
    free_blocks_.push_back(std::move(s.blocks.back()));
    s.blocks.pop_back();
    s.pointers.pop_back();
  }
}

void CpuKvCache::grow(int sequence, std::int64_t rows) {
  Sequence& s = at(sequence);
  const auto needed = static_cast<std::size_t>((s.length + rows + kKvBlock - 1) / kKvBlock);
  while (s.blocks.size() < needed) {
    if (free_blocks_.empty()) {
      s.blocks.emplace_back(static_cast<std::size_t>(layers_ * layer_floats_) * sizeof(float),
                            "the KV cache");
    } else {
      s.blocks.push_back(std::move(free_blocks_.back()));
      free_blocks_.pop_back();
    }
    s.pointers.push_back(s.blocks.back().floats());
  }
  s.length += rows;
}

Bytes CpuKvCache::bytes() const {
  std::size_t blocks = free_blocks_.size();
  for (const Sequence& s : sequences_) blocks += s.blocks.size();
  return {
      static_cast<std::int64_t>(blocks * static_cast<std::size_t>(layers_ * layer_floats_) * sizeof(float))};
}

}  // namespace assay::cpu
