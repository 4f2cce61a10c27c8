// The emulation's warpgroup products: what is right computes, and each fault it looks for is reported.
#include "cuda_emulation/warpgroups.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "assay/backend/cuda/kernels/wgmma.cuh"
#include "assay/base/error.h"
#include "cuda_emulation/device_memory.h"

namespace assay::cuda {
namespace {

using namespace device;

struct ProductResult {
  DevicePointer<float> x;  // [128]: the first sum of each thread
};
enum class Fault {
  none,
  rows_not_shown,
  rows_without_barrier,
  shown_behind_barrier,
  no_fence,
  weights_change,
  sums_written,
  rows_written,
  rows_written_behind_wait,
  sums_read_early,
  no_wait,
  wrong_swizzle
};

// Row r, input k of 16: r % 4 + k / 4. All weights are 1, so that a sum of row 0 is 24.
void put_rows(std::int32_t first) {
  const Shared<std::uint32_t> s = shared<std::uint32_t>(0);
  for (int i = thread_index(); i < 64 * 32; i += block_threads()) {
    const int row = i / 32, word = i % 32, chunk = word / 4 ^ (row & 7);
    const auto value = static_cast<float>(row % 4 + word * 2 % 16 / 4);
    s[first / 4 + row * 32 + chunk * 4 + word % 4] = bf16_bits(value) * 0x10001U;
  }
}

template <Fault fault>
void one_product(ProductResult a) {
  wait_for_previous();
  const std::int32_t first = first_swizzled_byte();
  put_rows(first);
  if (fault == Fault::shown_behind_barrier) barrier();
  if (fault != Fault::rows_not_shown) fence_async_proxy();
  if (fault != Fault::rows_without_barrier && fault != Fault::shown_behind_barrier) barrier();
  if (fault != Fault::no_fence) wgmma_fence();
  Words4 w{};
  for (std::uint32_t& word : w.word) word = bf16_bits(1) * 0x10001U;
  float d[32] = {};
  wgmma_bf16(d, w.word, swizzled_rows(first) ^ (fault == Fault::wrong_swizzle ? std::uint64_t{3} << 62 : 0));
  wgmma_commit();
  const Shared<float> rows = shared<float>(first);
  const int t = thread_index();
  if (fault == Fault::weights_change) w.word[1] = 0;
  if (fault == Fault::sums_written) d[3] = 0;
  if (fault == Fault::rows_written) rows[t] = 0;
  const float early = d[0];
  if (fault != Fault::no_wait) wgmma_wait<0>();
  if (fault == Fault::rows_written_behind_wait) rows[t] = 0;
  Global<float>(a.x)[t] = fault == Fault::sums_read_early ? early : d[0];
}

class CudaWarpgroupEmulation : public testing::Test {
 protected:
  std::string fault(void (*entry)(ProductResult), std::uint32_t threads = 128) {
    const DevicePointer<float> x = memory_.of<float>(128);
    try {
      launch(*runtime_, Kernel<ProductResult>{"tried", entry},
             {.block = threads, .shared_bytes = 1024 + 64 * 128}, ProductResult{x});
    } catch (const Error& error) {
      return error.what();
    }
    result_ = memory_.get(x, 128);
    return "";
  }
  template <Fault planted>
  void expect_says(const std::string& words) {
    const std::string said = fault(one_product<planted>);
    EXPECT_NE(said.find(words), std::string::npos) << "it says: " << said;
  }

  std::unique_ptr<EmulatedRuntime> runtime_ = make_emulated_runtime();
  DeviceMemory memory_{*runtime_};
  std::vector<float> result_;
};

TEST_F(CudaWarpgroupEmulation, MultipliesRowsOfTheSwizzledPattern) {
  EXPECT_EQ(fault(one_product<Fault::none>), "");
  for (int thread = 0; thread < 128; ++thread)  // d[0] is of row 2 t
    EXPECT_EQ(result_[static_cast<std::size_t>(thread)], static_cast<float>(24 + 16 * (2 * (thread % 4) % 4)))
        << "thread " << thread;
}

TEST_F(CudaWarpgroupEmulation, ReportsRowsThatAreNotComplete) {
  expect_says<Fault::rows_not_shown>("has shown it by fence_async_proxy()");
  expect_says<Fault::rows_without_barrier>("with no barrier behind the fence");
  expect_says<Fault::shown_behind_barrier>("with no barrier behind the fence");
}

TEST_F(CudaWarpgroupEmulation, ReportsWhatIsTouchedBeforeTheWait) {
  expect_says<Fault::no_fence>("without wgmma_fence()");
  expect_says<Fault::weights_change>("registers of weights change");
  expect_says<Fault::sums_written>("sums of a product are written before");
  expect_says<Fault::rows_written>("which a product may still read");
  expect_says<Fault::rows_written_behind_wait>("with no barrier between them");
  expect_says<Fault::no_wait>("before it has waited for its products");
  expect_says<Fault::wrong_swizzle>("descriptor has swizzle");
}

TEST_F(CudaWarpgroupEmulation, GivesNoSumsBeforeTheWait) {
  EXPECT_EQ(fault(one_product<Fault::sums_read_early>), "");
  for (const float x : result_) EXPECT_EQ(std::bit_cast<std::uint32_t>(x), emulation::kUnfinished);
}

TEST_F(CudaWarpgroupEmulation, WantsWholeWarpgroups) {
  const std::string said = fault(one_product<Fault::none>, 64);
  EXPECT_NE(said.find("whole warpgroups of 128"), std::string::npos) << said;
}

}  // namespace
}  // namespace assay::cuda
