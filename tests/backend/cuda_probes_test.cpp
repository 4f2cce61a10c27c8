// Probes of what a GPU reaches at most, in the emulation: what they compute.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/backend/cuda/kernels/step_kernels.h"
#include "assay/backend/cuda/probes.h"
#include "cuda_emulation/device_memory.h"
#include "support/timed_runtime.h"

namespace assay::cuda {
namespace {

class CudaStepKernels : public testing::Test {
 protected:
  std::unique_ptr<Runtime> runtime_ = make_test_runtime();
  DeviceMemory memory_{*runtime_};
};

class CudaProbes : public testing::Test {
 protected:
  static EmulatedDevice small() {
    EmulatedDevice device;
    device.facts.processors = 1;
    device.facts.memory_bytes = 1 << 24;
    return device;
  }
  std::shared_ptr<EmulatedRuntime> runtime_ = make_emulated_runtime(small());
  DeviceMemory memory_{*runtime_};
};

// Every word once in each pass, of a size that is no multiple of what the blocks read at once.
TEST_F(CudaStepKernels, ReadEveryWordInEveryPass) {
  constexpr std::int64_t kWords = 4 * (3 * 256 * 4 * 2 + 77), kPasses = 3;
  std::vector<std::uint32_t> words(kWords);
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = static_cast<std::uint32_t>(i * 2654435761U) << 4;  // so that a pass adds its number
  std::uint32_t want = 0;
  for (std::uint32_t pass = 0; pass < kPasses; ++pass)
    for (const std::uint32_t word : words) want += word ^ pass;
  const auto data = memory_.put(words);
  const auto out = memory_.of<std::uint32_t>(3 * 256);
  launch(*runtime_, runtime_->step_kernels().read_probe, {.grid_x = 3, .block = 256},
         ReadProbeArgs{data.as<const std::byte>(), kWords * 4, kPasses, out});
  const auto sums = memory_.get(out, 3 * 256);
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), std::uint32_t{0}), want);
}

TEST_F(CudaStepKernels, MultiplyAsOftenAsTheySay) {
  const StepKernels& kernels = runtime_->step_kernels();
  constexpr std::int64_t kRounds = 3;
  const auto sum = [&](const Kernel<MultiplyProbeArgs>& kernel, std::uint32_t a, std::uint32_t b) {
    const auto out = memory_.of<float>(256);
    launch(*runtime_, kernel, {.block = 256}, MultiplyProbeArgs{a, b, kRounds, out});
    const auto all = memory_.get(out, 256);
    for (const float one : all) EXPECT_EQ(one, all[0]) << kernel.name;
    return all[0];
  };
  // Products of ones: each element of the result is k a round, and a thread has 4 of them in each chain.
  const auto want = [](int k) { return static_cast<float>(kRounds * k * 4 * kProbeChains); };
  EXPECT_EQ(sum(kernels.multiply_bf16, 0x3f803f80U, 0x3f803f80U), want(16));
  EXPECT_EQ(sum(kernels.multiply_f16, 0x3c003c00U, 0x3c003c00U), want(16));
  EXPECT_EQ(sum(kernels.multiply_tf32, 0x3f800000U, 0x3f800000U), want(8));
  EXPECT_EQ(sum(kernels.multiply_s8, 0x01010101U, 0x01010101U), want(32));
  EXPECT_EQ(sum(kernels.multiply_float32, 0x3f800000U, 0x3f800000U),
            static_cast<float>(kRounds * kProbeFmas));
}

