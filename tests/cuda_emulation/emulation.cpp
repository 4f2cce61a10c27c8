#include "cuda_emulation/emulation.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <vector>

#include "assay/base/error.h"
#include "cuda_emulation/warpgroups.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__x86_64__)
// Saves what a function must preserve on the stack, keeps its end at *from, and goes on at `to`.
extern "C" void assay_switch_stack(void** from, void* to);
asm(R"(
.text
.globl assay_switch_stack
.hidden assay_switch_stack
.type assay_switch_stack, @function
assay_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size assay_switch_stack, .-assay_switch_stack
)");
#endif

namespace assay::cuda::emulation {

Indices here;
bool has_waited[1024] = {};
std::uint32_t launch_number = 0, first_running = 0;
bool lets_next_start = false;
int products_in_flight[1024] = {};
std::byte* shared_memory = nullptr;

namespace {

constexpr std::uint32_t kWarp = 32, kWarpgroup = 128, kMostThreads = 1024;
constexpr std::size_t kStackBytes = 256 << 10, kFramesOfMain = 16 << 10;

// ---- fibers
// ------------------------------------------------------------------------------------------------

void fiber_main();

class Context {
 public:
  Context() = default;
  Context(const Context&) = delete;
  ~Context() {
    if (stack_ != nullptr) munmap(stack_, kStackBytes);
#if defined(__SANITIZE_THREAD__)
    if (stack_ != nullptr && tsan_ != nullptr) __tsan_destroy_fiber(tsan_);
#endif
  }

  // Begins anew in fiber_main() at the next switch to it.
  void reset() {
    if (stack_ == nullptr) {
      stack_ = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
      if (stack_ == MAP_FAILED) {
        stack_ = nullptr;
        throw Error("the emulation of a GPU got no memory for the stack of a thread");
      }
#if defined(__SANITIZE_THREAD__)
      tsan_ = __tsan_create_fiber(0);
#endif
    }
#if defined(__SANITIZE_ADDRESS__)
    // The frames of what never returned would still be marked: one that ended left but those of fiber_main.
    const std::size_t left = has_ended_ ? kFramesOfMain : kStackBytes;
    __asan_unpoison_memory_region(static_cast<std::byte*>(stack_) + kStackBytes - left, left);
    has_ended_ = false;
#endif
#if defined(__x86_64__)
    auto* top = reinterpret_cast<void**>(static_cast<std::byte*>(stack_) + kStackBytes);
    *--top = nullptr;  // stands for a return address: the stack is aligned as behind a call
    *--top = reinterpret_cast<void*>(&fiber_main);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    at_ = top;
#else
    getcontext(&context_);
    context_.uc_stack = {.ss_sp = stack_, .ss_flags = 0, .ss_size = kStackBytes};
    context_.uc_link = nullptr;
    makecontext(&context_, &fiber_main, 0);
#endif
  }

  // `ends`: this one does not go on.
  void switch_to(Context& to, [[maybe_unused]] bool ends = false) {
#if defined(__SANITIZE_ADDRESS__)
    has_ended_ = ends;
    __sanitizer_start_switch_fiber(ends ? nullptr : &asan_stack_,
                                   to.stack_ != nullptr ? to.stack_ : to.host_bottom_,
                                   to.stack_ != nullptr ? kStackBytes : to.host_size_);
#endif
#if defined(__SANITIZE_THREAD__)
    if (to.tsan_ == nullptr || tsan_ == nullptr)
      (tsan_ == nullptr ? tsan_ : to.tsan_) = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to.tsan_, 0);
#endif
#if defined(__x86_64__)
    assay_switch_stack(&at_, to.at_);
#else
    swapcontext(&context_, &to.context_);
#endif
    arrive(to);
  }

  // At the beginning of a fiber, and behind every switch: where it came from.
  void arrive([[maybe_unused]] Context& host) {
#if defined(__SANITIZE_ADDRESS__)
    const void* bottom = nullptr;
    std::size_t size = 0;
    __sanitizer_finish_switch_fiber(asan_stack_, &bottom, &size);
    if (stack_ != nullptr) {
      host.host_bottom_ = bottom;
      host.host_size_ = size;
    }
#endif
  }

