// What several kernels share: sums over warps and blocks, activation functions, elements of a matrix.
#pragma once

#include "assay/backend/cuda/kernels/device.cuh"
#include "assay/backend/cuda/kernels/kernels.h"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

inline constexpr int kWarp = 32;

struct alignas(16) Floats4 {
  float at[4];
};

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
// Sums over rows have one order, whoever makes them: those of 16 elements side by side (a part), of parts 16
// apart, and of these 16. Squares are taken about the mean of a part, then about that of the row (Chan et al.
// 1979, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances").
inline constexpr std::int32_t kPartElements = 16, kPartsApart = 16;
ASSAY_DEVICE float half_warp_sum(float x) {
  for (int lanes = kPartElements / 2; lanes > 0; lanes /= 2) x += shuffle_xor(x, lanes);
  return x;
}
// Dividing by 16 is exact, and quicker so.
ASSAY_DEVICE float mean_of_part(float sum, std::int32_t count) {
  return count == kPartElements ? sum * (1.0F / kPartElements) : sum / static_cast<float>(count);
}
// The sum of a part, an element a lane of half a warp, and the sum of squared distances from its mean.
ASSAY_DEVICE Floats2 part_moments(float x, std::int32_t count) {
  const bool is_there = thread_index() % kPartElements < count;
  const float sum = half_warp_sum(is_there ? x : 0.0F);
  const float d = is_there ? x - mean_of_part(sum, count) : 0.0F;
  return {sum, half_warp_sum(d * d)};
}
ASSAY_DEVICE std::int32_t elements_of_part(std::int32_t n, std::int32_t part) {
  return smaller(n - part * kPartElements, kPartElements);
}
ASSAY_DEVICE float squares_about(const Floats2& part, std::int32_t count, float mean) {
  const float d = mean_of_part(part.x, count) - mean;
  return fmaf(static_cast<float>(count) * d, d, part.y);
}
ASSAY_DEVICE Moments moments_of_sums(float mean, float squares, std::int32_t n, float epsilon) {
  squares += squares - squares;  // in a row with infinity NaN, which would leave zeros beside it
  return {mean, 1.0F / sqrtf(squares / static_cast<float>(n) + epsilon)};
}
// From parts that are there already: part(i). In all lanes of a warp, which need not be all of a block.
template <typename Part>
ASSAY_DEVICE Moments merged_moments(std::int32_t n, bool subtracts_mean, float epsilon, const Part& part) {
  const std::int32_t first = thread_index() % kPartsApart, parts = (n + kPartElements - 1) / kPartElements;
  float mean = 0, squares = 0;
  if (subtracts_mean) {
    float sum = 0;
    for (std::int32_t i = first; i < parts; i += kPartsApart) sum += part(i).x;
    mean = half_warp_sum(sum) / static_cast<float>(n);
  }
  for (std::int32_t i = first; i < parts; i += kPartsApart)
    squares += squares_about(part(i), elements_of_part(n, i), mean);
  return moments_of_sums(mean, half_warp_sum(squares), n, epsilon);
}
// Several parts are on their way at once.
template <int AtOnce>
ASSAY_DEVICE Moments moments_left(const MomentParts& left, std::int64_t row, std::int64_t n,
                                  bool subtracts_mean, float epsilon) {
  const Global<const Floats2> parts = Global<float>(left.data).as<const Floats2>() + row * (left.stride / 2);
  const auto elements = static_cast<std::int32_t>(n), count = (elements + kPartElements - 1) / kPartElements;
  const auto for_each = [&](const auto& add) {
    ASSAY_NO_UNROLL
    for (std::int32_t from = thread_index() % kPartsApart; from < count; from += AtOnce * kPartsApart) {
      Floats2 held[AtOnce] = {};
      ASSAY_UNROLL
      for (std::int32_t i = 0; i < AtOnce; ++i)
        if (from + i * kPartsApart < count) held[i] = parts[from + i * kPartsApart];
      ASSAY_UNROLL
      for (std::int32_t i = 0; i < AtOnce; ++i)
        if (from + i * kPartsApart < count) add(held[i], from + i * kPartsApart);
    }
  };
  float mean = 0, squares = 0;
  if (subtracts_mean) {
    float sum = 0;
    for_each([&](const Floats2& part, std::int32_t) { sum += part.x; });
    mean = half_warp_sum(sum) / static_cast<float>(elements);
  }
  for_each([&](const Floats2& part, std::int32_t i) {
    squares += squares_about(part, elements_of_part(elements, i), mean);
  });
  return moments_of_sums(mean, half_warp_sum(squares), elements, epsilon);
}
// Whole parts that a warp fetches at once, up to 32 * Held: a lane has `Held` of them, and its neighbour of
// the other half those behind, so that no warp waits for another. In all lanes of a warp.
template <int Held>
class PartsOfWarp {
 public:
  // n: a multiple of kPartElements.
  ASSAY_DEVICE void fetch(const MomentParts& left, std::int32_t n) {
    const auto from = Global<float>(left.data).as<const Floats2>();
    parts_ = n / kPartElements;
    own_ = thread_index() % kPartsApart + thread_index() % kWarp / kPartsApart * Held * kPartsApart;
    ASSAY_UNROLL
    for (int i = 0; i < Held; ++i)
      if (own_ + i * kPartsApart < parts_)
        part_[i] = from.template load_written<Floats2>(own_ + i * kPartsApart);
  }
  ASSAY_DEVICE Moments merged(std::int32_t n, bool subtracts_mean, float epsilon) const {
    const float mean =
        subtracts_mean ? sum_of([](const Floats2& one) { return one.x; }) / static_cast<float>(n) : 0.0F;
    const float squares = sum_of([&](const Floats2& one) { return squares_about(one, kPartElements, mean); });
    return moments_of_sums(mean, squares, n, epsilon);
  }

