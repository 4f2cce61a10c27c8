// A device that runs kernels in the emulation: what the CUDA backend is tested on where there is no GPU.
#pragma once

#include <memory>

#include "assay/backend/cuda/runtime.h"

namespace assay::cuda {

struct EmulatedDevice {
  DeviceFacts facts{.name = "emulated GPU",
                    .major = 9,
                    .minor = 0,
                    .processors = 132,
                    .shared_bytes_per_block = 227 << 10,
                    .l2_bytes = 50 << 20,
                    .memory_bytes = std::int64_t{1} << 30};
  bool has_gemm_library = true;
  bool overlaps_kernels = true;  // false: one starts when the one in front has ended
};

// Launches run when they are made, on the caller's thread; of all emulated devices together one runs at a
// time. Times are the host's. What the emulation finds wrong is an Error of the launch. Counters for tests.
class EmulatedRuntime : public Runtime {
 public:
  virtual std::int64_t launches() const = 0;     // that ran, in graphs too
  virtual std::int64_t live_bytes() const = 0;   // allocated now
  virtual std::int64_t allocations() const = 0;  // that live
  virtual std::int64_t replays() const = 0;      // how many graphs
  virtual std::int64_t products() const = 0;     // that of the library that multiplies matrices
  virtual std::int64_t downloaded() const = 0;   // bytes that went to the host
  // With a DeviceFault, which then comes from every call, as of a GPU whose kernel has failed.
  virtual void fail_next_launch() = 0;
};
std::unique_ptr<EmulatedRuntime> make_emulated_runtime(const EmulatedDevice& device = {});

// What tests of kernels run on: the emulation, or where the variable ASSAY_TEST_CUDA is set, in a build with
// CUDA, the first GPU.
std::unique_ptr<Runtime> make_test_runtime(const EmulatedDevice& device = {});

}  // namespace assay::cuda
