// Matrices out of fragment order, for a library that takes them row by row, and what its sums still need.
#pragma once

#include "assay/backend/cuda/kernels/linear.cuh"
#include "assay/backend/cuda/kernels/rows.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// Elements k and k + 1 of a row.
ASSAY_DEVICE void put_pair(const ExpandArgs& a, std::int64_t row, std::int64_t k, const Floats2& pair) {
  if (row >= a.matrix.outputs) return;
  const Global<std::byte> out(a.out);
  const std::int64_t at = (row * a.out_stride + k) / 2;
  if (a.arithmetic == Arithmetic::bfloat16)
    out.as<std::uint32_t>()[at] = packed<Bfloat16>(pair);
  else if (a.arithmetic == Arithmetic::float16)
    out.as<std::uint32_t>()[at] = packed<Float16>(pair);
  else
    out.as<Floats2>()[at] = pair;
}

// The 32 codes of a lane: each byte of word i two of k16 step i (layout.h).
ASSAY_DEVICE void expand_codes(const ExpandArgs& a, const Words4& words, const Shared<float>& codebook,
                               std::int64_t row, std::int64_t first_k) {
  const Matrix& m = a.matrix;
  const Global<const float> scales(m.scales);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t codes = words.word[i] >> (8 * j) & 255U;
      const std::int64_t output = row + 8 * (j % 2), k = first_k + 16 * i + 8 * (j / 2);
      if (m.offsets || m.input_groups) {
        put_pair(a, output, k,
                 {weight_of(m, codebook[codes & 15U], output, k),
                  weight_of(m, codebook[codes >> 4], output, k + 1)});
        continue;
      }
      const float scale = scales[scale_of(m.inputs, m.group, output, k)];
      const float next = m.group > 1 ? scale : scales[scale_of(m.inputs, m.group, output, k + 1)];
      put_pair(a, output, k, {codebook[codes & 15U] * scale, codebook[codes >> 4] * next});
    }
}

// A warp per tile: its lanes read 512 bytes in a row and write 32 of each row at a time.
ASSAY_KERNEL_OF(kLinearThreads) expand_matrix(ExpandArgs a) {
  const Matrix& m = a.matrix;
  const Shared<float> codebook = shared<float>(0);
  if (thread_index() < 16) codebook[thread_index()] = m.codebook[thread_index()];
  barrier();
  const std::int32_t lane = thread_index() % kWarp, g = lane / 4, t = lane % 4;
  const std::int64_t tiles = tiles_of_strip(m.format, m.inputs),
                     tile = std::int64_t{block_x()} * (kLinearThreads / kWarp) + thread_index() / kWarp;
  wait_for_previous();
  if (tile >= tiles) return;
  if (m.format == MatrixFormat::grouped) {
    const std::int64_t output = block_y() * kStrip + lane % 16, first = tile * kSpan + lane / 16 * 16;
    const ScaleAndOffset by = grouped_scale(m, output, first);
    const auto value = [&](std::int64_t i) {
      return i < m.inputs ? fmaf(grouped_entry(m, codebook, output, i), by.scale, by.offset) : 0.0F;
    };
    for (std::int64_t i = first; i < first + 16; i += 2) put_pair(a, output, i, {value(i), value(i + 1)});
    return;
  }
  const Words4 words =
      Global<const std::byte>(m.data).load<Words4>((block_y() * tiles + tile) * (kTileBytes / 16) + lane);
  const std::int64_t row = block_y() * kStrip + g, k = tile * tile_inputs(m.format) + 2 * t;
  if (m.format == MatrixFormat::four_bit) {
    expand_codes(a, words, codebook, row, k);
  } else if (m.format == MatrixFormat::float32) {
    for (int i = 0; i < 2; ++i)
      put_pair(a, row + 8 * i, k, {float_of(words.word[i]), float_of(words.word[i + 2])});
  } else {
    const Global<std::byte> out(a.out);
    for (int i = 0; i < 4; ++i)
      if (const std::int64_t output = row + 8 * (i % 2); output < m.outputs)
        out.as<std::uint32_t>()[(output * a.out_stride + k + 8 * (i / 2)) / 2] = words.word[i];
  }
}

// A thread per element, as in kernels/rows.cuh.
ASSAY_KERNEL finish_sums(FinishArgs a) {
  wait_for_previous();
  const std::int64_t row = block_y(), i = element_index();
  if (i >= a.n) return;
  const Global<float> out = Global<float>(a.out) + row * a.out_stride;
  const float sum = a.bias ? out[i] + Global<const float>(a.bias)[i] : out[i];
  out[i] = activate(a.activation, sum);
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
