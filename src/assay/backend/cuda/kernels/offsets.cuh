// Matrix multiplications by 4-bit codes with zero points, minima or permuted inputs.
#pragma once

#include "assay/backend/cuda/kernels/linear.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// A number as the arithmetic has it.
ASSAY_DEVICE float rounded(Arithmetic arithmetic, float x) {
  return arithmetic == Arithmetic::bfloat16  ? bf16_value(bf16_bits(x))
         : arithmetic == Arithmetic::float16 ? f16_value(f16_bits(x))
                                             : x;
}

// 4-bit codes with zero points, minima or permuted inputs, any group: weights and inputs are rounded to the
// arithmetic and multiplied in float32.
ASSAY_KERNEL_OF(kLinearThreads, 2) four_bit_offsets(LinearArgs a) {
  const LinearPlace at(a.weight, kFourBitRows);
  const Global<const std::byte> data(a.weight.data);
  TileStream<kTilesAhead<1, 3>> tiles(at, data);
  const Shared<float> codebook = shared<float>(0), partial = shared<float>(64);
  if (thread_index() < 16) codebook[thread_index()] = a.weight.codebook[thread_index()];
  barrier();
  wait_for_previous();
  MadeRows in(a, at.end * 64, 64 + kPartialBytes<kFourBitRows>);
  float sums[2][kFourBitRows] = {};
  tiles.for_each<64>(in, [&](const Words4& w, std::int64_t i) {
    ASSAY_NO_UNROLL
    for (int part = 0; part < 8; ++part) {  // two of each k16 step
      const int step = part / 2, upper = part % 2;
      const std::int64_t k = i * 64 + step * 16 + upper * 8 + 2 * at.t;
      if (k >= a.weight.inputs) continue;
      float weights[2][2];  // [half of the strip][input]
      for (int half = 0; half < 2; ++half)
        for (int j = 0; j < 2; ++j) {
          const std::uint32_t code = word_of(w, step) >> (8 * (half + 2 * upper) + 4 * j) & 15U;
          const std::int64_t output = at.strip * kStrip + at.g + 8 * half;
          weights[half][j] = k + j < a.weight.inputs
                                 ? rounded(a.arithmetic, weight_of(a.weight, codebook[code], output, k + j))
                                 : 0.0F;
        }
      ASSAY_UNROLL
      for (int row = 0; row < kFourBitRows; ++row) {
        const Floats2 x = in.pair(at.first_row + row, k);
        for (int half = 0; half < 2; ++half)
          sums[half][row] = fmaf(weights[half][1], rounded(a.arithmetic, x.y),
                                 fmaf(weights[half][0], rounded(a.arithmetic, x.x), sums[half][row]));
      }
    }
  });
  finish_rows<kFourBitRows>(a, at, partial, sums);
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
