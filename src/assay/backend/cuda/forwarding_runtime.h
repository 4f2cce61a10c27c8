// A runtime in front of another one, to which everything goes: what stands between them overrides some of it.
#pragma once

#include <memory>
#include <utility>

#include "assay/backend/cuda/runtime.h"

namespace assay::cuda {

class ForwardingRuntime : public Runtime {
 public:
  explicit ForwardingRuntime(std::shared_ptr<Runtime> behind) : behind_(std::move(behind)) {}

  const DeviceFacts& facts() const override { return behind_->facts(); }
  const Kernels& kernels() const override { return behind_->kernels(); }
  const StepKernels& step_kernels() const override { return behind_->step_kernels(); }
  DevicePointer<std::byte> allocate(std::int64_t bytes) override { return behind_->allocate(bytes); }
  void free(DevicePointer<std::byte> memory) override { behind_->free(memory); }
  MemoryInfo memory_info() override { return behind_->memory_info(); }
  void reset_peak() override { behind_->reset_peak(); }
  void upload(DevicePointer<std::byte> to, std::span<const std::byte> from) override {
    behind_->upload(to, from);
  }
  void download(std::span<std::byte> to, DevicePointer<const std::byte> from) override {
    behind_->download(to, from);
  }
  void copy(DevicePointer<std::byte> to, DevicePointer<const std::byte> from, std::int64_t bytes) override {
    behind_->copy(to, from, bytes);
  }
  void fill(DevicePointer<std::byte> to, std::uint8_t value, std::int64_t bytes) override {
    behind_->fill(to, value, bytes);
  }
  void launch_raw(const char* name, void* entry, Trampoline trampoline, const LaunchShape& shape,
                  const void* args, std::size_t args_bytes) override {
    behind_->launch_raw(name, entry, trampoline, shape, args, args_bytes);
  }
  void synchronize() override { behind_->synchronize(); }
  std::uint64_t record() override { return behind_->record(); }
  Seconds between(std::uint64_t begin, std::uint64_t end) override { return behind_->between(begin, end); }
  GemmLibrary& gemm_library() override { return behind_->gemm_library(); }
  void begin_capture() override { behind_->begin_capture(); }
  std::unique_ptr<Graph> end_capture() override { return behind_->end_capture(); }
  void replay(Graph& graph) override { behind_->replay(graph); }

 protected:
  Runtime& behind() { return *behind_; }

 private:
  std::shared_ptr<Runtime> behind_;
};

}  // namespace assay::cuda
