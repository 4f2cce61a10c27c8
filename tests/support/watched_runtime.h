// A runtime that runs what it is asked for by another one, and says what that was.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "assay/base/format.h"
#include "cuda_emulation/emulated_runtime.h"

namespace assay::cuda::testing_support {

class WatchedRuntime : public Runtime {
 public:
  explicit WatchedRuntime(const EmulatedDevice& device = {}) : inner_(make_emulated_runtime(device)) {}

  // "ordered_bfloat16<8> 5 x 1 x 1, 4352 bytes": since the last call.
  std::vector<std::string> take_launches() { return std::exchange(launches_, {}); }
  // Launches and recordings count as events: what happens is told in one order.
  std::vector<std::string>& events() { return events_; }
  EmulatedRuntime& inner() { return *inner_; }

  const DeviceFacts& facts() const override { return inner_->facts(); }
  const Kernels& kernels() const override { return inner_->kernels(); }
  const StepKernels& step_kernels() const override { return inner_->step_kernels(); }
  DevicePointer<std::byte> allocate(std::int64_t bytes) override { return inner_->allocate(bytes); }
  void free(DevicePointer<std::byte> memory) override { inner_->free(memory); }
  MemoryInfo memory_info() override { return inner_->memory_info(); }
  void reset_peak() override { inner_->reset_peak(); }
  void upload(DevicePointer<std::byte> to, std::span<const std::byte> from) override {
    inner_->upload(to, from);
  }
  void download(std::span<std::byte> to, DevicePointer<const std::byte> from) override {
    inner_->download(to, from);
  }
  void copy(DevicePointer<std::byte> to, DevicePointer<const std::byte> from, std::int64_t bytes) override {
    inner_->copy(to, from, bytes);
  }
  void fill(DevicePointer<std::byte> to, std::uint8_t value, std::int64_t bytes) override {
    inner_->fill(to, value, bytes);
  }
  void launch_raw(const char* name, void* entry, Trampoline trampoline, const LaunchShape& shape,
                  const void* args, std::size_t args_bytes) override {
    launches_.push_back(fmt::format("{} {} x {} x {}, {} bytes", name, shape.grid_x, shape.grid_y,
                                    shape.grid_z, shape.shared_bytes));
    events_.push_back("launch");
    inner_->launch_raw(name, entry, trampoline, shape, args, args_bytes);
  }
  void synchronize() override { inner_->synchronize(); }
  std::uint64_t record() override {
    events_.push_back("record");
    return inner_->record();
  }
  Seconds between(std::uint64_t begin, std::uint64_t end) override { return inner_->between(begin, end); }
  GemmLibrary& gemm_library() override { return inner_->gemm_library(); }
  void begin_capture() override { inner_->begin_capture(); }
  std::unique_ptr<Graph> end_capture() override { return inner_->end_capture(); }
  void replay(Graph& graph) override {
    events_.push_back("replay");
    inner_->replay(graph);
  }

 private:
  std::unique_ptr<EmulatedRuntime> inner_;
  std::vector<std::string> launches_, events_;
};

}  // namespace assay::cuda::testing_support
