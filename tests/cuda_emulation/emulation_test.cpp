// The emulation of a GPU: what is right runs, and each fault it looks for is reported.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>

#include "assay/backend/cuda/kernels/device.cuh"
#include "assay/base/error.h"
#include "cuda_emulation/device_memory.h"

namespace assay::cuda {
namespace {

using namespace device;

struct Numbers {
  DevicePointer<float> x;
  std::int64_t n = 0;
};

class CudaEmulation : public testing::Test {
 protected:
  void run(void (*entry)(Numbers), const LaunchShape& shape, std::int64_t n = 64) {
    const DevicePointer<float> x = memory_.put(std::vector<float>(static_cast<std::size_t>(n), 1.0F));
    launch(*runtime_, Kernel<Numbers>{"tried", entry}, shape, Numbers{x, n});
    result_ = memory_.get(x, static_cast<std::size_t>(n));
  }
  // What the launch says is wrong; empty where it runs.
  std::string fault(void (*entry)(Numbers), const LaunchShape& shape, std::int64_t n = 64) {
    try {
      run(entry, shape, n);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::unique_ptr<EmulatedRuntime> runtime_ = make_emulated_runtime();
  DeviceMemory memory_{*runtime_};
  std::vector<float> result_;
};

void expect_says(const std::string& fault, const std::string& words) {
  EXPECT_NE(fault.find(words), std::string::npos) << "it says: " << fault;
}

void pass_on(Numbers a, bool with_barrier, void (*wait)()) {
  const Shared<float> s = shared<float>(0);
  const int t = thread_index(), n = block_threads();
  s[t] = static_cast<float>(t);
  if (with_barrier) wait();
  Global<float>(a.x)[t] = s[(t + 1) % n];
}

TEST_F(CudaEmulation, ReportsAMissingBarrier) {
  const LaunchShape shape{.block = 64, .shared_bytes = 256};
  run(
      [](Numbers a) {
        wait_for_previous();
        pass_on(a, true, barrier);
      },
      shape);
  EXPECT_EQ(result_[0], 1.0F);
  EXPECT_EQ(result_[63], 0.0F);
  expect_says(fault(
                  [](Numbers a) {
                    wait_for_previous();
                    pass_on(a, false, barrier);
                  },
                  shape),
              "nobody has written");
  // Written before, in this launch: the value is there, and the order is not.
  expect_says(fault(
                  [](Numbers a) {
                    wait_for_previous();
                    const Shared<float> s = shared<float>(0);
                    const int t = thread_index();
                    s[t] = 1;
                    barrier();
                    s[t] = 2;
                    Global<float>(a.x)[t] = s[63 - t];
                  },
                  shape),
              "with no barrier between them");
}

TEST_F(CudaEmulation, ReportsAWriteBesideAReadOfAnotherThread) {
  expect_says(fault(
                  [](Numbers a) {
                    wait_for_previous();
                    const Shared<float> s = shared<float>(0);
                    const int t = thread_index();
                    s[t] = 1;
                    barrier();
                    const float x = s[(t + 1) % 64];
                    s[t] = x;
                    Global<float>(a.x)[t] = x;
                  },
                  {.block = 64, .shared_bytes = 256}),
              "with no barrier between them");
  expect_says(fault(
                  [](Numbers) {
                    wait_for_previous();
                    shared<float>(0)[0] = 1;
                  },
                  {.block = 32, .shared_bytes = 256}),
              "writes too");
}

TEST_F(CudaEmulation, AWarpBarrierOrdersItsWarpAlone) {
  const auto warp_kernel = [](Numbers a) {
    wait_for_previous();
    pass_on(a, true, warp_barrier);
  };
  run(warp_kernel, {.block = 32, .shared_bytes = 256});
  EXPECT_EQ(result_[0], 1.0F);
  EXPECT_EQ(result_[31], 0.0F);
  const std::string said = fault(warp_kernel, {.block = 64, .shared_bytes = 256});
  EXPECT_NE(said, "");
}

TEST_F(CudaEmulation, ReportsADivergentShuffle) {
  run(
      [](Numbers a) {
        wait_for_previous();
        Global<float>(a.x)[thread_index()] = shuffle_xor(static_cast<float>(thread_index()), 1);
      },
      {.block = 64});
  EXPECT_EQ(result_[0], 1.0F);
  EXPECT_EQ(result_[63], 62.0F);
  expect_says(fault(
                  [](Numbers) {
                    wait_for_previous();
                    if (thread_index() < 16) (void)shuffle_xor(1.0F, 1);
                  },
                  {.block = 32}),
              "stuck");
  expect_says(fault(
                  [](Numbers) {
                    wait_for_previous();
                    if (thread_index() < 16)
                      (void)shuffle_xor(1.0F, 1);
                    else
                      (void)ballot(true);
                  },
                  {.block = 32}),
              "another operation, a shuffle");
}

TEST_F(CudaEmulation, ReportsABarrierThatNotAllReach) {
  const std::string said = fault(
      [](Numbers) {
        wait_for_previous();
        if (thread_index() != 5) barrier();
      },
      {.block = 32});
  expect_says(said, "stuck");
  expect_says(said, "from 5 on: has ended");
}

TEST_F(CudaEmulation, ReportsAccessOutsideAnAllocation) {
  const auto reads_behind = [](Numbers a) {
    wait_for_previous();
    if (thread_index() == 3) Global<float>(a.x)[0] = Global<float>(a.x)[a.n];
  };
  const std::string said = fault(reads_behind, {.grid_x = 2, .block = 32});
  expect_says(said, "kernel tried, block (0, 0, 0), thread 3");
  expect_says(said, "at byte 256 of an allocation of 256");
  expect_says(fault(
                  [](Numbers a) {
                    wait_for_previous();
                    Global<float>(a.x)[-1] = 0;
                  },
                  {.block = 32}),
              "at byte -4 of");
  expect_says(fault(
                  [](Numbers a) {
                    wait_for_previous();
                    (void)Global<float>(a.x).load<Words4>(16);
                  },
                  {.block = 32}),
              "outside");
  expect_says(fault(
                  [](Numbers a) {
                    wait_for_previous();
                    (void)(Global<float>(a.x) + 1).load<Words4>(0);
                  },
                  {.block = 32}),
              "misaligned");
  expect_says(fault(
                  [](Numbers) {
                    wait_for_previous();
                    (void)Global<float>(DevicePointer<float>())[0];
                  },
                  {.block = 32}),
              "no allocation");
}

TEST_F(CudaEmulation, ReportsAccessOutsideSharedMemory) {
  const LaunchShape shape{.block = 32, .shared_bytes = 128};
  expect_says(fault(
                  [](Numbers) {
                    wait_for_previous();
                    shared<float>(0)[thread_index() + 1] = 0;
                  },
                  shape),
              "at byte 128 of shared memory");
  expect_says(fault(
                  [](Numbers) {
                    wait_for_previous();
                    shared<double>(4)[0] = 0;
                  },
                  shape),
              "misaligned");
  expect_says(fault(
                  [](Numbers a) {
                    wait_for_previous();
                    Global<float>(a.x)[0] = shared<float>(0)[0];
                  },
                  shape),
              "nobody has written");
  // A block does not see what the one before it wrote.
  expect_says(fault(
                  [](Numbers a) {
                    wait_for_previous();
                    const Shared<float> s = shared<float>(0);
                    if (block_x() == 0) s[thread_index()] = 1;
                    Global<float>(a.x)[thread_index()] = s[thread_index()];
                  },
                  {.grid_x = 2, .block = 32, .shared_bytes = 128}),
              "block (1, 0, 0), thread 0: reads byte 0");
}

void copy_and_read(Numbers a, bool waits, bool has_barrier) {
  const Shared<float> s = shared<float>(0);
  const int t = thread_index();
  const Global<const std::byte> from = Global<float>(a.x).as<const std::byte>();
  if (t < 8) cp_async_16(s, 4 * t, from, 16 * t);
  cp_async_commit();
  if (waits) cp_async_wait<0>();
  if (has_barrier) barrier();
  const float x = s[31 - t];
  if (!waits) cp_async_wait<0>();
  Global<float>(a.x)[32 + t] = x;
}

TEST_F(CudaEmulation, ReportsAnEarlyReadOfWhatIsCopied) {
  const LaunchShape shape{.block = 32, .shared_bytes = 128};
  run(
      [](Numbers a) {
        wait_for_previous();
        copy_and_read(a, true, true);
      },
      shape);
  EXPECT_EQ(result_[40], 1.0F);
  expect_says(fault(
                  [](Numbers a) {
                    wait_for_previous();
                    copy_and_read(a, false, true);
                  },
                  shape),
              "before cp.async is waited for");
  EXPECT_NE(fault(
                [](Numbers a) {
                  wait_for_previous();
                  copy_and_read(a, true, false);
                },
                shape),
            "");
  expect_says(fault(
                  [](Numbers a) {
                    wait_for_previous();
                    cp_async_16(shared<float>(0), 4 * thread_index(),
                                Global<float>(a.x).as<const std::byte>(), 0);
                  },
                  {.block = 32, .shared_bytes = 512}),
              "ends before it has waited");
}

// Each thread puts the fragments that its lane holds of matrices whose elements tell their place.
template <typename C>
using Mma = void (*)(C (&)[4], const std::uint32_t (&)[4], const std::uint32_t (&)[2]);

int a_element(int row, int k) {
  return (row * 7 + k * 3) % 11 - 5;
}
int b_element(int k, int column) {
  return (k * 5 + column * 2) % 13 - 6;
}
void expect_product(const std::vector<float>& got, int inputs) {
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      int sum = 100;
      for (int k = 0; k < inputs; ++k) sum += a_element(row, k) * b_element(k, column);
      EXPECT_EQ(got[static_cast<std::size_t>(row * 8 + column)], static_cast<float>(sum))
          << row << ", " << column;
    }
}

template <typename C>
void put_product(const Numbers& a, const C (&c)[4]) {
  const int g = thread_index() / 4, t = thread_index() % 4;
  for (int i = 0; i < 4; ++i)
    Global<float>(a.x)[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = static_cast<float>(c[i]);
}

template <typename Bits>
void halves(Numbers numbers, Bits bits, Mma<float> mma) {
  const int g = thread_index() / 4, t = thread_index() % 4;
  std::uint32_t a[4] = {}, b[2] = {};
  for (int i = 0; i < 8; ++i)
    a[i / 2] |= bits(static_cast<float>(a_element(g + 8 * (i / 2 % 2), 2 * t + i % 2 + 8 * (i / 4))))
                << 16 * (i % 2);
  for (int i = 0; i < 4; ++i)
    b[i / 2] |= bits(static_cast<float>(b_element(2 * t + i % 2 + 8 * (i / 2), g))) << 16 * (i % 2);
  float c[4] = {100, 100, 100, 100};
  mma(c, a, b);
  put_product(numbers, c);
}

TEST_F(CudaEmulation, MultipliesFragments) {
  run(
      [](Numbers n) {
        wait_for_previous();
        halves(n, f16_bits, mma_f16);
      },
      {.block = 32}, 128);
  expect_product(result_, 16);
  run(
      [](Numbers n) {
        wait_for_previous();
        halves(n, bf16_bits, mma_bf16);
      },
      {.block = 32}, 128);
  expect_product(result_, 16);
  run(
      [](Numbers n) {
        wait_for_previous();
        const int g = thread_index() / 4, t = thread_index() % 4;
        std::uint32_t a[4], b[2];
        for (int i = 0; i < 4; ++i)
          a[i] = tf32_bits(static_cast<float>(a_element(g + 8 * (i % 2), t + 4 * (i / 2))));
        for (int i = 0; i < 2; ++i) b[i] = tf32_bits(static_cast<float>(b_element(t + 4 * i, g)));
        float c[4] = {100, 100, 100, 100};
        mma_tf32(c, a, b);
        put_product(n, c);
      },
      {.block = 32}, 128);
  expect_product(result_, 8);
  run(
      [](Numbers n) {
        wait_for_previous();
        const int g = thread_index() / 4, t = thread_index() % 4;
        std::uint32_t a[4] = {}, b[2] = {};
        const auto byte = [](int x) { return static_cast<std::uint32_t>(static_cast<std::uint8_t>(x)); };
        for (int i = 0; i < 16; ++i)
          a[i / 4] |= byte(a_element(g + 8 * (i / 4 % 2), 4 * t + i % 4 + 16 * (i / 8))) << 8 * (i % 4);
        for (int i = 0; i < 8; ++i)
          b[i / 4] |= byte(b_element(4 * t + i % 4 + 16 * (i / 4), g)) << 8 * (i % 4);
        std::int32_t c[4] = {100, 100, 100, 100};
        mma_s8(c, a, b);
        put_product(n, c);
      },
      {.block = 32}, 128);
  expect_product(result_, 32);
}

// "ldmatrix": register j of lane 4 g + t holds of matrix j row g, elements 2 t and 2 t + 1; transposed column
// g.
TEST_F(CudaEmulation, LoadsMatrices) {
  const auto kernel = [](Numbers n, bool is_transposed) {
    const Shared<std::uint32_t> s = shared<std::uint32_t>(0);
    const int lane = thread_index(), g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {  // element (row, column) of matrix j is 64 j + 8 row + column
      const auto first = static_cast<std::uint32_t>(8 * lane + 2 * i);
      s[4 * lane + i] = first | (first + 1) << 16;
    }
    warp_barrier();
    std::uint32_t out[4];
    is_transposed ? ldmatrix_x4_trans(out, s, 4 * lane) : ldmatrix_x4(out, s, 4 * lane);
    bool is_right = true;
    for (std::uint32_t j = 0; j < 4; ++j) {
      const auto at = [&](int row, int column) {
        return 64 * j + static_cast<std::uint32_t>(8 * row + column);
      };
      const std::uint32_t low = is_transposed ? at(2 * t, g) : at(g, 2 * t),
                          high = is_transposed ? at(2 * t + 1, g) : at(g, 2 * t + 1);
      is_right = is_right && out[j] == (low | high << 16);
    }
    Global<float>(n.x)[lane] = is_right ? 7.0F : 0.0F;
  };
  static const auto held = kernel;
  run(
      [](Numbers n) {
        wait_for_previous();
        held(n, false);
      },
      {.block = 32, .shared_bytes = 512});
  for (int lane = 0; lane < 32; ++lane) EXPECT_EQ(result_[static_cast<std::size_t>(lane)], 7.0F) << lane;
  run(
      [](Numbers n) {
        wait_for_previous();
        held(n, true);
      },
      {.block = 32, .shared_bytes = 512});
  for (int lane = 0; lane < 32; ++lane) EXPECT_EQ(result_[static_cast<std::size_t>(lane)], 7.0F) << lane;
}

TEST_F(CudaEmulation, ReplaysWhatItRecorded) {
  const DevicePointer<float> x = memory_.put(std::vector<float>(32, 1.0F));
  const Kernel<Numbers> doubles{"doubles", [](Numbers a) {
                                  wait_for_previous();
                                  const Global<float> x(a.x);
                                  x[thread_index()] = x[thread_index()] * 2;
                                }};
  runtime_->begin_capture();
  launch(*runtime_, doubles, {.block = 32}, Numbers{x, 32});
  launch(*runtime_, doubles, {.block = 32}, Numbers{x, 32});
  EXPECT_THROW(memory_.get(x, 32), Error);
  const std::unique_ptr<Graph> graph = runtime_->end_capture();
  EXPECT_EQ(memory_.get(x, 32)[31], 1.0F);
  runtime_->replay(*graph);
  runtime_->replay(*graph);
  EXPECT_EQ(memory_.get(x, 32)[31], 16.0F);
  EXPECT_EQ(runtime_->launches(), 4);
}

TEST_F(CudaEmulation, RefusesWhatNoGpuDoes) {
  expect_says(fault([](Numbers) { wait_for_previous(); }, {.block = 48}), "blocks of 48 threads");
  expect_says(fault([](Numbers) { wait_for_previous(); }, {.grid_y = 70000, .block = 32}),
              "which no GPU launches");
  expect_says(fault([](Numbers) { wait_for_previous(); }, {.block = 32, .shared_bytes = 300 << 10}),
              "of shared memory were asked for");
  EmulatedDevice small;
  small.facts.memory_bytes = 1000;
  const auto runtime = make_emulated_runtime(small);
  const auto half = runtime->allocate(600);
  EXPECT_THROW(runtime->allocate(600), Error);
  runtime->free(half);
  EXPECT_EQ(runtime->live_bytes(), 0);
  const auto memory = runtime->allocate(8);
  const std::vector<std::byte> nine(9);
  EXPECT_THROW(runtime->upload(memory, nine), Error);
  runtime->free(memory);
}

}  // namespace
}  // namespace assay::cuda
