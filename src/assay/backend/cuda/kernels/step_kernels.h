// Kernels that belong to no operation of a plan: the probes that measure a GPU's rooflines.
#pragma once

#include <cstdint>

#include "assay/backend/cuda/runtime.h"

namespace assay::cuda {

// Reads `bytes`, a multiple of 16, `passes` times; out [grid * block] = the sum of (word ^ pass) of each
// thread. In every pass a block reads what another read before, so that no cache of one SM serves it.
struct ReadProbeArgs {
  DevicePointer<const std::byte> data = {};
  std::int64_t bytes = 0, passes = 1;
  DevicePointer<std::uint32_t> out = {};
};

// `rounds` times kProbeChains multiplications by the tensor cores of each warp, or kProbeFmas multiply-adds
// of each thread, from registers. out [grid * block] = the thread's sums added up.
inline constexpr int kProbeChains = 8, kProbeFmas = 16;
struct MultiplyProbeArgs {
  std::uint32_t a = 0, b = 0;  // what every register of the operands holds
  std::int64_t rounds = 0;
  DevicePointer<float> out = {};
};

struct NothingArgs {
  std::int32_t unused = 0;
};

struct StepKernels {
  Kernel<ReadProbeArgs> read_probe;
  Kernel<MultiplyProbeArgs> multiply_bf16, multiply_f16, multiply_tf32, multiply_s8, multiply_float32;
  Kernel<NothingArgs> nothing;
};

}  // namespace assay::cuda
