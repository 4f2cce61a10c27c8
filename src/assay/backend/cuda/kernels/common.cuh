// What several kernels share: sums over warps and blocks, activation functions, elements of a matrix.
#pragma once

#include "assay/backend/cuda/kernels/device.cuh"
#include "assay/backend/cuda/kernels/kernels.h"

namespace assay::cuda::device::inline ASSAY_COMPILED_FOR {

inline constexpr int kWarp = 32;

ASSAY_DEVICE float infinity() {
  return float_of(0x7f800000U);
}
ASSAY_DEVICE float not_a_number() {
  return float_of(0x7fc00000U);
}
ASSAY_DEVICE bool is_finite(float x) {
  return (bits_of(x) & 0x7f800000U) != 0x7f800000U;
}
template <typename T>
ASSAY_DEVICE T larger(T a, T b) {
  return b > a ? b : a;
}
template <typename T>
ASSAY_DEVICE T smaller(T a, T b) {
  return b < a ? b : a;
}
ASSAY_DEVICE std::int64_t least(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

// In all lanes, in an order of its own that never changes.
template <typename T>
ASSAY_DEVICE T warp_sum(T x) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) x += shuffle_xor(x, lanes);
  return x;
}
ASSAY_DEVICE float warp_largest(float x) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) x = larger(x, shuffle_xor(x, lanes));
  return x;
}

// In all threads; `partial` has an element for each warp and may be used again at once.
template <typename T>
ASSAY_DEVICE T block_sum(T x, const Shared<T>& partial) {
  x = warp_sum(x);
  const int warps = block_threads() / kWarp;
  if (warps == 1) return x;
  if (thread_index() % kWarp == 0) partial[thread_index() / kWarp] = x;
  barrier();
  T sum = partial[0];
  for (int i = 1; i < warps; ++i) sum += static_cast<T>(partial[i]);
  barrier();
  return sum;
}
// NaN is passed over, or comes through.
ASSAY_DEVICE float block_largest(float x, const Shared<float>& partial) {
  x = warp_largest(x);
  const int warps = block_threads() / kWarp;
  if (warps == 1) return x;
  if (thread_index() % kWarp == 0) partial[thread_index() / kWarp] = x;
  barrier();
  float most = partial[0];
  for (int i = 1; i < warps; ++i) most = larger(most, static_cast<float>(partial[i]));
  barrier();
  return most;
}
// What a norm takes off a row and multiplies it by.
struct Moments {
  float mean, scale;
};
// In all threads. Sums have one order whatever the block: rows of up to 256 are a warp's, each warp makes
// them.
ASSAY_DEVICE Moments moments_of(const Global<const float>& x, std::int64_t n, bool subtracts_mean,
                                float epsilon, const Shared<float>& partial) {
  const bool is_of_warp = n <= 256;
  const std::int64_t first = is_of_warp ? thread_index() % kWarp : thread_index(),
                     step = is_of_warp ? kWarp : block_threads();
  const auto sum_of = [&](float sum) { return is_of_warp ? warp_sum(sum) : block_sum(sum, partial); };
  const auto count = static_cast<float>(n);
  float mean = 0;
  if (subtracts_mean) {
    float sum = 0;
    for (std::int64_t i = first; i < n; i += step) sum += x[i];
    mean = sum_of(sum) / count;
  }
  float squares = 0;
  for (std::int64_t i = first; i < n; i += step) {
    const float d = x[i] - mean;
    squares = fmaf(d, d, squares);
  }
  squares = sum_of(squares);
  squares += squares - squares;  // in a row with infinity NaN, which would leave zeros beside it
  return {mean, 1.0F / sqrtf(squares / count + epsilon)};
}
ASSAY_DEVICE float normed(float x, const Moments& of_row, const Global<const float>& gain,
                          const Global<const float>& bias, std::int64_t i) {
  const float value = (x - of_row.mean) * of_row.scale * gain[i];
  return bias ? value + bias[i] : value;
}

ASSAY_DEVICE bool block_any(bool x, const Shared<float>& partial) {
  return block_largest(x ? 1.0F : 0.0F, partial) != 0;
}

ASSAY_DEVICE float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x > 0 || x != x ? x : 0;
    case Activation::relu2:
      return x > 0 || x != x ? x * x : 0;
    case Activation::silu:
      return x / (1 + expf(-x));
    case Activation::tanh:
      return tanhf(x);
    case Activation::gelu_tanh:
      return 0.5F * x * (1 + tanhf(0.7978845608F * (x + 0.044715F * x * x * x)));
    case Activation::gelu_erf:
      return 0.5F * x * (1 + erff(x * 0.70710678118F));
    case Activation::gelu_quick:
      return x / (1 + expf(-1.702F * x));
  }
  return x;
}

// What a code's entry of the codebook becomes by its scale and offset.
ASSAY_DEVICE float weight_of(const Matrix& matrix, float entry, std::int64_t row, std::int64_t k) {
  const std::int64_t index = matrix.input_groups ? Global<const std::int32_t>(matrix.input_groups)[k]
                                                 : k / matrix.group,
                     at = scale_of_group(matrix.inputs, matrix.group, row, index);
  const float scale = Global<const float>(matrix.scales)[at];
  return matrix.offsets ? fmaf(entry, scale, Global<const float>(matrix.offsets)[at]) : entry * scale;
}

// Numbers in a run of scales of grouped codes; no number crosses a byte, no factor an even address.
struct RunReader {
  const ScaleRun& run;
  Global<const std::byte> data;
  std::int64_t first, output;

