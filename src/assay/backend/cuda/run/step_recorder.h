// Records a step's graph again, with some of its launches made more than once: what node times come from
// (node_times.h).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "assay/backend/cuda/forwarding_runtime.h"
#include "assay/backend/cuda/run/gemm_library.h"

namespace assay::cuda {

// In front of another runtime, to which everything goes. Its first recording tells which launches a step
// makes; each later one makes the same, and those that it was told to repeat.
class StepRecorder final : public ForwardingRuntime, private GemmLibrary {
 public:
  struct Launch {
    std::size_t part = 0;          // the one that began last
    const void* kernel = nullptr;  // the same for launches of one kernel
    LaunchShape shape = {};
    std::function<void(Runtime&)> again = {};  // with the arguments that it had
  };
  // The launch of this number, made again once the one of number `behind` has been made.
  struct Repeat {
    std::size_t behind = 0, launch = 0;
  };

  using ForwardingRuntime::ForwardingRuntime;
  const std::vector<Launch>& launches() const { return launches_; }
  // What is launched from now on belongs to this part.
  void begins(std::size_t part) { part_ = part; }
  // For the recordings to come.
  void repeat(std::vector<Repeat> repeats) { repeats_ = std::move(repeats); }

  void copy(DevicePointer<std::byte> to, DevicePointer<const std::byte> from, std::int64_t bytes) override;
  void fill(DevicePointer<std::byte> to, std::uint8_t value, std::int64_t bytes) override;
  void launch_raw(const char* name, void* entry, Trampoline trampoline, const LaunchShape& shape,
                  const void* args, std::size_t args_bytes) override;
  GemmLibrary& gemm_library() override;
  void begin_capture() override;
  // Throws std::logic_error where a later recording had other launches than the first.
  std::unique_ptr<Graph> end_capture() override;

 private:
  void multiply(const GemmProblem& problem) override;
  void make(const void* kernel, const LaunchShape& shape, std::function<void(Runtime&)> launch);

  std::vector<Launch> launches_;
  std::vector<Repeat> repeats_;
  std::size_t part_ = 0, made_ = 0;
  bool is_recording_ = false, has_recorded_ = false;
};

}  // namespace assay::cuda
