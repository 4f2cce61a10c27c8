// The sequences of a KV cache and the pages of kKvBlock positions that they hold: what every device's cache
// is.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "assay/backend/backend.h"

namespace assay {

constexpr std::int64_t kv_pages_of(std::int64_t length) {
  return (length + kKvBlock - 1) / kKvBlock;
}

// `Pool` is the device's memory for pages, which all caches of a program share: Page, a handle that is
// copied; take(), give_back(page), reserve(pages) and page_bytes(). One user at a time.
template <typename Pool>
class PagedKvCache : public KvCache {
 public:
  using Page = typename Pool::Page;

  explicit PagedKvCache(std::shared_ptr<Pool> pool) : pool_(std::move(pool)) {}
  ~PagedKvCache() override {
    for (const Sequence& s : sequences_)
      for (const Page page : s.pages) pool_->give_back(page);
  }
  PagedKvCache(const PagedKvCache&) = delete;
  PagedKvCache& operator=(const PagedKvCache&) = delete;

  int add_sequence() override {
    const auto unused =
        std::find_if(sequences_.begin(), sequences_.end(), [](const Sequence& s) { return !s.is_used; });
    const auto index = static_cast<int>(unused - sequences_.begin());
    if (unused == sequences_.end()) sequences_.emplace_back();
    at(index).is_used = true;
    return index;
  }
  void remove_sequence(int sequence) override {
    truncate(sequence, 0);
    at(sequence).is_used = false;
  }
  void truncate(int sequence, std::int64_t length) override {
    Sequence& s = at(sequence);
    assert(length >= 0 && length <= s.length);
    s.length = length;
    while (static_cast<std::int64_t>(s.pages.size()) > kv_pages_of(length)) {
      pool_->give_back(s.pages.back());
      s.pages.pop_back();
    }
  }
  std::int64_t length(int sequence) const override { return at(sequence).length; }
  Bytes bytes() const override { return {held() * pool_->page_bytes()}; }
  void reserve(std::int64_t pages) override { pool_->reserve(pages - held()); }

  // Takes pages until `rows` more positions fit, and counts them as held.
  void grow(int sequence, std::int64_t rows) {
    Sequence& s = at(sequence);
    while (static_cast<std::int64_t>(s.pages.size()) < kv_pages_of(s.length + rows))
      s.pages.push_back(pool_->take());
    s.length += rows;
  }
  const std::vector<Page>& pages(int sequence) const { return at(sequence).pages; }

 protected:
  const Pool& pool() const { return *pool_; }

 private:
  struct Sequence {
    bool is_used = false;
    std::int64_t length = 0;
    std::vector<Page> pages;
  };
  Sequence& at(int sequence) {
    assert(sequence >= 0 && static_cast<std::size_t>(sequence) < sequences_.size());
    return sequences_[static_cast<std::size_t>(sequence)];
  }
  const Sequence& at(int sequence) const {
    assert(sequence >= 0 && static_cast<std::size_t>(sequence) < sequences_.size());
    return sequences_[static_cast<std::size_t>(sequence)];
  }
  std::int64_t held() const {
    std::int64_t pages = 0;
    for (const Sequence& s : sequences_) pages += static_cast<std::int64_t>(s.pages.size());
    return pages;
  }

  std::shared_ptr<Pool> pool_;
  std::vector<Sequence> sequences_;
};

}  // namespace assay
