// The CUDA backend. Its host part is always there; devices are, where the program was built with CUDA.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "assay/backend/backend.h"

namespace assay {

namespace cuda {
class Runtime;
}

// The first two do not change a bit of a result.
struct CudaOptions {
  bool uses_graphs = true;     // decode steps are recorded and replayed
  bool chooses_tokens = true;  // greedy steps are queued, without the host between them
  CudaGemm gemm = CudaGemm::own;
};

// Throws Error in one sentence for a program built without CUDA, no driver, one that is too old, no GPU, or
// an index out of range, or a library that is asked for and absent.
std::shared_ptr<Backend> make_cuda_backend(const Device& device, CudaGemm gemm = CudaGemm::own);
// Why device cuda:0 cannot be used, as make_cuda_backend() says it; empty where it can.
std::string why_no_gpu();
// How many GPUs this program can use; 0 where it can use none, whatever the reason.
int usable_cuda_devices();

// Over a device that is there already: what the tests' emulation comes through.
std::shared_ptr<Backend> make_cuda_backend(const Device& device, std::shared_ptr<cuda::Runtime> runtime,
                                           const CudaOptions& options = {});

// What a GPU is, and what it reaches at most.
struct GpuRooflines {
  struct Product {
    std::string_view kind;  // "bfloat16 mma.sync"
    double operations_per_second = 0;
  };
  std::string device, name, kernels, bus_id;  // "cuda:0", "NVIDIA H100 PCIe", "sm_90"
  int processors = 0;
  Bytes memory, l2;
  double memory_bytes_per_second = 0, l2_bytes_per_second = 0;  // of reading 4 GB, and half of the L2 cache
  std::vector<Product> products;
  Seconds launch, graph_node;  // from one empty kernel to the next
};
// Of each GPU that this program can use. `each`: the time for every figure, at least.
std::vector<GpuRooflines> measure_gpu_rooflines(
    Seconds each, const std::function<void(const std::string& now)>& on_progress);
GpuRooflines measure_gpu_rooflines(const Device& device, const std::shared_ptr<cuda::Runtime>& runtime,
                                   Seconds each);

}  // namespace assay
