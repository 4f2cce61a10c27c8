// The kernels of backend/cuda, compiled for the emulation.
#pragma once

#include "assay/backend/cuda/kernels/kernels.h"
#include "assay/backend/cuda/kernels/step_kernels.h"

namespace assay::cuda {
const Kernels& emulated_kernels();
const StepKernels& emulated_step_kernels();
}  // namespace assay::cuda
