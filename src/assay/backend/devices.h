// What the devices of this machine are, and which kernels this program has for them, without making a
// backend.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/backend/constants.h"
#include "assay/base/cpu.h"
#include "assay/base/units.h"
#include "assay/plan/plan.h"

namespace assay {

// Which kernel of a tier serves an operation in a format: "attend", "int8 cache", "avx512".
struct KernelOrigin {
  std::string_view op, format, kernel;
};
// Throws FieldError for a tier that cannot run on this machine.
std::vector<KernelOrigin> kernels_of(Isa isa);

// The constants that a CPU backend of the fastest tier and so many threads takes.
Tuning tuning_of_processor(Tune tune, int threads);

// What tuning has kept of launches on GPUs is measured anew by the processes that load models next.
void forget_launch_tuning();

// How many GPUs this program can use; 0 where it can use none, whatever the reason.
int usable_cuda_devices();
// Why device cuda:0 cannot be used, in one sentence; none where it can.
std::optional<std::string> why_no_gpu();

// What a GPU is, and what it reaches at most.
struct GpuRooflines {
  struct Product {
    std::string_view kind;  // "bfloat16 mma.sync"
    double operations_per_second = 0;
  };
  std::string device, name, kernels, bus_id;  // "cuda:0", "NVIDIA H100 PCIe", "sm_90"
  int processors = 0;
  Bytes memory, l2;
  double memory_bytes_per_second = 0, l2_bytes_per_second = 0;  // reading 4 GB, and half of the L2 cache
  std::vector<Product> products;
  Seconds launch, graph_node;  // from one empty kernel to the next
  // What tuning has measured on it, in this process or others: "bfloat16 2048 x 2048, 1 row".
  struct Launch {
    std::string product, chosen;  // "as usual"
    double gain = 1;              // the usual launch's time over that of the chosen one
  };
  std::vector<Launch> launches;
};
// Measures each GPU that this program can use. `each`: the time for every figure, at least.
std::vector<GpuRooflines> measure_gpu_rooflines(
    Seconds each, const std::function<void(const std::string& now)>& on_progress);

// Kernels of a GPU in a step of so many rows of a sequence, up to so many keys.
struct GpuNodes {
  // For each operation, and behind them the LM head; 0 where a multiplication or attention beside it does it.
  std::vector<int> of_operations;
  int of_tables = 0;  // which look up the angles of positions
};
GpuNodes nodes_on_gpu(const Plan& plan, std::int64_t rows, std::int64_t keys);

}  // namespace assay