 private:
  void* stack_ = nullptr;  // null: the host's
#if defined(__x86_64__)
  void* at_ = nullptr;
#else
  ucontext_t context_{};
#endif
#if defined(__SANITIZE_ADDRESS__)
  void* asan_stack_ = nullptr;
  const void* host_bottom_ = nullptr;
  std::size_t host_size_ = 0;
  bool has_ended_ = false;
#endif
#if defined(__SANITIZE_THREAD__)
  void* tsan_ = nullptr;
#endif
};

// ---- a block

struct Copy {
  std::int64_t to;
  const void* from;
  Allocation in;
};

enum class State : std::uint8_t { ready, at_barrier, at_warp_operation, at_warpgroup, ended };

struct Thread {
  Context context;
  WarpOperation operation{};
  std::uint64_t detail = 0;
  std::vector<Copy> uncommitted;
  std::deque<std::vector<Copy>> copies;
  std::vector<std::uint32_t> fences;  // epochs of the block in which it showed its writes to products
};

struct Warp {
  std::array<void*, kWarp> lanes{};
  std::uint32_t waiting = 0;
  std::uint32_t first = 0;  // the thread that came first among those that wait
  std::uint32_t epoch = 1;  // it counts warp barriers
};

struct Warpgroup {
  std::array<void*, kWarpgroup> threads{};
  std::uint32_t waiting = 0;
  const char* what = "";
};

constexpr std::uint16_t kNobody = 0xffff;
struct Cell {
  std::uint32_t write_block_epoch = 0, write_warp_epoch = 0;
  std::uint32_t read_block_epoch = 0, read_warp_epoch = 0;
  std::uint32_t reading_warps = 0;  // in that block epoch
  std::uint16_t writer = kNobody, reader = kNobody;
  bool has_other_reader = false;  // that of the reader's warp, in its warp epoch
  bool is_written = false, is_copied = false;
  std::uint16_t products = 0;    // that may still read it
  std::uint32_t shown_from = 0;  // the first of the writer's fences that is behind its write
};

const char* name_of(WarpOperation what) {
  switch (what) {
    case WarpOperation::barrier:
      return "a warp barrier";
    case WarpOperation::shuffle:
      return "a shuffle";
    case WarpOperation::ballot:
      return "a ballot";
    case WarpOperation::largest:
      return "the largest of a warp";
    case WarpOperation::mma:
      return "an mma";
    case WarpOperation::matrices:
      return "an ldmatrix";
  }
  return "";
}

struct Block {
  const char* kernel = "";
  LaunchShape shape;
  const std::function<void()>* body = nullptr;
  std::vector<Thread> threads;  // made by the first launch: most tests have none
  std::array<State, kMostThreads> states{};
  std::vector<Warp> warps;
  std::vector<Warpgroup> warpgroups;
  std::vector<Cell> cells;
  std::vector<std::byte> memory;
  std::uint32_t epoch = 1, at_barrier = 0, ended = 0;
  Context host;
  std::exception_ptr fault;
  bool has_to_wait = false;

  Thread& current() { return threads[here.thread]; }
  void leave(bool ends = false) { current().context.switch_to(host, ends); }
  void run();
  std::string who_waits() const;
};
Block block;

void fiber_main() {
  block.current().context.arrive(block.host);
  try {
    (*block.body)();
    if (!block.current().copies.empty() || !block.current().uncommitted.empty())
      fail("it ends before it has waited for what cp.async copies");
    if (products_in_flight[here.thread] > 0) fail("it ends before it has waited for its products");
    if (block.has_to_wait && !has_waited[here.thread])
      fail("it ends before it has waited for the kernel in front, which a later one then cannot rely on");
  } catch (...) {
    if (!block.fault) block.fault = std::current_exception();
  }
  block.states[here.thread] = State::ended;
  ++block.ended;
  block.leave(true);
}

std::string Block::who_waits() const {
  std::string text;
  for (std::uint32_t i = 0; i < shape.block && text.size() < 300; ++i) {
    const Thread& one = threads[i];
    const State state = states[i];
    if (i > 0 && states[i - 1] == state &&
        (state != State::at_warp_operation || threads[i - 1].operation == one.operation))
      continue;
    const char* what = state == State::at_barrier     ? "waits at a barrier"
                       : state == State::ended        ? "has ended"
                       : state == State::at_warpgroup ? block.warpgroups[i / kWarpgroup].what
                                                      : name_of(one.operation);
    text += (text.empty() ? "from thread " : ", from ") + std::to_string(i) + " on: " + what;
  }
  return text;
}

void Block::run() {
  while (ended < shape.block) {
    bool any = false;
    for (std::uint32_t i = 0; i < shape.block; ++i) {
      if (states[i] != State::ready) continue;
      any = true;
      here.thread = i;
      host.switch_to(threads[i].context);
      if (fault) std::rethrow_exception(fault);
    }
    if (at_barrier == shape.block) {
      at_barrier = 0;
      ++epoch;
      std::fill_n(states.begin(), shape.block, State::ready);
    } else if (!any) {
      here.thread = 0;
      fail("the block is stuck: " + who_waits());
    }
  }
}

}  // namespace

