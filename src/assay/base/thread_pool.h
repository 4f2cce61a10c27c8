// A persistent pool of threads that runs one phase after another.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "assay/base/units.h"

namespace assay {

// Phases are counted by completed chunks, not by arriving threads: a worker that the system has put to sleep
// holds no chunk and delays nobody. Waiting spins for some microseconds (most phases are that short), then
// sleeps in a futex. The calling thread is worker 0.
class ThreadPool {
 public:
  // Workers get a processor each of the given ones (empty: all this process may use), one of each core first,
  // where there are enough; the calling thread the first where `pins_caller`, until the pool ends. `system`
  // is where the topology is read (topology.h). Throws UsageError when threads < 1 or absurdly many.
  explicit ThreadPool(int threads, std::vector<int> processors = {}, bool pins_caller = false,
                      const std::string& system = "/sys");
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }
  // NUMA nodes of its processors; 1 where its threads are not pinned to one each.
  int nodes() const { return nodes_; }

  // Calls task(chunk) once for every chunk in [0, chunks), on any thread, and returns when all are done.
  // `task` must not throw. One caller at a time.
  template <typename Task>
  void run(std::int64_t chunks, const Task& task) {
    run_erased(
        chunks, [](const void* t, std::int64_t chunk) { (*static_cast<const Task*>(t))(chunk); }, &task);
  }

  // What each of the size() workers reads behind the phases from the next one on: one that has nothing to do
  // fetches its own into its second-level cache, from the beginning on. Changes no result. The spans
  // themselves are read while a phase runs, and stay until another call (null: nothing is fetched); the
  // memory that they name may go. For the thread that calls run().
  void fetch_while_waiting(const std::span<const std::byte>* by_worker) { ahead_ = by_worker; }
  const std::span<const std::byte>* fetched_while_waiting() const { return ahead_; }

  // Which worker of its pool runs the calling thread is: 0 for one that is of none.
  static int worker() { return worker_; }

  // While it is on, the time that threads spend in chunks is added up; a clock reading per thread and phase.
  void account_busy_time(bool is_on) {
    accounts_.store(is_on, std::memory_order_relaxed);
    busy_ns_.store(0, std::memory_order_relaxed);
  }
  // The sum over all threads, since accounting began.
  Seconds busy_time() const { return {1e-9 * static_cast<double>(busy_ns_.load(std::memory_order_relaxed))}; }

  static constexpr std::int64_t kMaxChunks = (std::int64_t{1} << 20) - 1;

 private:
  using Call = void (*)(const void* task, std::int64_t chunk);
  // What one worker fetches while it waits: its own, which no other thread touches.
  struct alignas(64) Ahead {
    const std::span<const std::byte>* of = nullptr;  // from which `data` was read
    std::span<const std::byte> data;                 // what is left of it
    void wait_a_little();
  };
  void run_erased(std::int64_t chunks, Call call, const void* task);
  void worker_loop(int worker);
  void work(int worker);
  void work_off(Ahead& ahead, int worker);
  void add_busy_time(TimePoint begin);

  // epoch (24 bits) | chunks (20) | next chunk (20): claiming is one compare-and-swap, and a stale worker can
  // never claim a chunk of a phase it has not seen.
  alignas(128) std::atomic<std::uint64_t> ticket_{0};
  alignas(128) std::atomic<int> done_{0};
  alignas(128) std::atomic<std::uint32_t> epoch_{0};  // counts phases; wraps around
  std::atomic<bool> stop_{false}, accounts_{false};
  std::atomic<std::int64_t> busy_ns_{0};
  Call call_ = nullptr;
  const void* task_ = nullptr;
  int nodes_ = 1;
  const std::span<const std::byte>* ahead_ = nullptr;  // by worker; published with the phase, as `task_` is
  std::vector<std::thread> workers_;
  std::unique_ptr<Ahead[]> waiting_;  // by worker
  std::thread::id caller_;
  std::vector<int> before_;  // where the caller might run until it was pinned
  static thread_local int worker_;
};

}  // namespace assay
