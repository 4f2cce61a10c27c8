// Measures which choices make multiplications fastest on a GPU, and keeps what it found.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/backend/cuda/kernels/launch_choices.h"
#include "assay/base/cpu.h"
#include "assay/base/units.h"

namespace assay::cuda {

// Multiplications that choose alike. `launches` are made one after another, each by a matrix that no cache
// holds.
struct TunedProduct {
  ProductKey key = {};
  std::vector<LaunchChoice> candidates = {};  // the rule first
  std::vector<std::function<void(const LaunchChoice&)>> launches = {};
};

// What tells times, so that tests need no GPU.
class LaunchTimer {
 public:
  virtual ~LaunchTimer() = default;
  virtual Seconds now() = 0;
  // All launches of the product once, without what the first time costs.
  virtual Seconds time_of(const TunedProduct& product, const LaunchChoice& choice) = 0;
};
// By events around a graph of the launches.
std::unique_ptr<LaunchTimer> make_graph_timer(std::shared_ptr<Runtime> runtime);

// In turns, for `at_most`: the candidate with the least median of its times, where it gains 3 % over the
// rule, then and once more. One that takes half as long again as the best at first is not tried again, nor
// one that throws Error. Products that there was no time for keep their rule, and are told as not measured.
// Throws DeviceFault.
LaunchChoices measure_launches(std::span<const TunedProduct> products, LaunchTimer& timer, Seconds at_most);

// All of a tuning, with what precedes the first time: copies of matrices, kernels that are loaded.
inline constexpr Seconds kLaunchTuningTime{1.8};

// The file that keeps what was measured: launches.json beside the tuning of processors. Of each device and
// driver an entry.
std::string launch_tuning_file();
// "NVIDIA H200, sm_90, 132 SMs, driver 580.65.06, CUDA 13.0, assay 1.2, launches 1"
std::string launch_tuning_key(const DeviceFacts& facts, std::string_view version);
// What the text of a file says of the keys that are wanted; what it says badly it does not say. And that text
// with other entries of the device.
LaunchChoices launches_in(std::string_view text, const std::string& device,
                          std::span<const ProductKey> wanted);
std::string with_launches(std::string_view text, const std::string& device, const LaunchChoices& choices);

// All that it says of the device, in words.
struct KeptLaunch {
  std::string product;
  MeasuredChoice chosen;
};
std::vector<KeptLaunch> kept_launches(std::string_view text, const std::string& device);
std::vector<KeptLaunch> kept_launches_of(const DeviceFacts& facts);  // by the file of this version

// Adds to `known` all keys that are wanted: as the file has them, else, or where `tune` is `force`, as
// measured now and kept there. Nothing is measured, and the rules stay, where it could not be kept, or where
// another process measures for long: processes would differ.
void find_launches(Tune tune, const DeviceFacts& facts, std::span<const ProductKey> wanted,
                   const std::function<LaunchChoices(std::span<const ProductKey> missing)>& measure,
                   LaunchChoices& known);

}  // namespace assay::cuda