TEST_F(CudaProbes, GiveRatesAndTakeNoMemoryForGood) {
  Probes probes(runtime_);
  const std::int64_t before = runtime_->live_bytes();
  EXPECT_GT(probes.bytes_per_second({1 << 16}, {1e-9}), 0);
  EXPECT_GT(probes.bytes_per_second({std::int64_t{1} << 40}, {1e-9}), 0);  // more than there is
  for (const ProductKind kind : kProducts) EXPECT_GT(probes.operations_per_second(kind, {1e-9}), 0);
  EXPECT_GT(probes.launch_time(10).value, 0);
  EXPECT_GT(probes.graph_node_time(10).value, 0);
  EXPECT_EQ(runtime_->live_bytes(), before);
  EXPECT_EQ(runtime_->replays(), 2);
}

// A pass of 2 us behind a launch of 3 us: how long the probe kept the GPU.
class TimedProbes : public testing::Test {
 protected:
  static constexpr double kLaunch_s = 3e-6;
  std::int64_t launches_ = 0;
  double busy_s_ = 0, pass_s_ = 2e-6;
  std::shared_ptr<Runtime> runtime_ =
      std::make_shared<testing_support::TimedRuntime>([this](const testing_support::TimedLaunch& launch) {
        if (launch.args.size() != sizeof(ReadProbeArgs)) return 0.0;
        ReadProbeArgs args;
        std::memcpy(&args, launch.args.data(), sizeof args);
        ++launches_;
        const double seconds = kLaunch_s + static_cast<double>(args.passes) * pass_s_;
        busy_s_ += seconds;
        return seconds;
      });
  Probes probes_{runtime_};
  // Bytes per second, each time of probes that take a millisecond.
  double measure(std::int64_t bytes = 1 << 20) {
    launches_ = 0;
    busy_s_ = 0;
    return probes_.bytes_per_second({bytes}, {0.001});
  }
};

TEST_F(TimedProbes, BeginWithTheRoundsOfTheCallBefore) {
  const double want = (1 << 20) / pass_s_;
  EXPECT_NEAR(measure(), want, 0.01 * want);
  EXPECT_LE(launches_, 6);
  EXPECT_NEAR(measure(), want, 0.01 * want);
  EXPECT_EQ(launches_, 2) << "one that is long enough, and once more";
  EXPECT_GE(busy_s_, 2 * 0.001);
  EXPECT_LE(busy_s_, 2 * 0.0015);
  measure(1 << 22);
  EXPECT_GT(launches_, 2) << "another working set takes another time";
}

// The GPU's clock changes, or another program used it.
TEST_F(TimedProbes, FollowAGpuThatIsFasterOrSlower) {
  measure();
  pass_s_ = 2e-7;
  EXPECT_NEAR(measure(), (1 << 20) / pass_s_, 0.01 * (1 << 20) / pass_s_);
  EXPECT_LE(launches_, 3);
  measure();
  EXPECT_EQ(launches_, 2);
  pass_s_ = 2e-5;
  measure();  // far too long, but once
  measure();
  EXPECT_LE(busy_s_, 2 * 0.0015);
  EXPECT_EQ(launches_, 2);
}

TEST_F(CudaProbes, FillTheTableOfAGpu) {
  const GpuRooflines found = measure_gpu_rooflines(Device{Device::Kind::cuda, 2}, runtime_, {1e-9});
  EXPECT_EQ(found.device, "cuda:2");
  EXPECT_EQ(found.kernels, "sm_90");
  EXPECT_EQ(found.products.size(), std::size(kProducts));
  for (const double rate : {found.memory_bytes_per_second, found.l2_bytes_per_second, found.launch.value,
                            found.graph_node.value, found.products[0].operations_per_second})
    EXPECT_GT(rate, 0);
}

TEST_F(CudaProbes, AreOfTheProductThatAFormatUses) {
  EXPECT_EQ(product_of(Multiply::int8), ProductKind::int8);
  EXPECT_EQ(product_of(Multiply::bfloat16), ProductKind::bfloat16);
  EXPECT_EQ(product_of(Multiply::float32), ProductKind::float32_fma);
  EXPECT_EQ(name_of(ProductKind::tf32), "tf32 mma.sync");
}

}  // namespace
}  // namespace assay::cuda
