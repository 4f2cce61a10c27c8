// The CUDA backend. Its host part is always there; devices are, where the program was built with CUDA.
#pragma once

#include <memory>

#include "assay/backend/backend.h"

namespace assay {

namespace cuda {
class Runtime;
}

// Neither changes a bit of a result.
struct CudaOptions {
  bool uses_graphs = true;     // decode steps are recorded and replayed
  bool chooses_tokens = true;  // greedy steps are queued, without the host between them
};

// Throws Error in one sentence for a program built without CUDA, no driver, one that is too old, no GPU, or
// an index out of range.
std::shared_ptr<Backend> make_cuda_backend(const Device& device);
// How many GPUs this program can use; 0 where it can use none, whatever the reason.
int usable_cuda_devices();

// Over a device that is there already: what the tests' emulation comes through.
std::shared_ptr<Backend> make_cuda_backend(const Device& device, std::shared_ptr<cuda::Runtime> runtime,
                                           const CudaOptions& options = {});

}  // namespace assay
