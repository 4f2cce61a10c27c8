// A runtime that runs what it is asked for by another one, and says what that was.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "assay/backend/cuda/forwarding_runtime.h"
#include "assay/base/format.h"
#include "cuda_emulation/emulated_runtime.h"

namespace assay::cuda::testing_support {

class WatchedRuntime : public ForwardingRuntime {
 public:
  explicit WatchedRuntime(const EmulatedDevice& device = {}) : WatchedRuntime(make_shared_runtime(device)) {}

  // "ordered_bfloat16<8> 5 x 1 x 1, 4352 bytes": since the last call.
  std::vector<std::string> take_launches() { return std::exchange(launches_, {}); }
  // Launches and recordings count as events: what happens is told in one order.
  std::vector<std::string>& events() { return events_; }
  EmulatedRuntime& inner() { return *inner_; }

  void launch_raw(const char* name, void* entry, Trampoline trampoline, const LaunchShape& shape,
                  const void* args, std::size_t args_bytes) override {
    launches_.push_back(fmt::format("{} {} x {} x {}, {} bytes", name, shape.grid_x, shape.grid_y,
                                    shape.grid_z, shape.shared_bytes));
    events_.push_back("launch");
    ForwardingRuntime::launch_raw(name, entry, trampoline, shape, args, args_bytes);
  }
  std::uint64_t record() override {
    events_.push_back("record");
    return ForwardingRuntime::record();
  }
  void replay(Graph& graph) override {
    events_.push_back("replay");
    ForwardingRuntime::replay(graph);
  }

 private:
  explicit WatchedRuntime(std::shared_ptr<EmulatedRuntime> inner)
      : ForwardingRuntime(inner), inner_(std::move(inner)) {}
  static std::shared_ptr<EmulatedRuntime> make_shared_runtime(const EmulatedDevice& device) {
    return make_emulated_runtime(device);
  }

  std::shared_ptr<EmulatedRuntime> inner_;
  std::vector<std::string> launches_, events_;
};

}  // namespace assay::cuda::testing_support
