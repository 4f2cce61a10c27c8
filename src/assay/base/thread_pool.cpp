#include "assay/base/thread_pool.h"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

#include "assay/base/cpu.h"
#include "assay/base/error.h"

namespace assay {

namespace {

constexpr int kMaxThreads = 1024;
constexpr int kSpins = 2000;  // about 40 us of pauses: longer than a phase, shorter than a time slice
constexpr std::uint64_t kFieldMask = (1u << 20) - 1;

std::uint64_t pack(std::uint32_t epoch, std::int64_t chunks) {
  return (static_cast<std::uint64_t>(epoch & 0xffffff) << 40) | (static_cast<std::uint64_t>(chunks) << 20);
}

// Two spinning threads on one processor stop each other for whole time slices, so workers get processors of
// their own where there are enough. The calling thread belongs to the caller and is left alone.
void pin(std::thread& thread, int index, int threads) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < threads) return;
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || seen++ != index) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(thread.native_handle(), sizeof(one), &one);
    return;
  }
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  if (threads < 1 || threads > kMaxThreads)
    throw UsageError("--threads: expected 1 to {}, found {}", kMaxThreads, threads);
  for (int i = 1; i < threads; ++i) {
    workers_.emplace_back([this] { worker_loop(); });
    pin(workers_.back(), i, threads);
  }
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::run_erased(std::int64_t chunks, Call call, const void* task) {
  if (chunks <= 0) return;
  if (workers_.empty() || chunks == 1) {
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) call(task, chunk);
    return;
  }
  for (std::int64_t first = 0; first < chunks; first += kMaxChunks) {
    const std::int64_t part = chunks - first < kMaxChunks ? chunks - first : kMaxChunks;
    struct Shifted {
      Call call;
      const void* task;
      std::int64_t first;
    } shifted{call, task, first};
    call_ = [](const void* s, std::int64_t chunk) {
      const auto* shift = static_cast<const Shifted*>(s);
      shift->call(shift->task, shift->first + chunk);
    };
    task_ = &shifted;
    done_.store(0, std::memory_order_relaxed);
    const std::uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
    ticket_.store(pack(epoch, part), std::memory_order_release);
    epoch_.store(epoch, std::memory_order_release);
    epoch_.notify_all();
    work();
    for (int spin = 0;; ++spin) {
      const int done = done_.load(std::memory_order_acquire);
      if (done == part) break;
      if (spin < kSpins)
        _mm_pause();
      else
        done_.wait(done, std::memory_order_acquire);
    }
  }
}

void ThreadPool::work() {
  for (;;) {
    std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
    std::uint64_t chunk = 0, chunks = 0;
    do {
      chunk = ticket & kFieldMask;
      chunks = (ticket >> 20) & kFieldMask;
      if (chunk >= chunks) return;
    } while (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel));
    call_(task_, static_cast<std::int64_t>(chunk));
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<int>(chunks)) done_.notify_one();
  }
}

void ThreadPool::worker_loop() {
  std::uint32_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < kSpins && epoch_.load(std::memory_order_acquire) == seen; ++spin) _mm_pause();
    epoch_.wait(seen, std::memory_order_acquire);
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_) return;
    work();
  }
}

}  // namespace assay