void fail(const std::string& what) {
  throw Error("kernel {}, block ({}, {}, {}), thread {}: {}", block.kernel, here.block_x, here.block_y,
              here.block_z, here.thread, what);
}
void block_barrier() {
  block.states[here.thread] = State::at_barrier;
  ++block.at_barrier;
  block.leave();
}

void warp_operation(WarpOperation what, std::uint64_t detail, void* mine, WarpFunction function) {
  const std::uint32_t first = here.thread / kWarp * kWarp;
  Warp& warp = block.warps[here.thread / kWarp];
  Thread& me = block.current();
  me.operation = what;
  me.detail = detail;
  if (warp.waiting == 0) warp.first = here.thread;
  // The others came to the same as the first.
  if (const Thread& other = block.threads[warp.first]; other.operation != what || other.detail != detail)
    fail(std::string("comes to ") + name_of(what) + ", and thread " + std::to_string(warp.first) +
         " of its warp to another operation, " + name_of(other.operation));
  warp.lanes[here.thread - first] = mine;
  if (++warp.waiting < kWarp) {
    block.states[here.thread] = State::at_warp_operation;
    block.leave();
    return;
  }
  function(warp.lanes.data());
  warp.waiting = 0;
  if (what == WarpOperation::barrier) ++warp.epoch;
  std::fill_n(block.states.begin() + first, kWarp, State::ready);
}

void warpgroup_operation(const char* what, void* mine, const std::function<void(void* const*)>& function) {
  const std::uint32_t index = here.thread / kWarpgroup, first = index * kWarpgroup;
  if (block.shape.block % kWarpgroup != 0)
    fail(std::string(what) + " in a block of " + std::to_string(block.shape.block) +
         " threads; whole warpgroups of 128 were expected");
  Warpgroup& group = block.warpgroups[index];
  if (group.waiting > 0 && std::string_view(group.what) != what)
    fail(std::string("comes to ") + what + ", and others of its warpgroup to " + group.what);
  group.what = what;
  group.threads[here.thread - first] = mine;
  if (++group.waiting < kWarpgroup) {
    block.states[here.thread] = State::at_warpgroup;
    block.leave();
    return;
  }
  function(group.threads.data());
  group.waiting = 0;
  std::fill_n(block.states.begin() + first, kWarpgroup, State::ready);
}

void check_shared(std::int64_t byte, std::int64_t bytes, std::int64_t alignment) {
  if (byte < 0 || byte + bytes > static_cast<std::int64_t>(block.shape.shared_bytes))
    fail("an access of " + std::to_string(bytes) + " bytes at byte " + std::to_string(byte) +
         " of shared memory of " + std::to_string(block.shape.shared_bytes));
  if (byte % alignment != 0)
    fail("a misaligned access of " + std::to_string(bytes) + " bytes at byte " + std::to_string(byte) +
         " of shared memory");
}

namespace {
[[noreturn]] void fail_race(const char* mine, const char* theirs, std::int64_t cell, std::uint32_t other) {
  fail(std::string(mine) + " byte " + std::to_string(4 * cell) + " of shared memory, which thread " +
       std::to_string(other) + " " + theirs + ", with no barrier between them");
}
// Whether an access of `other` in these epochs is not ordered with one of this thread now.
bool is_unordered(std::uint32_t other, std::uint32_t block_epoch, std::uint32_t warp_epoch) {
  if (other == here.thread || block_epoch != block.epoch) return false;
  return other / kWarp != here.thread / kWarp || warp_epoch == block.warps[here.thread / kWarp].epoch;
}
}  // namespace

