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
};

// Launches run when they are made, on the caller's thread; of all emulated devices together one runs at a
// time. Times are the host's. Counters for tests.
class EmulatedRuntime : public Runtime {
 public:
  virtual std::int64_t launches() const = 0;    // that ran
  virtual std::int64_t live_bytes() const = 0;  // allocated now
};
std::unique_ptr<EmulatedRuntime> make_emulated_runtime(const EmulatedDevice& device = {});

}  // namespace assay::cuda
