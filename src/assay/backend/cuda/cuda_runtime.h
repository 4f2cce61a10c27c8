// A GPU of this machine, through the CUDA runtime. Only in programs built with CUDA.
#pragma once

#include <memory>

#include "assay/backend/cuda/runtime.h"

namespace assay::cuda {

// The GPU of this number. Throws Error, one sentence, where there is no driver, where it is too old for this
// program, where it shows no GPU, and where there are fewer.
std::unique_ptr<Runtime> make_cuda_runtime(int index);
// Throws what make_cuda_runtime() would say of the driver, without using a GPU.
void require_device(int index);
// How many there are; 0 without a driver, or with one that is too old.
int usable_devices();

}  // namespace assay::cuda
