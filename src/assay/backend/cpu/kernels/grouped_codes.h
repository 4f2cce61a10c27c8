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
  // Calls take(input, value) for every input of an output.
  template <typename Take>
  void for_row(std::int64_t panel, std::int64_t j, const Take& take) const {
    const std::byte *own = codes + panel * code_bytes(), *at = scales + panel * scale_bytes();
    for (std::int64_t first = 0; first < k; first += run.group()) {
      const std::byte* of_run = at + first / run.inputs * run.bytes();
      const auto group = static_cast<int>(first % run.inputs / run.group());
      const float scale = scale_in_run(run, of_run, j, group), offset = offset_in_run(run, of_run, j, group);
      for (std::int64_t i = first; i < first + run.group() && i < k; ++i) {
        const float scaled = values[code_at(own, bits, i, j)] * scale;
        take(i, run.has_minima ? scaled + offset : scaled);
      }
    }
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

// Beside int8 activations: groups of 32 inputs share a scale of the activations; weights whose own groups
// are smaller cut them. In a sum, blocks of so many inputs come one after another.
inline constexpr std::int64_t kInt8Group = 32, kInt8Block = 256;  // kInt8GroupOfStoredScales

// The values of codes as bytes: value = (byte - zero) * unit. Where `has_table` a byte is table[code], else
// the code itself. Wide ones need all 8 bits; others are below 64.
struct ByteValues {
  std::uint8_t table[16];
  bool has_table, is_wide;
  std::int32_t zero;
  // Where bytes are not wide, the sum of (byte - center) * x over half a group fits 16 bits: the center is
  // within 16 of each byte, or within 32 where groups have 16 inputs.
  std::int32_t center;
  float unit;
};
ByteValues byte_values_of(const GroupedCodes& codes);

// Rows as int8 for such weights. A group is that of a weight's scale, at most 32 inputs.
struct GroupedRows {
  std::int8_t* codes;  // [k_padded / 32][capacity][32]; zero beyond k
  // [k_padded / group][capacity]: absmax of the 32 inputs / 127 * unit; sum of the codes * that.
  float *scales, *sums;
  // The same, for the products of the table that coded the rows. With VNNI sums of a group start at `starts`.
  // Without it they start at `own_starts`, for bytes without a sign two numbers of 16 bits, and `starts` is
  // what they then lack.
  std::int32_t *starts, *own_starts;
  std::int64_t capacity;  // rows

  std::int64_t strip() const { return capacity * kInt8Group; }  // bytes from one strip to the next
  std::int64_t offset(std::int64_t row, std::int64_t k) const {
    return k / kInt8Group * strip() + row * kInt8Group + k % kInt8Group;
  }
  // The same rows from one on.
  GroupedRows from(std::int64_t row) const {
    return {codes + row * kInt8Group, scales + row, sums + row, starts + row, own_starts + row, capacity};
  }
};

// Rows to int8: codes = rint(x * (127 / absmax of the 32 inputs)), all 0 where that is below 1e-35. Of a row
// with NaN or infinity all scales and sums are NaN.
struct QuantizeGroupedArgs {
  const float* x;  // null where x_tiles are given
  std::int64_t x_stride;
  Tiles x_tiles;
  std::int64_t first_row, rows, k = 0, k_padded = 0, group = 0;  // group: 16 or 32
  ByteValues values = {};
  GroupedRows out = {};
};

// Rows of int8 inputs times grouped codes. For each group an exact sum of products is added, times scale of
// the inputs * scale of the weights, by one chain of multiply-adds; behind each 256 inputs sum of the inputs
// * minimum of each of their groups.
struct GroupedInt8Args {
  LinearArgs to;         // x and w are not read
  GroupedCodes weights;  // those of all panels
  ByteValues values;
  GroupedRows x;       // row 0 is that of `to`
  std::byte* scratch;  // memory of coded_scratch_bytes(to.rows), 64-byte aligned; null for kFewRows at most
  WeightFetch fetch = {};
};
// Inputs that share a scale of the weights, 32 at most.
[[gnu::always_inline]] inline std::int64_t int8_group_of(const ScaleRun& run) {
  return run.group() < kInt8Group ? run.group() : kInt8Group;
}

namespace scalar {
void expand_grouped(const ExpandGroupedArgs& args) noexcept;
void quantize_grouped(const QuantizeGroupedArgs& args) noexcept;
void linear_grouped_int8(const GroupedInt8Args& args) noexcept;
// What becomes of a sum: bias, activation, residual.
void finish_output(const LinearArgs& args, std::int64_t row, std::int64_t output, double sum);
}  // namespace scalar

}  // namespace assay::cpu
