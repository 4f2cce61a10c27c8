#include "cuda_emulation/emulated_kernels.h"

#include "assay/backend/cuda/kernels/steps.cuh"
#include "assay/backend/cuda/kernels/table.cuh"

namespace assay::cuda {
const Kernels& emulated_kernels() {
  static const Kernels kernels = kernel_table();
  return kernels;
}
const StepKernels& emulated_step_kernels() {
  static const StepKernels kernels = step_kernel_table();
  return kernels;
}
}  // namespace assay::cuda
