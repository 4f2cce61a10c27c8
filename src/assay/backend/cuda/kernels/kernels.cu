// The kernels, compiled for GPUs.
#include "assay/backend/cuda/kernels/table.cuh"

namespace assay::cuda {
const Kernels& cuda_kernels() {
  static const Kernels kernels = kernel_table();
  return kernels;
}
}  // namespace assay::cuda
