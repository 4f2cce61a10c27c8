// Kernels that belong to no operation of a plan: the end of a greedy step, and the probes that measure a
// GPU's rooflines.
#pragma once

#include <cstdint>

#include "assay/backend/cuda/runtime.h"

namespace assay::cuda {

// After a greedy step: the tokens that it chose become the ids of the next step, and positions grow by one.
// chosen [rows]; history [steps][stride], of which row *step % steps is written before *step grows. The id -1
// (no token) is embedded as 0, which keeps reads inside the table; results after it have no meaning.
struct AdvanceArgs {
  DevicePointer<const std::int32_t> chosen = {};
  DevicePointer<std::int32_t> ids = {}, positions = {}, keys = {};  // [rows]
  DevicePointer<std::int32_t> history = {}, step = {};
  std::int64_t rows = 0, stride = 0, steps = 1;
};

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
  Kernel<AdvanceArgs> advance;
  Kernel<ReadProbeArgs> read_probe;
  Kernel<MultiplyProbeArgs> multiply_bf16, multiply_f16, multiply_tf32, multiply_s8, multiply_float32;
  Kernel<NothingArgs> nothing;
};

}  // namespace assay::cuda