  ASSAY_DEVICE float factor(std::int32_t bit) const {
    return f16_value(data.load<std::uint16_t>((first + run.byte_of(bit, output)) / 2));
  }
  ASSAY_DEVICE std::uint32_t bits(std::int32_t bit, int width) const {
    const std::uint32_t byte = data.load<std::uint8_t>(first + run.byte_of(bit, output));
    return byte >> bit % 8 & ((1U << width) - 1U);
  }
  ASSAY_DEVICE float number(std::int32_t low_at, std::int32_t high_at, int group) const {
    const std::uint32_t low = bits(low_at + group * run.low_bits(), run.low_bits()),
                        high = run.number_bits == 6 ? bits(high_at + group * 2, 2) : 0;
    return static_cast<float>(static_cast<std::int32_t>(low | high << 4));
  }
};
struct ScaleAndOffset {
  float scale, offset;
};
ASSAY_DEVICE ScaleAndOffset grouped_scale(const Matrix& matrix, std::int64_t row, std::int64_t k) {
  const ScaleRun& run = matrix.run;
  const RunReader reader{run, Global<const float>(matrix.scales).as<const std::byte>(),
                         row / kStrip * run.panel_bytes(matrix.inputs) + k / run.inputs * run.bytes(),
                         row % kStrip};
  if (run.is_e8m0) {
    const std::uint32_t byte = reader.bits(run.factor_at, 8);
    return {float_of(byte == 255 ? 0x7fc00000U : byte == 0 ? 0x00400000U : byte << 23), 0};
  }
  const int group = static_cast<int>(k % run.inputs / run.group());
  ScaleAndOffset by{reader.factor(run.factor_at), run.has_minima ? reader.factor(run.minimum_factor_at) : 0};
  if (run.number_bits == 0) return by;
  by.scale *= reader.number(0, run.highs_at, group) - static_cast<float>(run.zero);
  if (run.has_minima) by.offset *= -reader.number(run.minima_at, run.minimum_highs_at, group);
  return by;
}
// What a grouped code stands for before it is scaled.
template <typename Book>
ASSAY_DEVICE float grouped_entry(const Matrix& matrix, const Book& book, std::int64_t row, std::int64_t k) {
  const Global<const std::byte> data(matrix.data);
  const CodePlanes planes = planes_of_code(matrix.run.code_bits);
  const std::int64_t first = row / kStrip * grouped_code_bytes(matrix.run.code_bits, matrix.inputs) +
                             k / kSpan * kStrip * 4 * matrix.run.code_bits;
  const auto part = [&](std::int64_t plane, int width) {
    const auto word = data.load<std::uint32_t>((plane + plane_word(width, k, row % kStrip)) / 4);
    return word >> plane_shift(width, k) & ((1U << width) - 1U);
  };
  std::uint32_t code = part(first, planes.low);
  if (planes.high > 0) code |= part(first + kStrip * 4 * planes.low, planes.high) << planes.low;
  return matrix.run.code_bits <= 4 ? book[code]
                                   : book[0] + static_cast<float>(static_cast<std::int32_t>(code));
}

// Element k of an output, or of a row of a table.
ASSAY_DEVICE float element_of(const Matrix& matrix, std::int64_t row, std::int64_t k) {
  if (matrix.format == MatrixFormat::grouped) {
    const ScaleAndOffset by = grouped_scale(matrix, row, k);
    return fmaf(grouped_entry(matrix, matrix.codebook, row, k), by.scale, by.offset);
  }
  const Global<const std::byte> data(matrix.data);
  const std::int64_t at = byte_of(matrix.format, matrix.inputs, row, k);
  switch (matrix.format) {
    case MatrixFormat::float32:
      return data.load<float>(at / 4);
    case MatrixFormat::float16:
      return f16_value(data.load<std::uint16_t>(at / 2));
    case MatrixFormat::bfloat16:
      return bf16_value(data.load<std::uint16_t>(at / 2));
    case MatrixFormat::int8:
      return static_cast<float>(data.load<std::int8_t>(at)) *
             (Global<const float>(matrix.scales)[row] * (1.0F / 127.0F));
    case MatrixFormat::four_bit:
      return weight_of(matrix, matrix.codebook[data.load<std::uint8_t>(at) >> shift_of_code(k) & 15], row, k);
    case MatrixFormat::grouped:
      break;
  }
  return 0;
}

// Which half word of a row in order holds input k (kernels/ordered.cuh).
ASSAY_DEVICE std::int32_t half_of_input(std::int32_t k) {
  return (k & ~31) + (k >> 1 & 3) * 8 + (k >> 4 & 1) * 4 + (k >> 3 & 1) * 2 + (k & 1);
}
ASSAY_DEVICE void put_ordered(const OrderedRowsOut& to, std::int64_t row, std::int64_t k, float value) {
  if (!to.out) return;
  const std::int32_t at = static_cast<std::int32_t>(row) * static_cast<std::int32_t>(to.out_stride / 2) +
                          half_of_input(static_cast<std::int32_t>(k));  // rows are few
  Global<std::byte>(to.out).as<std::uint16_t>()[at] =
      static_cast<std::uint16_t>(to.is_float16 ? f16_bits(value) : bf16_bits(value));
}

ASSAY_DEVICE void finish(const Epilogue& to, std::int64_t row, std::int64_t output, float sum) {
  if (to.bias) sum += Global<const float>(to.bias)[output];
  float value = activate(to.activation, sum);
  const Global<float> out = Global<float>(to.out) + (row * to.out_stride + output);
  if (to.adds) value += out[0];
  out[0] = value;
  put_ordered(to.ordered, row, output, value);
}

}  // namespace assay::cuda::device::inline ASSAY_COMPILED_FOR
