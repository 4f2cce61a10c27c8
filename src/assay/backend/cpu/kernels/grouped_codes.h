// Grouped codes as the CPU kernels read them (common/grouped_layout.h): their values one by one, and the
// arguments of what expands and multiplies them.
#pragma once

#include <bit>
#include <cstring>

#include "assay/backend/common/grouped_layout.h"
#include "assay/backend/cpu/kernels/kernels.h"
#include "assay/tensor/half.h"

namespace assay::cpu {

static_assert(kGroupedOutputs == kPanel && kSpan == kTileColumns);

// Packing::four_bit: where the code of input k of output j lies in its panel, and how many bits up.
inline constexpr std::int64_t kCodeInputs = 8;  // in 64 bytes of a panel
constexpr std::int64_t code_offset(std::int64_t k, std::int64_t j) {
  return k / kCodeInputs * (kPanel * 4) + j * 4 + k % 4;
}
constexpr int code_shift(std::int64_t k) {
  return static_cast<int>(k / 4 % 2 * 4);
}

inline int code_at(const std::byte* panel, int bits, std::int64_t k, std::int64_t j) {
  const CodePlanes planes = planes_of_code(bits);
  const std::byte* span = panel + k / kSpan * kPanel * 4 * bits;
  const auto part = [&](const std::byte* plane, int width) {
    std::uint32_t word = 0;
    std::memcpy(&word, plane + plane_word(width, k, j), 4);
    return static_cast<int>(word >> plane_shift(width, k) & ((1U << width) - 1U));
  };
  const int low = part(span, planes.low);
  return planes.high == 0 ? low : low | part(span + kPanel * 4 * planes.low, planes.high) << planes.low;
}

inline int number_at(const ScaleRun& run, const std::byte* at, std::int64_t output, std::int32_t low_at,
                     std::int32_t high_at, int group) {
  const auto bits = [&](std::int32_t bit, int width) {
    return std::to_integer<int>(at[run.byte_of(bit, output)]) >> bit % 8 & ((1 << width) - 1);
  };
  const int low = bits(low_at + group * run.low_bits(), run.low_bits());
  return run.number_bits == 6 ? low | bits(high_at + group * 2, 2) << 4 : low;
}
inline float factor_at(const ScaleRun& run, const std::byte* at, std::int64_t output, std::int32_t bit) {
  std::uint16_t half = 0;
  std::memcpy(&half, at + run.byte_of(bit, output), 2);
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
  const std::byte *codes, *scales;  // where the first panel begins
  const float* values;              // [2^bits]; of more than 4 bits value i is values[0] + i
  int bits;
  ScaleRun run;
  std::int64_t k, k_padded;  // k_padded: to a span

  // What a panel takes.
  [[gnu::always_inline]] std::int64_t code_bytes() const { return k_padded * bits * kPanel / 8; }
  [[gnu::always_inline]] std::int64_t scale_bytes() const {
    return (k_padded + run.inputs - 1) / run.inputs * (run.bits / 8 * kPanel);
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
