// The kernels of backend/cuda, compiled for the emulation.
#pragma once

#include "assay/backend/cuda/kernels.h"

namespace assay::cuda {
const Kernels& emulated_kernels();
}
