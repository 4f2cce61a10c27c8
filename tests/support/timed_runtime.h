// A GPU without kernels: memory is the host's, and each launch takes the time that a test gives it.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "assay/base/error.h"
#include "cuda_emulation/emulated_kernels.h"
#include "cuda_emulation/emulated_runtime.h"

namespace assay::cuda::testing_support {

struct TimedLaunch {
  std::string name;
  LaunchShape shape = {};
  std::vector<std::byte> args = {};
};
using TimedGraph = std::vector<TimedLaunch>;

class TimedRuntime : public Runtime {
 public:
  using SecondsOf = std::function<double(const TimedLaunch&)>;
  explicit TimedRuntime(SecondsOf seconds_of) : seconds_of_(std::move(seconds_of)) {}

  double graph_seconds = 0;                       // that a graph takes beside its launches
  std::function<double(int replay)> disturbance;  // and that a replay of this number takes
  std::vector<TimedGraph> recorded;               // all graphs
  int replays = 0;

  const DeviceFacts& facts() const override { return device_.facts; }
  const Kernels& kernels() const override { return emulated_kernels(); }
  const StepKernels& step_kernels() const override { return emulated_step_kernels(); }
  DevicePointer<std::byte> allocate(std::int64_t bytes) override {
    auto memory = std::make_unique<std::byte[]>(static_cast<std::size_t>(bytes) + 256);
    const auto at = (reinterpret_cast<std::uintptr_t>(memory.get()) + 255) / 256 * 256;
    auto* aligned = reinterpret_cast<std::byte*>(at);
    memory_[aligned] = std::move(memory);
    return DevicePointer<std::byte>(aligned);
  }
  void free(DevicePointer<std::byte> memory) override { memory_.erase(memory.address); }
  MemoryInfo memory_info() override {
    const Bytes all{device_.facts.memory_bytes};
    return {.free = all, .total = all, .allocated = {0}, .peak = {0}};
  }
  void reset_peak() override {}
  void upload(DevicePointer<std::byte> to, std::span<const std::byte> from) override {
    if (capture_) throw Error("an upload cannot be part of a graph");
    std::memcpy(to.address, from.data(), from.size());
  }
  void download(std::span<std::byte> to, DevicePointer<const std::byte> from) override {
    if (capture_) throw Error("a download cannot be part of a graph");
    std::memcpy(to.data(), from.address, to.size());
  }
  void copy(DevicePointer<std::byte>, DevicePointer<const std::byte>, std::int64_t) override {
    add({.name = "copy"});
  }
  void fill(DevicePointer<std::byte>, std::uint8_t, std::int64_t) override { add({.name = "fill"}); }
  void launch_raw(const char* name, void*, Trampoline, const LaunchShape& shape, const void* args,
                  std::size_t args_bytes) override {
    const auto* bytes = static_cast<const std::byte*>(args);
    add({.name = name, .shape = shape, .args = std::vector<std::byte>(bytes, bytes + args_bytes)});
  }
  void synchronize() override {}
  std::uint64_t record() override {
    if (capture_) throw Error("a time cannot be taken while a graph is recorded");
    points_.push_back(now_);
    return points_.size() - 1;
  }
  Seconds between(std::uint64_t begin, std::uint64_t end) override {
    return {points_.at(end) - points_.at(begin)};
  }
  GemmLibrary& gemm_library() override { throw Error("there is no library"); }
  void begin_capture() override { capture_ = std::make_unique<Recorded>(); }
  std::unique_ptr<Graph> end_capture() override {
    recorded.push_back(capture_->launches);
    return std::move(capture_);
  }
  void replay(Graph& graph) override {
    for (const TimedLaunch& launch : static_cast<Recorded&>(graph).launches) now_ += seconds_of_(launch);
    now_ += graph_seconds + (disturbance ? disturbance(replays) : 0);
    ++replays;
  }

 private:
  struct Recorded : Graph {
    TimedGraph launches;
  };
  void add(TimedLaunch launch) {
    if (capture_)
      capture_->launches.push_back(std::move(launch));
    else
      now_ += seconds_of_(launch);
  }

  SecondsOf seconds_of_;
  EmulatedDevice device_;
  std::map<std::byte*, std::unique_ptr<std::byte[]>> memory_;
  std::vector<double> points_;
  double now_ = 0;
  std::unique_ptr<Recorded> capture_;
};

}  // namespace assay::cuda::testing_support
