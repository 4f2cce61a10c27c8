// Codes of 2 to 8 bits whose groups of inputs have scales of their own, as checkpoints hold them (GGUF's
// block types): how they lie in panels of 16 outputs, and what multiplies them. No bit is added to what the
// file has.
//
// Codes: 32 inputs of a panel are a span of 64 * bits bytes, first a plane of the codes' low bits, then one
// of their high bits where there are any. A plane of w bits is lines of 64 bytes, a word of 4 for each
// output, which hold 32 / w inputs: input i lies in byte i % 4 of the word, w * (i / 4) bits up.
//
// Scales: each run of groups has a string of bits for each output: whole numbers, and float16 factors
// (ScaleRun). It is cut into words of 4 bytes, those of all outputs side by side; the last may be 2 bytes
// or 1.
#pragma once

#include <bit>
#include <cstring>

#include "assay/backend/cpu/kernels/kernels.h"
#include "assay/quant/format.h"
#include "assay/tensor/half.h"

namespace assay::cpu {

inline constexpr std::int64_t kSpan = 32;
struct CodePlanes {
  int low, high;  // bits; high 0: none
};
constexpr CodePlanes planes_of_code(int bits) {
  return bits == 8 ? CodePlanes{8, 0} : bits >= 4 ? CodePlanes{4, bits - 4} : CodePlanes{2, bits - 2};
}

// Where the part of a code lies that a plane of `width` bits holds, within the plane of its span.
constexpr std::int64_t plane_offset(int width, std::int64_t k, std::int64_t j) {
  return k % kSpan / (32 / width) * (kPanel * 4) + j * 4 + k % 4;
}
constexpr int plane_shift(int width, std::int64_t k) {
  return width * static_cast<int>(k % (32 / width) / 4);
}
inline int code_at(const std::byte* panel, int bits, std::int64_t k, std::int64_t j) {
  const CodePlanes planes = planes_of_code(bits);
  const std::byte* span = panel + k / kSpan * kPanel * 4 * bits;
  const auto part = [&](const std::byte* plane, int width) {
    return std::to_integer<int>(plane[plane_offset(width, k, j)]) >> plane_shift(width, k) &
           ((1 << width) - 1);
  };
  const int low = part(span, planes.low);
  return planes.high == 0 ? low : low | part(span + kPanel * 4 * planes.low, planes.high) << planes.low;
}

// The scales of a group, or of the groups of a super-block: where each number begins in an output's string of
// bits. scale = factor * (number - zero) and offset = -(minimum factor * minimum), or the factors themselves.
struct ScaleRun {
  std::int32_t groups = 1, inputs = 0;  // of the run
  std::int32_t number_bits = 0;         // of which planes hold the low ones, 4 or 8; 0: factors alone
  bool is_e8m0 = false, has_minima = false;
  std::int32_t zero = 0;
  std::int32_t minima_at = 0, highs_at = 0, minimum_highs_at = 0, factor_at = 0, minimum_factor_at = 0;
  std::int32_t bits = 0;  // of the string

