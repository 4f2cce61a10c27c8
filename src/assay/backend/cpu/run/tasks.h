// How the rows of a step are shared among the threads.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "assay/backend/constants.h"
#include "assay/base/thread_pool.h"

namespace assay::cpu {

// The rows of one run: it bounds the workspace, and weights are read once per 512 tokens.
inline constexpr std::int64_t kMaxRows = 512;
inline constexpr std::int64_t kNormRows = 8;  // rows a thread takes at a time

// New rows [first, end) of a sequence.
struct RowRange {
  std::int64_t first, end;
  std::int64_t size() const { return end - first; }
};

// Rows cut into shares that threads keep to, so that what they make of them stays in their own caches.
struct RowShares {
  std::int64_t rows, count, each;  // `each` a multiple of 32; the last share may be smaller
  std::int64_t first(std::int64_t share) const { return share * each; }
  std::int64_t size(std::int64_t share) const {
    return std::clamp<std::int64_t>(rows - first(share), 0, each);
  }
};
inline constexpr std::int64_t kMaxShares = kMaxRows / kMinShareRows;
static_assert(kMaxShareRows == kMaxRows);
// Shares of about `share_rows` rows.
RowShares row_shares(std::int64_t rows, int threads, std::int64_t share_rows);
// Panels of a task of few rows: the more, the longer a thread reads without a break, but the threads should
// end together.
std::int64_t panels_of_few_rows(std::int64_t panels, int threads);
// Tasks of few rows are cut into a region for each thread, which reads it from its beginning on: memory
// serves that faster than a region that several threads share, and the pages of a region lie in the memory of
// its thread's node (placement.h).
struct TaskRegion {
  std::int64_t first, count;
};
TaskRegion region_of(std::int64_t worker, std::int64_t tasks, int threads);

// The threads of a program, and the shares they work on.
class Tasks {
 public:
  explicit Tasks(ThreadPool& pool, std::int64_t share_rows = kUsualShareRows)
      : pool_(pool),
        share_rows_(share_rows),
        regions_(std::make_unique<Region[]>(static_cast<std::size_t>(pool.size()))) {}
  int threads() const { return pool_.size(); }
  ThreadPool& pool() { return pool_; }
  RowShares shares_of(std::int64_t rows) const { return row_shares(rows, threads(), share_rows_); }
  // From now on; while nothing runs.
  void set_share_rows(std::int64_t share_rows) { share_rows_ = share_rows; }

  // Calls task(i) for i in [0, count).
  template <typename Task>
  void run(std::int64_t count, const Task& task) {
    pool_.run(count, task);
  }
  // Calls task(i) for i in [0, count). A thread takes the tasks of its own region in their order, then helps
  // with those of the next threads.
  template <typename Task>
  void run_in_regions(std::int64_t count, const Task& task) {
    const std::uint64_t phase = ++phase_;
    pool_.run(count, [&, phase](std::int64_t) {
      const int threads = pool_.size();
      // As many tasks as calls: there is one for each.
      for (std::int64_t worker = ThreadPool::worker();; ++worker) {
        const TaskRegion region = region_of(worker % threads, count, threads);
        const std::int64_t i = regions_[static_cast<std::size_t>(worker % threads)].take(phase);
        if (i < region.count) return task(region.first + i);
      }
    });
  }
  // Calls task(share, i) for i in [0, tasks) of every share. A thread begins with a share of its own, then
  // helps with the others.
  template <typename Task>
  void run_in_shares(const RowShares& shares, std::int64_t tasks, const Task& task) {
    for (auto& next : next_of_share_) next.store(0, std::memory_order_relaxed);
    pool_.run(tasks * shares.count, [&](std::int64_t) {
      for (std::int64_t share = ThreadPool::worker();; ++share) {
        const std::int64_t mine = share % shares.count;
        const std::int64_t i =
            next_of_share_[static_cast<std::size_t>(mine)].fetch_add(1, std::memory_order_relaxed);
        if (i < tasks) return task(mine, i);
      }
    });
  }
  // Calls task(first row, rows) for some rows at a time.
  template <typename Task>
  void run_rows(std::int64_t rows, const Task& task) {
    const RowShares shares = shares_of(rows);
    const std::int64_t most = std::min(shares.each, rows);
    run_in_shares(shares, (most + kNormRows - 1) / kNormRows, [&](std::int64_t share, std::int64_t i) {
      const std::int64_t left = shares.size(share) - i * kNormRows;
      if (left > 0) task(shares.first(share) + i * kNormRows, std::min(kNormRows, left));
    });
  }

 private:
  // The next task of a thread's region: counted from 0 in each phase, without anyone who sets it back.
  struct alignas(128) Region {
    std::atomic<std::uint64_t> next{0};  // phase (32 bits) | tasks taken (32)
    std::int64_t take(std::uint64_t phase) {
      const std::uint64_t begin = phase << 32;
      std::uint64_t seen = next.load(std::memory_order_relaxed);
      while (seen >> 32 != begin >> 32)
        if (next.compare_exchange_weak(seen, begin + 1, std::memory_order_relaxed)) return 0;
      return static_cast<std::int64_t>(next.fetch_add(1, std::memory_order_relaxed) & 0xffffffffU);
    }
  };
  ThreadPool& pool_;
  std::int64_t share_rows_;
  std::unique_ptr<Region[]> regions_;  // by worker
  std::uint64_t phase_ = 0;
  std::array<std::atomic<std::int64_t>, kMaxShares> next_of_share_{};
};

}  // namespace assay::cpu
