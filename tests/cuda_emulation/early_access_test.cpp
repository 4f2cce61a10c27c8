// The emulation of a GPU: what a kernel may touch before it has waited for the kernel in front.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "assay/backend/cuda/kernels/device.cuh"
#include "assay/base/error.h"
#include "cuda_emulation/device_memory.h"

namespace assay::cuda {
namespace {

using namespace device;

struct Floats32 {
  DevicePointer<float> x;
};

class CudaEmulationEarly : public testing::Test {
 protected:
  std::unique_ptr<EmulatedRuntime> runtime_ = make_emulated_runtime();
  DeviceMemory memory_{*runtime_};
};

void expect_reported(const std::string& fault, const std::string& words) {
  EXPECT_NE(fault.find(words), std::string::npos) << "it says: " << fault;
}

// What kernels write may be touched behind the wait alone, what none writes at any time; and every thread
// waits.
TEST_F(CudaEmulationEarly, ReportsWhatDoesNotWaitForTheKernelInFront) {
  struct Two {
    DevicePointer<const float> weights;
    DevicePointer<float> x;
  };
  const DevicePointer<float> weights = memory_.put(std::vector<float>(32, 3.0F)),
                             x = memory_.put(std::vector<float>(32, 1.0F));
  const auto fault_of = [&](void (*entry)(Two)) -> std::string {
    try {
      launch(*runtime_, Kernel<Two>{"waits", entry}, {.block = 32}, Two{weights, x});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(fault_of([](Two a) {
              const float weight = Global<const float>(a.weights)[thread_index()];
              wait_for_previous();
              const Global<float> x(a.x);
              x[thread_index()] = x[thread_index()] + weight;
            }),
            "");
  EXPECT_EQ(memory_.get(x, 32)[7], 4.0F);
  expect_reported(fault_of([](Two a) {
                    const float early = Global<const float>(a.x)[thread_index()];
                    wait_for_previous();
                    Global<float>(a.x)[thread_index()] = early;
                  }),
                  "which the kernel in front has written, is read before that kernel was waited for");
  expect_reported(fault_of([](Two a) {
                    Global<float>(a.x)[thread_index()] = 1;
                    wait_for_previous();
                  }),
                  "is written before the kernel in front was waited for");
  expect_reported(fault_of([](Two) {
                    if (thread_index() < 31) wait_for_previous();
                  }),
                  "thread 31: it ends before it has waited for the kernel in front");
}

// A kernel starts when all before the one in front have ended: it may read what those wrote, by 16 bytes.
TEST_F(CudaEmulationEarly, ReportsAnEarlyReadOfWhatTheKernelInFrontWrites) {
  const DevicePointer<float> x = memory_.put(std::vector<float>(32, 1.0F));
  const auto fault_of = [&](void (*entry)(Floats32)) -> std::string {
    try {
      launch(*runtime_, Kernel<Floats32>{"reads", entry}, {.block = 32, .shared_bytes = 128}, Floats32{x});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto writes_four = [](Floats32 a) {
    wait_for_previous();
    if (thread_index() < 4) Global<float>(a.x)[4 + thread_index()] = 2;
  };
  const auto waits = [](Floats32) { wait_for_previous(); };
  const auto reads_four = [](Floats32 a) {
    const float early = Global<const float>(a.x).load_written<float>(4 + thread_index() % 4);
    wait_for_previous();
    if (thread_index() >= 8) Global<float>(a.x)[thread_index()] = early;
  };
  const auto copies_four = [](Floats32 a) {
    if (thread_index() == 0) cp_async_16(shared<float>(0), 0, Global<float>(a.x).as<const std::byte>(), 16);
    cp_async_commit();
    wait_for_previous();
    cp_async_wait<0>();
  };
  const auto reads_others = [](Floats32 a) {
    (void)Global<const float>(a.x).load_written<float>(8 + thread_index() % 24);
    wait_for_previous();
  };
  const std::string said = "which the kernel in front has written, is read before that kernel was waited for";
  EXPECT_EQ(fault_of(writes_four), "");
  EXPECT_EQ(fault_of(reads_others), "");  // which lets reads_four read
  EXPECT_EQ(fault_of(reads_four), "");
  EXPECT_EQ(memory_.get(x, 32)[9], 2.0F);
  EXPECT_EQ(fault_of(writes_four), "");
  expect_reported(fault_of(reads_four), "byte 16 of an allocation of 128, " + said);
  EXPECT_EQ(fault_of(writes_four), "");
  expect_reported(fault_of(copies_four), said);
  EXPECT_EQ(fault_of(writes_four), "");
  EXPECT_EQ(fault_of(waits), "");
  EXPECT_EQ(fault_of(copies_four), "");
  // What one block writes another may not read early, whichever runs first.
  try {
    launch(*runtime_,
           Kernel<Floats32>{"both",
                            [](Floats32 a) {
                              if (block_x() == 1) (void)Global<const float>(a.x).load_written<float>(0);
                              wait_for_previous();
                              if (block_x() == 0 && thread_index() == 0) Global<float>(a.x)[0] = 1;
                            }},
           {.grid_x = 2, .block = 32}, Floats32{x});
    ADD_FAILURE() << "it runs";
  } catch (const Error& error) {
    expect_reported(error.what(), "which this launch writes, is read before that kernel was waited for");
  }
}

TEST_F(CudaEmulationEarly, CountsWithinALaunchAndBeginsAnew) {
  const auto counters = memory_.put(std::vector<std::uint32_t>(1, 0));
  struct Counted {
    DevicePointer<std::uint32_t> counters;
    DevicePointer<float> x;
  };
  const DevicePointer<float> x = memory_.put(std::vector<float>(6, 0.0F));
  launch(*runtime_,
         Kernel<Counted>{"counts",
                         [](Counted a) {
                           wait_for_previous();
                           if (thread_index() != 0) return;
                           fence();
                           Global<float>(a.x)[block_x()] =
                               static_cast<float>(atomic_count(Global<std::uint32_t>(a.counters), 0, 2));
                         }},
         {.grid_x = 6, .block = 32}, Counted{counters, x});
  EXPECT_EQ(memory_.get(x, 6), (std::vector<float>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(memory_.get(counters, 1)[0], 0U);
}

// Behind a kernel that lets the next one start before it has waited, all may still run from the last on that
// did not.
TEST_F(CudaEmulationEarly, ReportsAnEarlyReadOfWhatMayStillRun) {
  const DevicePointer<float> x = memory_.put(std::vector<float>(32, 1.0F));
  const auto fault_of = [&](void (*entry)(Floats32)) -> std::string {
    try {
      launch(*runtime_, Kernel<Floats32>{"reads", entry}, {.block = 32}, Floats32{x});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto writes = [](Floats32 a) {
    wait_for_previous();
    Global<float>(a.x)[thread_index()] = 2;
  };
  const auto waits = [](Floats32) { wait_for_previous(); };
  const auto lets_start = [](Floats32) {
    let_next_start();
    wait_for_previous();
  };
  const auto reads = [](Floats32 a) {
    (void)Global<const float>(a.x).load_written<float>(thread_index());
    wait_for_previous();
  };
  const auto reads_and_lets_start = [](Floats32 a) {
    let_next_start();
    (void)Global<const float>(a.x).load_written<float>(thread_index());
    wait_for_previous();
  };
  EXPECT_EQ(fault_of(writes), "");
  EXPECT_EQ(fault_of(waits), "");
  EXPECT_EQ(fault_of(lets_start), "");
  EXPECT_EQ(fault_of(lets_start), "");
  EXPECT_EQ(fault_of(reads), "");  // it waited for what wrote
  EXPECT_EQ(fault_of(writes), "");
  EXPECT_EQ(fault_of(lets_start), "");
  EXPECT_EQ(fault_of(lets_start), "");
  expect_reported(fault_of(reads), "which a kernel that may still run has written, is read before");
  EXPECT_EQ(fault_of(writes), "");
  EXPECT_EQ(fault_of(lets_start), "");
  expect_reported(fault_of(reads_and_lets_start), "which a kernel that may still run has written");
}

}  // namespace
}  // namespace assay::cuda
