// Matrix multiplications by grouped codes in float32; in 16 bits kernels/ordered_grouped.cuh has them.
#pragma once

#include "assay/backend/cuda/kernels/linear.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// Groups of 16 inputs or multiples: half a span has one scale. A thread per output and half of a span; sums
// of the halves are added at the end.
ASSAY_KERNEL_OF(kLinearThreads, 2) linear_grouped(LinearArgs a) {
  const LinearPlace at(a.weight, kFourBitRows);
  const Shared<float> codebook = shared<float>(0), partial = shared<float>(64);
  if (thread_index() < 16) codebook[thread_index()] = a.weight.codebook[thread_index()];
  barrier();
  wait_for_previous();
  MadeRows in(a, at.end * kSpan, 64 + kPartialBytes<kFourBitRows>);
  const std::int32_t column = at.lane % 16, half = at.lane / 16;
  const std::int64_t output = at.strip * kStrip + column;
  float sums[kFourBitRows] = {};
  ASSAY_NO_UNROLL
  for (std::int64_t span = at.begin; span < at.end; ++span) {
    in.prepare<kSpan>(span * kSpan);
    const std::int64_t first = span * kSpan + half * 16;
    if (first >= a.weight.inputs) continue;
    const ScaleAndOffset by = grouped_scale(a.weight, output, first);
    ASSAY_NO_UNROLL
    for (std::int64_t k = first; k < first + 16; k += 2) {
      float weights[2];
      for (int j = 0; j < 2; ++j)
        weights[j] = k + j < a.weight.inputs
                         ? fmaf(grouped_entry(a.weight, codebook, output, k + j), by.scale, by.offset)
                         : 0.0F;
      ASSAY_UNROLL
      for (int row = 0; row < kFourBitRows; ++row) {
        const Floats2 x = in.pair(at.first_row + row, k);
        sums[row] = fmaf(weights[1], x.y, fmaf(weights[0], x.x, sums[row]));
      }
    }
  }
  ASSAY_UNROLL
  for (int row = 0; row < kFourBitRows; ++row) {
    const float sum = sums[row] + shuffle_xor(sums[row], 16);
    if (half == 0) partial[(at.warp * kFourBitRows + row) * kPaddedStrip + column] = sum;
  }
  add_ranges(partial, at, kFourBitRows, a.rows, a.weight.outputs,
             [&](std::int64_t row, std::int64_t of, float sum) { finish(a.to, row, of, sum); });
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
