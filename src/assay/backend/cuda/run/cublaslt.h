// cuBLASLt, loaded when it is asked for. Only in programs built with CUDA.
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "assay/backend/cuda/run/gemm_library.h"

namespace assay::cuda {

// On the current device, for this stream; both stay. Throws Error, one sentence, where it cannot be loaded.
std::unique_ptr<GemmLibrary> open_cublaslt(cudaStream_t stream);

}  // namespace assay::cuda
