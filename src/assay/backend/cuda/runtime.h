// What the CUDA backend needs of a device, as an interface: a GPU through the CUDA runtime, or the emulation
// of the tests. Host code only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "assay/backend/cuda/lower/layout.h"
#include "assay/base/units.h"

namespace assay::cuda {

// An address in the memory of the device. The host only passes it on.
template <typename T>
struct DevicePointer {
  T* address = nullptr;

  DevicePointer() = default;
  ASSAY_HOST_DEVICE explicit DevicePointer(T* at) : address(at) {}
  template <typename U>
  requires std::is_same_v<const U, T> DevicePointer(DevicePointer<U> other) : address(other.address) {}
  ASSAY_HOST_DEVICE explicit operator bool() const { return address != nullptr; }
  DevicePointer operator+(std::int64_t elements) const { return DevicePointer(address + elements); }
  template <typename U>
  DevicePointer<U> as() const {
    return DevicePointer<U>(reinterpret_cast<U*>(address));
  }
};

struct LaunchShape {
  std::uint32_t grid_x = 1, grid_y = 1, grid_z = 1;
  std::uint32_t block = 0;         // threads
  std::uint32_t shared_bytes = 0;  // dynamic
};

// A kernel of one argument, a trivially copyable struct.
template <typename Args>
struct Kernel {
  const char* name = "";
  void (*entry)(Args) = nullptr;
};

struct DeviceFacts {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int processors = 0;        // SMs
  std::int64_t shared_bytes_per_block = 0;
  std::int64_t l2_bytes = 0, memory_bytes = 0;
  std::string bus_id = {};  // "00000000:65:00.0"
  std::string driver = {};  // "580.65.06, CUDA 13.0"
};

// Multiplies bfloat16 and TF32 (Ampere, sm_80, and later); Turing (sm_75) does not.
inline bool has_bfloat16(const DeviceFacts& facts) {
  return facts.major >= 8;
}

// Launches that were recorded, to be made again together: a CUDA graph.
class Graph {
 public:
  virtual ~Graph() = default;
};

struct Kernels;
struct StepKernels;
class GemmLibrary;

// One stream: what is asked for happens in order. All functions throw Error; a fault of a kernel shows at any
// later call, as a DeviceFault, which then comes from every call.
class Runtime {
 public:
  // Calls entry(*args): how the emulation runs a kernel whose argument type it does not know.
  using Trampoline = void (*)(void* entry, const void* args);

  virtual ~Runtime() = default;
  virtual const DeviceFacts& facts() const = 0;
  virtual const Kernels& kernels() const = 0;
  virtual const StepKernels& step_kernels() const = 0;

  // 256-byte aligned. What a fresh allocation holds is unknown.
  virtual DevicePointer<std::byte> allocate(std::int64_t bytes) = 0;
  virtual void free(DevicePointer<std::byte> memory) = 0;
  struct MemoryInfo {
    Bytes free, total;      // as the driver tells, what other programs hold included
    Bytes allocated, peak;  // by this runtime: now, and at most since reset_peak()
  };
  virtual MemoryInfo memory_info() = 0;
  virtual void reset_peak() = 0;
  // In stream order. upload() has read `from` when it returns; download() has written `to`.
  virtual void upload(DevicePointer<std::byte> to, std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to, DevicePointer<const std::byte> from) = 0;
  virtual void copy(DevicePointer<std::byte> to, DevicePointer<const std::byte> from, std::int64_t bytes) = 0;
  virtual void fill(DevicePointer<std::byte> to, std::uint8_t value, std::int64_t bytes) = 0;

  virtual void launch_raw(const char* name, void* entry, Trampoline trampoline, const LaunchShape& shape,
                          const void* args, std::size_t args_bytes) = 0;
  virtual void synchronize() = 0;

  // A point in the stream, and the time between two that have passed. Numbers of points are reused.
  virtual std::uint64_t record() = 0;
  virtual Seconds between(std::uint64_t begin, std::uint64_t end) = 0;

  // Loaded when it is first asked for. Throws Error, one sentence, where it is absent (gemm_library.h).
  virtual GemmLibrary& gemm_library() = 0;

  // Between the two, launches, copies and fills within the device are recorded and not made.
  virtual void begin_capture() = 0;
  virtual std::unique_ptr<Graph> end_capture() = 0;
  virtual void replay(Graph& graph) = 0;
};

template <typename Args>
void launch(Runtime& runtime, const Kernel<Args>& kernel, const LaunchShape& shape, const Args& args) {
  static_assert(std::is_trivially_copyable_v<Args>);
  const auto trampoline = [](void* entry, const void* given) {
    reinterpret_cast<void (*)(Args)>(entry)(*static_cast<const Args*>(given));
  };
  runtime.launch_raw(kernel.name, reinterpret_cast<void*>(kernel.entry), trampoline, shape, &args,
                     sizeof args);
}

}  // namespace assay::cuda
