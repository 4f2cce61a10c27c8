// Probes (step_kernels.h). Included once by nvcc (step_kernels.cu), and once by
// the host's compiler for the emulation.
#pragma once

#include "assay/backend/cuda/kernels/device.cuh"
#include "assay/backend/cuda/kernels/step_kernels.h"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

inline constexpr int kProbeThreads = 256;

ASSAY_KERNEL_OF(kProbeThreads) read_probe(ReadProbeArgs a) {
  wait_for_previous();
  constexpr int kLoads = 4;
  constexpr std::int64_t kShift = 61;  // blocks
  const Global<const std::byte> data(a.data);
  const std::int64_t threads = std::int64_t{grid_x()} * kProbeThreads, vectors = a.bytes / 16;
  std::uint32_t sum = 0;
  for (std::int64_t pass = 0; pass < a.passes; ++pass) {
    const std::int64_t block = (block_x() + pass * kShift) % grid_x();
    const auto number = static_cast<std::uint32_t>(pass);
    for (std::int64_t i = block * kProbeThreads + thread_index(); i < vectors; i += kLoads * threads) {
      Words4 loaded[kLoads] = {};
      ASSAY_UNROLL
      for (int j = 0; j < kLoads; ++j)
        if (i + j * threads < vectors) loaded[j] = data.load<Words4>(i + j * threads);
      ASSAY_UNROLL
      for (int j = 0; j < kLoads; ++j)
        if (i + j * threads < vectors)
          for (const std::uint32_t word : loaded[j].word) sum += word ^ number;
    }
  }
  Global<std::uint32_t>(a.out)[std::int64_t{block_x()} * kProbeThreads + thread_index()] = sum;
}

// multiply(c, a, b) adds a product of fragments to c.
template <typename C, typename Multiply>
ASSAY_DEVICE void multiply_rounds(const MultiplyProbeArgs& args, const Multiply& multiply) {
  const std::uint32_t a[4] = {args.a, args.a, args.a, args.a}, b[2] = {args.b, args.b};
  C c[kProbeChains][4] = {};
  ASSAY_NO_UNROLL
  for (std::int64_t round = 0; round < args.rounds; ++round) {
    ASSAY_UNROLL
    for (int chain = 0; chain < kProbeChains; ++chain) multiply(c[chain], a, b);
  }
  float sum = 0;
  for (int chain = 0; chain < kProbeChains; ++chain)
    for (const C one : c[chain]) sum += static_cast<float>(one);
  Global<float>(args.out)[std::int64_t{block_x()} * kProbeThreads + thread_index()] = sum;
}

#define ASSAY_MULTIPLY_PROBE(name, C, mma)                                                             \
  ASSAY_KERNEL_OF(kProbeThreads) name(MultiplyProbeArgs args) {                                        \
    wait_for_previous();                                                                               \
    multiply_rounds<C>(                                                                                \
        args, [](C(&c)[4], const std::uint32_t(&a)[4], const std::uint32_t(&b)[2]) { mma(c, a, b); }); \
  }
ASSAY_MULTIPLY_PROBE(multiply_bf16, float, mma_bf16)
ASSAY_MULTIPLY_PROBE(multiply_f16, float, mma_f16)
ASSAY_MULTIPLY_PROBE(multiply_tf32, float, mma_tf32)
ASSAY_MULTIPLY_PROBE(multiply_s8, std::int32_t, mma_s8)
#undef ASSAY_MULTIPLY_PROBE

ASSAY_KERNEL_OF(kProbeThreads) multiply_float32(MultiplyProbeArgs args) {
  wait_for_previous();
  const float a = float_of(args.a), b = float_of(args.b);
  float x[kProbeFmas] = {};
  ASSAY_NO_UNROLL
  for (std::int64_t round = 0; round < args.rounds; ++round) {
    ASSAY_UNROLL
    for (int i = 0; i < kProbeFmas; ++i) x[i] = fmaf(x[i], a, b);
  }
  float sum = 0;
  for (const float one : x) sum += one;
  Global<float>(args.out)[std::int64_t{block_x()} * kProbeThreads + thread_index()] = sum;
}

ASSAY_KERNEL_OF(32) do_nothing(NothingArgs) {
  wait_for_previous();
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device

namespace assay::cuda {
inline namespace ASSAY_COMPILED_FOR {

inline StepKernels step_kernel_table() {
  return {.read_probe = {"read_probe", device::read_probe},
          .multiply_bf16 = {"multiply_bf16", device::multiply_bf16},
          .multiply_f16 = {"multiply_f16", device::multiply_f16},
          .multiply_tf32 = {"multiply_tf32", device::multiply_tf32},
          .multiply_s8 = {"multiply_s8", device::multiply_s8},
          .multiply_float32 = {"multiply_float32", device::multiply_float32},
          .nothing = {"nothing", device::do_nothing}};
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda
