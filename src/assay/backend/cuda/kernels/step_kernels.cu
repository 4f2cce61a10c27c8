// The kernels of step_kernels.h, compiled for GPUs.
#include "assay/backend/cuda/kernels/steps.cuh"

namespace assay::cuda {
const StepKernels& cuda_step_kernels() {
  static const StepKernels kernels = step_kernel_table();
  return kernels;
}
}  // namespace assay::cuda
