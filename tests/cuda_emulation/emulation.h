// Runs the kernels of backend/cuda on a CPU: a block's threads are fibers, and what device.cuh offers under
// nvcc is here done, and checked.
//
// Reported, as an Error that names the kernel, the block and the thread: access outside an allocation or to a
// wrong alignment; before the kernel in front was waited for, writing to global memory and reading what that
// kernel or this one has written (what the kernels before wrote is there: they have ended), and threads that
// end without waiting for it; shared memory read before it is written, or written by one thread
// and used by another without a barrier between them; reading what cp_async_16 still copies; warp operations
// that not all lanes reach, or that lanes reach with different ones; threads that wait for what never comes.
// Not modelled: time, occupancy, the rounding of sums within a tensor core, races in global memory.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#include "assay/backend/cuda/runtime.h"
#include "assay/tensor/half.h"
#include "cuda_emulation/global_memory.h"

#define ASSAY_COMPILED_FOR emulated
#define ASSAY_KERNEL inline void
#define ASSAY_KERNEL_OF(...) inline void
#define ASSAY_DEVICE inline
#define ASSAY_UNROLL
#define ASSAY_NO_UNROLL

namespace assay::cuda::emulation {

void block_barrier();

// What a lane brings to an operation of its warp; the last to come does the operation for all of them.
enum class WarpOperation : std::uint8_t { barrier, shuffle, ballot, largest, mma, matrices };
using WarpFunction = void (*)(void* const* lanes);  // [32]
void warp_operation(WarpOperation what, std::uint64_t detail, void* mine, WarpFunction function);

// 4-byte cells [first, first + count) of the block's shared memory.
void read_shared(std::int64_t first, std::int64_t count);
void write_shared(std::int64_t first, std::int64_t count);
void check_shared(std::int64_t byte, std::int64_t bytes, std::int64_t alignment);
extern std::byte* shared_memory;
void copy_async(std::int64_t to_byte, const void* from, const Allocation& in);
void commit_copies();
void wait_for_copies(int groups_left);

// Throws Error for the first fault of a thread. has_to_wait: each thread must, for the kernel in front.
void run_launch(const char* name, const LaunchShape& shape, const std::function<void()>& thread,
                bool has_to_wait = false);

}  // namespace assay::cuda::emulation

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

inline std::int32_t thread_index() {
  return static_cast<std::int32_t>(emulation::here.thread);
}
inline std::int32_t block_threads() {
  return static_cast<std::int32_t>(emulation::here.threads);
}
inline std::int32_t block_x() {
  return static_cast<std::int32_t>(emulation::here.block_x);
}
inline std::int32_t block_y() {
  return static_cast<std::int32_t>(emulation::here.block_y);
}
inline std::int32_t block_z() {
  return static_cast<std::int32_t>(emulation::here.block_z);
}
inline std::int32_t grid_x() {
  return static_cast<std::int32_t>(emulation::here.grid_x);
}
inline void barrier() {
  emulation::block_barrier();
}
inline void warp_barrier() {
  emulation::warp_operation(emulation::WarpOperation::barrier, 0, nullptr, [](void* const*) {});
}

inline void wait_for_previous() {
  emulation::has_waited[emulation::here.thread] = true;
}
inline void let_next_start() {
  emulation::lets_next_start = true;
}

struct alignas(16) Words4 {
  std::uint32_t word[4];
};
struct alignas(8) Floats2 {
  float x, y;
};

template <typename T>
class Global {
 public:
  Global() = default;
  explicit Global(DevicePointer<T> pointer)
      : address_(pointer.address), in_(emulation::allocation_of(pointer.address)) {}
  explicit operator bool() const { return address_ != nullptr; }
  Global operator+(std::int64_t elements) const {
    Global moved = *this;
    moved.address_ = reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(address_) +
                                          static_cast<std::uintptr_t>(elements) * sizeof(T));
    return moved;
  }
  T& operator[](std::int64_t i) const { return *checked<T>(i); }
  // For bytes: element i of another type that begins here; aligned to it.
  template <typename U>
  U load(std::int64_t i) const {
    return *checked<const U>(i);
  }
  Words4 load_once(std::int64_t i) const { return load<Words4>(i); }
  template <typename U>
  U load_once_of(std::int64_t i) const {
    return load<U>(i);
  }
  Words4 load_shared_by_blocks(std::int64_t i) const { return load<Words4>(i); }
  // 4 or 8 bytes that other kernels or blocks wrote: past the L1 cache, which may hold what was there.
  template <typename U>
  U load_written(std::int64_t i) const {
    return load<U>(i);
  }
  void prefetch(std::int64_t i) const { (void)load<std::uint32_t>(i); }
  template <typename U>
  Global<U> as() const {
    return Global<U>(reinterpret_cast<U*>(address_), in_);
  }
  bool is_aligned(std::size_t bytes) const { return reinterpret_cast<std::uintptr_t>(address_) % bytes == 0; }
  const T* address() const { return address_; }
  Global pinned() const { return *this; }
  const emulation::Allocation& allocation() const { return in_; }

  Global(T* address, const emulation::Allocation& in) : address_(address), in_(in) {}

 private:
  template <typename U>
  U* checked(std::int64_t i) const {
    const std::uintptr_t at =
        reinterpret_cast<std::uintptr_t>(address_) + static_cast<std::uintptr_t>(i) * sizeof(U);
    if (at < in_.begin || at + sizeof(U) > in_.end || at + sizeof(U) < at)
      emulation::fail_access("outside", in_, at, sizeof(U));
    if (at % alignof(U) != 0) emulation::fail_access("misaligned", in_, at, sizeof(U));
    emulation::touch(in_, at, sizeof(U), !std::is_const_v<U>);
    return reinterpret_cast<U*>(at);
  }

  T* address_ = nullptr;
  emulation::Allocation in_{};
};