void read_shared(std::int64_t first, std::int64_t count) {
  const std::uint32_t warp = here.thread / kWarp, warp_epoch = block.warps[warp].epoch;
  for (std::int64_t i = first; i < first + count; ++i) {
    Cell& cell = block.cells[static_cast<std::size_t>(i)];
    if (cell.is_copied)
      fail("reads byte " + std::to_string(4 * i) + " of shared memory before cp.async is waited for");
    if (!cell.is_written)
      fail("reads byte " + std::to_string(4 * i) + " of shared memory, which nobody has written");
    if (cell.writer != kNobody && is_unordered(cell.writer, cell.write_block_epoch, cell.write_warp_epoch))
      fail_race("reads", "writes", i, cell.writer);
    if (cell.read_block_epoch != block.epoch) cell.reading_warps = 0;
    const bool same_warp_epoch = cell.read_block_epoch == block.epoch && cell.reader / kWarp == warp &&
                                 cell.read_warp_epoch == warp_epoch;
    cell.has_other_reader = same_warp_epoch && (cell.has_other_reader || cell.reader != here.thread);
    cell.reading_warps |= 1U << warp;
    cell.read_block_epoch = block.epoch;
    cell.read_warp_epoch = warp_epoch;
    cell.reader = static_cast<std::uint16_t>(here.thread);
  }
}

void write_shared(std::int64_t first, std::int64_t count) {
  const std::uint32_t warp = here.thread / kWarp, warp_epoch = block.warps[warp].epoch;
  for (std::int64_t i = first; i < first + count; ++i) {
    Cell& cell = block.cells[static_cast<std::size_t>(i)];
    if (cell.is_copied)
      fail("writes byte " + std::to_string(4 * i) + " of shared memory while cp.async does");
    if (cell.products > 0)
      fail("writes byte " + std::to_string(4 * i) + " of shared memory, which a product may still read");
    if (cell.writer != kNobody && is_unordered(cell.writer, cell.write_block_epoch, cell.write_warp_epoch))
      fail_race("writes", "writes too", i, cell.writer);
    if (cell.read_block_epoch == block.epoch) {
      if ((cell.reading_warps & ~(1U << warp)) != 0)
        fail_race("writes", "or one beside it reads", i, cell.reader);
      if (cell.read_warp_epoch == warp_epoch && (cell.reader != here.thread || cell.has_other_reader))
        fail_race("writes", "or one beside it reads", i, cell.reader);
    }
    cell.is_written = true;
    cell.shown_from = static_cast<std::uint32_t>(block.current().fences.size());
    cell.writer = static_cast<std::uint16_t>(here.thread);
    cell.write_block_epoch = block.epoch;
    cell.write_warp_epoch = warp_epoch;
  }
}

void show_writes() {
  block.current().fences.push_back(block.epoch);
}
void begin_product_read(std::int64_t first, std::int64_t count) {
  for (std::int64_t i = first; i < first + count; ++i) {
    Cell& cell = block.cells[static_cast<std::size_t>(i)];
    const auto byte = [&] { return "a product reads byte " + std::to_string(4 * i) + " of shared memory"; };
    if (cell.is_copied) fail(byte() + " before cp.async is waited for");
    if (!cell.is_written) fail(byte() + ", which nobody has written");
    const std::vector<std::uint32_t>& fences = block.threads[cell.writer].fences;
    if (cell.shown_from >= fences.size())
      fail(byte() + " before thread " + std::to_string(cell.writer) + " has shown it by fence_async_proxy()");
    if (fences[cell.shown_from] >= block.epoch)
      fail(byte() + ", with no barrier behind the fence of thread " + std::to_string(cell.writer));
    ++cell.products;
  }
}
void end_product_read(std::int64_t first, std::int64_t count) {
  const std::uint32_t warps = 0xfU << here.thread / kWarpgroup * 4;
  for (std::int64_t i = first; i < first + count; ++i) {
    Cell& cell = block.cells[static_cast<std::size_t>(i)];
    --cell.products;
    if (cell.read_block_epoch != block.epoch) cell.reading_warps = 0;
    cell.reading_warps |= warps;
    cell.read_block_epoch = block.epoch;
    cell.read_warp_epoch = block.warps[here.thread / kWarp].epoch;
    cell.reader = static_cast<std::uint16_t>(here.thread);
    cell.has_other_reader = true;
  }
}