 private:
  template <typename OfPart>
  ASSAY_DEVICE float sum_of(const OfPart& of_part) const {
    const auto add = [&](float sum) {
      ASSAY_UNROLL
      for (int i = 0; i < Held; ++i)
        if (own_ + i * kPartsApart < parts_) sum += of_part(part_[i]);
      return sum;
    };
    const float first = add(0), both = add(shuffle_xor(first, kPartsApart)),
                theirs = shuffle_xor(both, kPartsApart);
    return half_warp_sum(own_ < Held * kPartsApart ? theirs : both);
  }

  std::int32_t own_ = 0, parts_ = 0;
  Floats2 part_[Held];
};
// From the row itself, in all threads: up to 256 elements each warp sums for itself, more a block with 256
// threads together, which takes 16 floats of shared memory.
ASSAY_DEVICE Moments moments_of(const Global<const float>& x, std::int64_t elements, bool subtracts_mean,
                                float epsilon, const Shared<float>& partial) {
  const auto n = static_cast<std::int32_t>(elements), lane = thread_index() % kPartElements;
  const auto part = [&](std::int32_t i) {
    const std::int32_t count = elements_of_part(n, i);
    return part_moments(lane < count ? x[i * kPartElements + lane] : 0.0F, count);
  };
  if (n <= kPartElements * kPartsApart) {
    Floats2 own{0, 0};
    for (std::int32_t i = 0; i * kPartElements < n; ++i) {
      const Floats2 made = part(i);
      if (i == lane) own = made;
    }
    return merged_moments(n, subtracts_mean, epsilon, [&](std::int32_t) { return own; });
  }
  const std::int32_t own = thread_index() / kPartElements;
  const auto sum_of = [&](float sum) {
    if (lane == 0) partial[own] = sum;
    barrier();
    sum = half_warp_sum(partial[lane]);
    barrier();
    return sum;
  };
  float mean = 0, squares = 0;
  // All lanes of a warp take part in a shuffle: both halves go as far as the first of them.
  const std::int32_t first = own & ~1;
  if (subtracts_mean) {
    float sum = 0;
    for (std::int32_t i = first; i * kPartElements < n; i += kPartsApart) {
      const std::int32_t at = i + (own & 1);
      const Floats2 made = part(at);
      if (at * kPartElements < n) sum += made.x;
    }
    mean = sum_of(sum) / static_cast<float>(n);
  }
  for (std::int32_t i = first; i * kPartElements < n; i += kPartsApart) {
    const std::int32_t at = i + (own & 1);
    const Floats2 made = part(at);
    if (at * kPartElements < n) squares += squares_about(made, elements_of_part(n, at), mean);
  }
  return moments_of_sums(mean, sum_of(squares), n, epsilon);
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
// 2^(byte - 127); 255 is no number.
ASSAY_DEVICE float e8m0_value(std::uint32_t byte) {
  return float_of(byte == 255 ? 0x7fc00000U : byte == 0 ? 0x00400000U : byte << 23);
}
struct ScaleAndOffset {
  float scale, offset;
};
ASSAY_DEVICE ScaleAndOffset grouped_scale(const Matrix& matrix, std::int64_t row, std::int64_t k) {
  const ScaleRun& run = matrix.run;
  const RunReader reader{run, Global<const float>(matrix.scales).as<const std::byte>(),
                         row / kStrip * run.panel_bytes(matrix.inputs) + k / run.inputs * run.bytes(),
                         row % kStrip};
  if (run.is_e8m0) return {e8m0_value(reader.bits(run.factor_at, 8)), 0};
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
    const std::int64_t bit = bit_in_plane(width, row, k);
    const std::uint32_t byte = data.load<std::uint8_t>(plane + bit / 8);
    return byte >> bit % 8 & ((1U << width) - 1U);
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

// Both return what is in out then.
ASSAY_DEVICE float finish(const Epilogue& to, std::int64_t row, std::int64_t output, float sum, float bias,
                          float before) {
  if (to.bias) sum += bias;
  float value = activate(to.activation, sum);
  if (to.adds) value += before;
  Global<float>(to.out)[row * to.out_stride + output] = value;
  put_ordered(to.ordered, row, output, value);
  return value;
}
ASSAY_DEVICE float finish(const Epilogue& to, std::int64_t row, std::int64_t output, float sum) {
  const float bias = to.bias ? static_cast<float>(Global<const float>(to.bias)[output]) : 0.0F;
  const Global<float> out = Global<float>(to.out) + (row * to.out_stride + output);
  return finish(to, row, output, sum, bias, to.adds ? static_cast<float>(out[0]) : 0.0F);
}
// From the sums of a gate and those that it multiplies.
ASSAY_DEVICE float finish_gated(const Epilogue& to, std::int64_t row, std::int64_t output, float gate,
                                float sum) {
  if (const Global<const float> bias(to.bias); bias) {
    gate += bias[output];
    sum += bias[output + to.gated];
  }
  const float value = activate(to.activation, gate) * sum;
  Global<float>(to.out)[row * to.out_stride + output] = value;
  put_ordered(to.ordered, row, output, value);
  return value;
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
