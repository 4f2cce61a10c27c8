// The CUDA backend. Its host part is always there; devices are, where the program was built with CUDA.
#pragma once

#include <memory>
#include <optional>

#include "assay/backend/backend.h"
#include "assay/backend/cuda/run/gemm_choice.h"
#include "assay/backend/devices.h"

namespace assay {

namespace cuda {
class Runtime;
class LaunchTimer;
}  // namespace cuda

// What multiplies many rows changes bits of a result; with CudaGemm::automatic tuning chooses it. Nothing
// else does.
struct CudaOptions {
  bool uses_graphs = true;     // decode steps are recorded and replayed
  bool chooses_tokens = true;  // greedy steps are queued, without the host between them
  CudaGemm gemm = CudaGemm::own;
  std::optional<GemmKernel> forced_gemm = {};  // with CudaGemm::automatic: in place of its choice
  Tune tune = Tune::off;                       // Program::tune()
  cuda::LaunchTimer* timer = nullptr;          // in place of the device's own times
  int graph_rounds = 7;                        // replays of each graph of Program::profile_graph()
};

// Throws Error in one sentence for a program built without CUDA, no driver, one that is too old, no GPU, or
// an index out of range, or a library that is asked for and absent.
std::shared_ptr<Backend> make_cuda_backend(const Device& device, const BackendOptions& options);

// Over a device that is there already: what the tests' emulation comes through.
std::shared_ptr<Backend> make_cuda_backend(const Device& device, std::shared_ptr<cuda::Runtime> runtime,
                                           const CudaOptions& options = {});

// The same as of each GPU of this machine, of one device.
GpuRooflines measure_gpu_rooflines(const Device& device, const std::shared_ptr<cuda::Runtime>& runtime,
                                   Seconds each);

}  // namespace assay