  [[gnu::always_inline]] constexpr std::int32_t low_bits() const { return number_bits == 8 ? 8 : 4; }
  [[gnu::always_inline]] constexpr std::int64_t bytes() const { return std::int64_t{bits} / 8 * kPanel; }
  [[gnu::always_inline]] constexpr std::int32_t group() const { return inputs / groups; }
};
constexpr ScaleRun scale_run_of(const WeightFormat& format) {
  ScaleRun run;
  run.has_minima = format.offset == Offset::minimum;
  run.is_e8m0 = format.scale == ScaleType::e8m0;
  const std::int64_t inputs =
      format.inputs_per_super_block > 0 ? format.inputs_per_super_block : format.inputs_per_scale;
  run.inputs = static_cast<std::int32_t>(inputs);
  run.groups = static_cast<std::int32_t>(inputs / format.inputs_per_scale);
  const auto take = [&run](std::int32_t count) {
    run.bits += count;
    return run.bits - count;
  };
  if (format.inputs_per_super_block > 0) {
    run.number_bits = format.scale == ScaleType::bits4 ? 4 : format.scale == ScaleType::bits6 ? 6 : 8;
    run.zero = run.has_minima ? 0 : 1 << (run.number_bits - 1);
    take(run.groups * run.low_bits());
    if (run.has_minima) run.minima_at = take(run.groups * run.low_bits());
    if (run.number_bits == 6) run.highs_at = take(run.groups * 2);
    if (run.number_bits == 6 && run.has_minima) run.minimum_highs_at = take(run.groups * 2);
  }
  run.factor_at = take(run.is_e8m0 ? 8 : 16);
  if (run.has_minima) run.minimum_factor_at = take(16);
  return run;
}

// The place of bits of an output's string in a run that begins at `at`, and how far up in it they lie.
inline std::int64_t run_offset(const ScaleRun& run, std::int32_t bit, std::int64_t output) {
  const std::int32_t word = bit / 32, left = run.bits / 8 - word * 4;
  return word * kPanel * 4 + output * (left < 4 ? left : 4) + bit % 32 / 8;
}
inline int number_at(const ScaleRun& run, const std::byte* at, std::int64_t output, std::int32_t low_at,
                     std::int32_t high_at, int group) {
  const auto bits = [&](std::int32_t bit, int width) {
    return std::to_integer<int>(at[run_offset(run, bit, output)]) >> bit % 8 & ((1 << width) - 1);
  };
  const int low = bits(low_at + group * run.low_bits(), run.low_bits());
  return run.number_bits == 6 ? low | bits(high_at + group * 2, 2) << 4 : low;
}
inline float factor_at(const ScaleRun& run, const std::byte* at, std::int64_t output, std::int32_t bit) {
  std::uint16_t half = 0;
  std::memcpy(&half, at + run_offset(run, bit, output), 2);
  return f16_to_float(half);
}
// 2^(byte - 127); the byte 255 is NaN, 0 a number below the normal ones.
inline float e8m0_to_float(std::uint32_t byte) {
  return std::bit_cast<float>(byte == 255 ? 0x7fc00000U : byte == 0 ? 0x00400000U : byte << 23);
}
inline float scale_in_run(const ScaleRun& run, const std::byte* at, std::int64_t output, int group) {
  if (run.is_e8m0) return e8m0_to_float(std::to_integer<std::uint32_t>(at[output]));
  const float factor = factor_at(run, at, output, run.factor_at);
  if (run.number_bits == 0) return factor;
  return factor * static_cast<float>(number_at(run, at, output, 0, run.highs_at, group) - run.zero);
}
inline float offset_in_run(const ScaleRun& run, const std::byte* at, std::int64_t output, int group) {
  if (!run.has_minima) return 0;
  const float factor = factor_at(run, at, output, run.minimum_factor_at);
  if (run.number_bits == 0) return factor;
  return -(factor *
           static_cast<float>(number_at(run, at, output, run.minima_at, run.minimum_highs_at, group)));
}

// The panels of a matrix: values[code] * scale + offset, in float32, each rounded.
struct GroupedCodes {
  const std::byte *codes, *scales;  // of the first panel
  const float* values;              // [2^bits]; of more than 4 bits value i is values[0] + i
  int bits;
  ScaleRun run;
  std::int64_t k, k_padded;  // k_padded: to a span

  [[gnu::always_inline]] std::int64_t code_bytes() const {
    return k_padded * bits * kPanel / 8;
  }  // of a panel
  [[gnu::always_inline]] std::int64_t scale_bytes() const {
    return (k_padded + run.inputs - 1) / run.inputs * run.bytes();
  }
  float value(std::int64_t panel, std::int64_t j, std::int64_t i) const {
    const std::byte* at = scales + panel * scale_bytes() + i / run.inputs * run.bytes();
    const auto group = static_cast<int>(i % run.inputs / run.group());
    const float scaled =
        values[code_at(codes + panel * code_bytes(), bits, i, j)] * scale_in_run(run, at, j, group);
    return run.has_minima ? scaled + offset_in_run(run, at, j, group) : scaled;
  }
};

// As KernelTable::expand and linear_four_bit have it, of these codes.
struct ExpandGroupedArgs {
  GroupedCodes weights;
  std::int64_t panels;
  Packing packing;  // float32 [panels][k][16] or bfloat16
  void* out;
};
struct LinearGroupedArgs {
  LinearArgs to;         // x in floats; w is not read
  GroupedCodes weights;  // those of all panels
  WeightFetch fetch = {};
};

namespace scalar {
void expand_grouped(const ExpandGroupedArgs& args) noexcept;
}

}  // namespace assay::cpu
