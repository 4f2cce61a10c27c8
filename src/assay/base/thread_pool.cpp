#include "assay/base/thread_pool.h"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>

#include "assay/base/cpu.h"
#include "assay/base/error.h"
#include "assay/base/topology.h"

namespace assay {

namespace {

constexpr int kMaxThreads = 1024;
constexpr int kSpins = 2000;  // about 40 us of pauses: longer than a phase, shorter than a time slice
constexpr std::size_t kLine = 64, kLinesAtOnce = 4;  // fetched between two looks at what is waited for
constexpr std::uint64_t kFieldMask = (1u << 20) - 1;

std::uint64_t pack(std::uint32_t epoch, std::int64_t chunks) {
  return (static_cast<std::uint64_t>(epoch & 0xffffff) << 40) | (static_cast<std::uint64_t>(chunks) << 20);
}

// Two spinning threads on one processor stop each other for whole time slices, so each gets its own.
void pin(pthread_t thread, const std::vector<int>& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : processors) CPU_SET(static_cast<std::size_t>(cpu), &set);
  pthread_setaffinity_np(thread, sizeof(set), &set);
}

std::vector<int> processors_of_caller() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> all;
  if (pthread_getaffinity_np(pthread_self(), sizeof(set), &set) != 0) return all;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) all.push_back(cpu);
  return all;
}

}  // namespace

thread_local int ThreadPool::worker_ = 0;

ThreadPool::ThreadPool(int threads, std::vector<int> processors, bool pins_caller,
                       const std::string& system) {
  if (threads < 1 || threads > kMaxThreads)
    throw FieldError("threads", "expected 1 to {}, found {}", kMaxThreads, threads);
  const std::vector<Processor> topology =
      read_topology(processors.empty() ? allowed_processors() : processors, system);
  processors = in_order_of_use(topology);
  waiting_ = std::make_unique<Ahead[]>(static_cast<std::size_t>(threads));
  const bool is_pinned = static_cast<std::size_t>(threads) <= processors.size();
  if (is_pinned) nodes_ = count_nodes(topology, {processors.begin(), processors.begin() + threads});
  for (int i = 1; i < threads; ++i) {
    workers_.emplace_back([this, i] { worker_loop(i); });
    pin(workers_.back().native_handle(),
        is_pinned ? std::vector<int>{processors[static_cast<std::size_t>(i)]} : processors);
  }
  if (!pins_caller) return;
  caller_ = std::this_thread::get_id();
  before_ = processors_of_caller();
  pin(pthread_self(), is_pinned ? std::vector<int>{processors[0]} : processors);
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (auto& worker : workers_) worker.join();
  if (!before_.empty() && caller_ == std::this_thread::get_id()) pin(pthread_self(), before_);
}

void ThreadPool::run_erased(std::int64_t chunks, Call call, const void* task) {
  if (chunks <= 0) return;
  if (workers_.empty() || chunks == 1) {
    const TimePoint begin = accounts_.load(std::memory_order_relaxed) ? Clock::now() : TimePoint{};
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) call(task, chunk);
    add_busy_time(begin);
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
    work(0);
    for (int spin = 0;; ++spin) {
      const int done = done_.load(std::memory_order_acquire);
      if (done == part) break;
      if (spin < kSpins)
        waiting_[0].wait_a_little();
      else
        done_.wait(done, std::memory_order_acquire);
    }
  }
}

void ThreadPool::Ahead::wait_a_little() {
  if (data.empty()) return _mm_pause();
  for (std::size_t line = 0; line < kLinesAtOnce && !data.empty(); ++line) {
    _mm_prefetch(reinterpret_cast<const char*>(data.data()), _MM_HINT_T1);
    data = data.subspan(std::min(kLine, data.size()));
  }
}

void ThreadPool::add_busy_time(TimePoint begin) {
  if (begin == TimePoint{}) return;
  busy_ns_.fetch_add(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count(),
                     std::memory_order_relaxed);
}

void ThreadPool::work(int worker) {
  const TimePoint begin = accounts_.load(std::memory_order_relaxed) ? Clock::now() : TimePoint{};
  work_off(waiting_[static_cast<std::size_t>(worker)], worker);
  add_busy_time(begin);
}

void ThreadPool::work_off(Ahead& ahead, int worker) {
  for (;;) {
    std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
    std::uint64_t chunk = 0, chunks = 0;
    do {
      chunk = ticket & kFieldMask;
      chunks = (ticket >> 20) & kFieldMask;
      if (chunk >= chunks) return;
    } while (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel));
    // Read while a chunk is held: the phase, and with it what its caller keeps, lasts at least so long.
    if (ahead.of != ahead_) {
      ahead.of = ahead_;
      ahead.data = ahead_ == nullptr ? std::span<const std::byte>() : ahead_[worker];
    }
    call_(task_, static_cast<std::int64_t>(chunk));
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<int>(chunks)) done_.notify_one();
  }
}

void ThreadPool::worker_loop(int worker) {
  worker_ = worker;
  std::uint32_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < kSpins && epoch_.load(std::memory_order_acquire) == seen; ++spin)
      waiting_[static_cast<std::size_t>(worker)].wait_a_little();
    epoch_.wait(seen, std::memory_order_acquire);
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_) return;
    work(worker);
  }
}

}  // namespace assay
