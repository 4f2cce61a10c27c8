#include "assay/backend/cpu/memory/kv_cache.h"

#include <algorithm>

namespace assay::cpu {

namespace {

constexpr std::int64_t element_bytes(KvFormat format) {
  return format == KvFormat::int8 ? 1 : format == KvFormat::bfloat16 ? 2 : 4;
}
// The size of the keys or the values of a head in a block, in elements: scales follow codes.
constexpr std::int64_t size_of(KvFormat format, std::int64_t columns) {
  return columns * kKvBlock + (format == KvFormat::int8 ? kInt8ScaleBytes : 0);
}

}  // namespace

KvLayout::KvLayout(const Plan& plan)
    : format_(plan.kv_format),
      layers_(plan.layers),
      heads_(plan.kv_heads),
      shape_{plan.head_dim},
      key_size_(size_of(format_, format_ == KvFormat::bfloat16 ? shape_.dim_padded() : plan.head_dim)),
      value_size_(size_of(format_, shape_.padded())),
      layer_size_(heads_ * (key_size_ + value_size_)) {}

std::int64_t KvLayout::block_bytes() const {
  return layers_ * layer_size_ * element_bytes(format_);
}

KvBlockPool::Page KvBlockPool::take() {
  AlignedBuffer block;
  if (free_.empty()) {
    // A plan without attention has empty blocks, which still need an address of their own.
    block = AlignedBuffer(static_cast<std::size_t>(std::max<std::int64_t>(page_bytes(), 1)), "the KV cache");
  } else {
    block = std::move(free_.back());
    free_.pop_back();
  }
  const Page page = block.data();
  used_.emplace(page, std::move(block));
  return page;
}

// What is kept counts as taken when the next batch is predicted, so a large batch goes back to the system.
void KvBlockPool::give_back(Page page) {
  constexpr std::int64_t kKeptBytes = std::int64_t{256} << 20;
  const auto used = used_.find(page);
  if ((static_cast<std::int64_t>(free_.size()) + 1) * page_bytes() <= kKeptBytes)
    free_.push_back(std::move(used->second));
  used_.erase(used);
}

}  // namespace assay::cpu