// x[i] = the larger of it and value, whoever else does the same.
inline void atomic_max(const Global<std::uint64_t>& x, std::int64_t i, std::uint64_t value) {
  if (value > x[i]) x[i] = value;
}

// x[i] counts from 0 to `last`, and behind it is 0 again, whoever else counts; gives what it was.
inline std::uint32_t atomic_count(const Global<std::uint32_t>& x, std::int64_t i, std::uint32_t last) {
  const std::uint32_t was = x[i];
  x[i] = was >= last ? 0 : was + 1;
  return was;
}
// What the thread wrote before it is seen by whoever sees what it writes behind it.
inline void fence() {}

// An element of shared memory.
template <typename T>
class SharedElement {
 public:
  explicit SharedElement(std::int64_t byte) : byte_(byte) {}
  operator T() const {  // NOLINT: it stands for the element
    emulation::read_shared(byte_ / 4, sizeof(T) / 4);
    T value;
    std::memcpy(&value, emulation::shared_memory + byte_, sizeof value);
    return value;
  }
  void operator=(T value) const {
    emulation::write_shared(byte_ / 4, sizeof(T) / 4);
    std::memcpy(emulation::shared_memory + byte_, &value, sizeof value);
  }

 private:
  std::int64_t byte_;
};

template <typename T>
class Shared {
  static_assert(sizeof(T) % 4 == 0, "races are looked for in cells of 4 bytes");

 public:
  explicit Shared(std::int64_t byte) : byte_(byte) {}
  SharedElement<T> operator[](std::int64_t i) const {
    const std::int64_t at = byte_ + i * static_cast<std::int64_t>(sizeof(T));
    emulation::check_shared(at, sizeof(T), alignof(T));
    return SharedElement<T>(at);
  }
  SharedElement<T> at_byte(std::uint32_t byte) const { return Shared(byte_ + std::int64_t{byte})[0]; }
  std::int64_t byte() const { return byte_; }

 private:
  std::int64_t byte_;
};
// The launch's dynamic shared memory from a byte on.
template <typename T>
Shared<T> shared(std::int64_t byte) {
  return Shared<T>(byte);
}

// 16 bytes from global to shared memory, there after cp_async_wait; both 16-byte aligned.
template <typename T>
void cp_async_16(const Shared<T>& to, std::int64_t element, const Global<const std::byte>& from,
                 std::int64_t byte) {
  const Global<const std::byte> source = from + byte;
  (void)source.template load<Words4>(0);
  emulation::copy_async(to.byte() + element * static_cast<std::int64_t>(sizeof(T)), source.address(),
                        source.allocation());
}
inline void cp_async_commit() {
  emulation::commit_copies();
}
template <int GroupsLeft>
void cp_async_wait() {
  emulation::wait_for_copies(GroupsLeft);
}

template <typename T>
T shuffle_xor(T value, int lanes) {
  struct Mine {
    T in, out;
    int lanes;
  } mine{value, value, lanes};
  emulation::warp_operation(emulation::WarpOperation::shuffle, static_cast<std::uint64_t>(lanes), &mine,
                            [](void* const* all) {
                              for (int i = 0; i < 32; ++i) {
                                auto& one = *static_cast<Mine*>(all[i]);
                                one.out = static_cast<Mine*>(all[i ^ one.lanes])->in;
                              }
                            });
  return mine.out;
}
// For `lane`, which is the same in all lanes.
template <typename T>
T shuffle_from(T value, int lane) {
  struct Mine {
    T in, out;
    int lane;
  } mine{value, value, lane};
  emulation::warp_operation(emulation::WarpOperation::shuffle, static_cast<std::uint64_t>(64 + lane), &mine,
                            [](void* const* all) {
                              for (int i = 0; i < 32; ++i) {
                                auto& one = *static_cast<Mine*>(all[i]);
                                one.out = static_cast<Mine*>(all[one.lane])->in;
                              }
                            });
  return mine.out;
}
std::uint32_t ballot(bool vote);
std::uint32_t largest_of_warp(std::uint32_t value);

inline std::uint32_t bits_of(float x) {
  return std::bit_cast<std::uint32_t>(x);
}
inline float float_of(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device

#include "cuda_emulation/arithmetic.h"