void copy_async(std::int64_t to_byte, const void* from, const Allocation& in) {
  check_shared(to_byte, 16, 16);
  write_shared(to_byte / 4, 4);
  for (std::int64_t i = 0; i < 4; ++i)
    block.cells[static_cast<std::size_t>(to_byte / 4 + i)].is_copied = true;
  block.current().uncommitted.push_back({to_byte, from, in});
}
void commit_copies() {
  Thread& me = block.current();
  me.copies.push_back(std::move(me.uncommitted));
  me.uncommitted.clear();
}
void wait_for_copies(int groups_left) {
  Thread& me = block.current();
  while (me.copies.size() > static_cast<std::size_t>(groups_left)) {
    for (const Copy& copy : me.copies.front()) {
      for (std::int64_t i = 0; i < 4; ++i)
        block.cells[static_cast<std::size_t>(copy.to / 4 + i)].is_copied = false;
      write_shared(copy.to / 4, 4);
      std::memcpy(shared_memory + copy.to, copy.from, 16);
    }
    me.copies.pop_front();
  }
}

void run_launch(const char* name, const LaunchShape& shape, const std::function<void()>& thread,
                bool has_to_wait) {
  // The kernel in front has started the next early, or all in front of it have ended.
  if (!lets_next_start) first_running = launch_number;
  ++launch_number;
  lets_next_start = false;
  block.kernel = name;
  block.has_to_wait = has_to_wait;
  block.shape = shape;
  here = {};
  if (shape.block == 0 || shape.block % kWarp != 0 || shape.block > kMostThreads)
    fail("a launch of blocks of " + std::to_string(shape.block) +
         " threads; whole warps of 32 were expected, at most 1024 threads");
  if (shape.grid_x == 0 || shape.grid_y == 0 || shape.grid_z == 0 || shape.grid_x > 0x7fffffffU ||
      shape.grid_y > 65535 || shape.grid_z > 65535)
    fail("a grid of " + std::to_string(shape.grid_x) + " x " + std::to_string(shape.grid_y) + " x " +
         std::to_string(shape.grid_z) + " blocks, which no GPU launches");
  block.body = &thread;
  if (block.threads.empty()) block.threads = std::vector<Thread>(kMostThreads);
  block.warps.resize(shape.block / kWarp);
  block.warpgroups.resize((shape.block + kWarpgroup - 1) / kWarpgroup);
  const std::size_t cells = (shape.shared_bytes + 3) / 4;
  block.memory.resize(cells * 4 + 16);
  const auto begin = reinterpret_cast<std::uintptr_t>(block.memory.data());
  shared_memory = block.memory.data() + (16 - begin % 16) % 16;
  here.threads = shape.block;
  here.grid_x = shape.grid_x;
  block.fault = nullptr;
  for (here.block_z = 0; here.block_z < shape.grid_z; ++here.block_z)
    for (here.block_y = 0; here.block_y < shape.grid_y; ++here.block_y)
      for (here.block_x = 0; here.block_x < shape.grid_x; ++here.block_x) {
        block.epoch = 1;
        block.at_barrier = block.ended = 0;
        for (Warp& warp : block.warps) warp = {};
        for (Warpgroup& group : block.warpgroups) group = {};
        forget_products();
        block.cells.assign(cells, {});
        std::fill_n(block.states.begin(), shape.block, State::ready);
        for (std::uint32_t i = 0; i < shape.block; ++i) {
          Thread& one = block.threads[i];
          one.context.reset();
          has_waited[i] = false;
          one.uncommitted.clear();
          one.copies.clear();
          one.fences.clear();
        }
        block.run();
      }
}

}  // namespace assay::cuda::emulation
