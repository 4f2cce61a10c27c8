// Kernels that take each row by itself: embedding, norms, gates, residuals, rotary embedding.
#pragma once

#include "assay/backend/cuda/kernels/common.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// The threads of a block together; half a warp has a part of which moments are left.
ASSAY_DEVICE void embed_row(const EmbedArgs& a, std::int64_t row, std::int64_t id, std::int64_t place) {
  const Global<float> out = Global<float>(a.out) + row * a.out_stride;
  const Global<Floats2> parts = Global<float>(a.moments.data).as<Floats2>() + row * (a.moments.stride / 2);
  const auto columns = static_cast<std::int32_t>(a.columns);
  for (std::int32_t first = 0; first < columns; first += block_threads()) {
    const std::int32_t i = first + thread_index();
    float x = 0;
    if (i < columns) {
      if (a.tokens.data) x = element_of(a.tokens, id, i);
      x *= a.scale;
      if (a.places.data) x += element_of(a.places, place, i);
      out[i] = x;
    }
    if (!a.moments.data) continue;
    const Floats2 part = part_moments(x, elements_of_part(columns, i / kPartElements));
    if (i < columns && i % kPartElements == 0) parts[i / kPartElements] = part;
  }
}

// A block per row.
ASSAY_KERNEL embed_rows(EmbedArgs a) {
  wait_for_previous();
  const std::int64_t row = block_x();
  embed_row(a, row, a.tokens.data ? Global<const std::int32_t>(a.ids)[row] : 0,
            a.places.data ? Global<const std::int32_t>(a.positions)[row] + a.position_offset : 0);
}

// A block per part of a row.
ASSAY_KERNEL norm_rows(NormArgs a) {
  wait_for_previous();
  const std::int64_t row = block_x() / a.groups, group = block_x() % a.groups;
  const std::int64_t from = a.row_of ? Global<const std::int32_t>(a.row_of)[row] : row;
  const Global<const float> x = Global<const float>(a.x) + (from * a.x_stride + group * a.n);
  const Global<float> out = Global<float>(a.out) + (row * a.out_stride + group * a.n);
  const Global<const float> gain(a.gain), bias(a.bias);
  const Moments of_row = moments_of(x, a.n, a.subtracts_mean, a.epsilon, shared<float>(0));
  for (std::int64_t i = thread_index(); i < a.n; i += block_threads())
    out[i] = normed(x[i], of_row, gain, bias, i);
}

// The rest: a block per row (block_y) and block_threads() of its elements.
ASSAY_DEVICE std::int64_t element_index() {
  return std::int64_t{block_x()} * block_threads() + thread_index();
}

ASSAY_KERNEL gather_rows(GatherArgs a) {
  wait_for_previous();
  const std::int64_t row = block_y(), i = element_index();
  if (i >= a.n) return;
  const std::int64_t from = Global<const std::int32_t>(a.row_of)[row];
  Global<float>(a.out)[row * a.out_stride + i] = Global<const float>(a.x)[from * a.x_stride + i];
  if (a.other_x)
    Global<float>(a.other_out)[row * a.out_stride + i] =
        Global<const float>(a.other_x)[from * a.x_stride + i];
}

ASSAY_KERNEL gate_rows(GatedArgs a) {
  wait_for_previous();
  const std::int64_t row = block_y(), i = element_index();
  if (i >= a.n) return;
  const Global<const float> x = Global<const float>(a.x) + row * a.x_stride;
  Global<float>(a.out)[row * a.out_stride + i] = activate(a.activation, x[i]) * x[a.n + i];
}

ASSAY_KERNEL add_rows(AddArgs a) {
  wait_for_previous();
  const std::int64_t row = block_y(), i = element_index();
  if (i >= a.n) return;
  const Global<float> out = Global<float>(a.out) + row * a.out_stride;
  out[i] = out[i] + a.scale * Global<const float>(a.x)[row * a.x_stride + i];
}

ASSAY_KERNEL bend_rows(BendArgs a) {
  wait_for_previous();
  const std::int64_t row = block_y(), i = element_index();
  if (i >= a.n) return;
  const Global<float> x = Global<float>(a.x) + row * a.x_stride;
  const auto cap = static_cast<double>(a.soft_cap);
  double value = static_cast<double>(a.scale) * static_cast<double>(x[i]);
  if (a.soft_cap != 0) value = cap * tanh(value / cap);
  x[i] = static_cast<float>(value);
}

ASSAY_DEVICE void rotate_pair(const RotateArgs& a, std::int64_t row, std::int64_t head, std::int64_t i) {
  const bool are_halves = a.pairing == RotaryPairing::halves;
  const Global<float> x = Global<float>(a.x) + (row * a.x_stride + head * a.head_dim);
  const std::int64_t first = are_halves ? i : 2 * i, second = are_halves ? i + a.pairs : 2 * i + 1;
  const float cosine = Global<const float>(a.cosines)[row * a.pairs + i],
              sine = Global<const float>(a.sines)[row * a.pairs + i];
  const float p = x[first], q = x[second];
  x[first] = p * cosine - q * sine;
  x[second] = q * cosine + p * sine;
}

// A thread per pair.
ASSAY_KERNEL rotate_rows(RotateArgs a) {
  wait_for_previous();
  const std::int64_t at = element_index();
  if (at < a.heads * a.pairs) rotate_pair(a, block_y(), at / a.pairs, at % a.pairs);
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
