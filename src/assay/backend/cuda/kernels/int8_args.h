// What int8 matrices of a GPU are multiplied by: rows of float32 as codes.
#pragma once

#include "assay/backend/cuda/kernels/linear_args.h"

namespace assay::cuda {

// Rows of float32 to int8 codes, as the CPU has it (backend/cpu/kernels/kernels.h, QuantizeArgs):
// codes[row][k], rows codes_stride apart (a multiple of 32, at least inputs; 16-byte aligned memory), zero
// from `inputs` on. Codes of few rows may lie in the order in which tensor cores take them
// (kernels/ordered_int8.cuh), in rows of a multiple of 64.
//   symmetric     codes = rint(x * (127 / largest)), scale `absmax` of the row; of LLM.int8() where
//                 `threshold` is not 0: inputs are rounded to float16, those of magnitude `threshold` or more
//                 count for nothing, features where any row has one are outliers and become 0. An infinite
//                 threshold: no feature is one.
//   row_ranges    a scale and a zero point for each row, from its range with zero
//   tensor_range  a scale and a zero point of all rows together, whatever is not finite left out
//   fixed         known beforehand
struct QuantizeArgs {
  enum class Kind : std::int32_t { symmetric, row_ranges, tensor_range, fixed };
  Kind kind = Kind::symmetric;
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0, rows = 0, inputs = 0;
  FusedPrologue made = {};  // none or norm; not of all rows together, nor of those with outliers
  DevicePointer<const float> factors = {};  // [inputs]: what inputs are multiplied by first; null: 1
  float threshold = 0;
  float fixed_scale = 0;
  std::int32_t fixed_zero_point = 0;  // for codes from -128 on
  bool is_ordered = false;
  // Written.
  DevicePointer<std::int8_t> codes = {};
  std::int64_t codes_stride = 0;
  DevicePointer<float> absmax = {};  // [rows]; ranges: 127 * scale. NaN of a row that is not finite
  DevicePointer<std::int32_t> zero_points =
      {};  // [rows], of codes from -128 on; of symmetric codes not written
  // tensor_range alone: [2 * rows]
  DevicePointer<float> ranges = {};
  // A finite threshold alone. marks [inputs]: 1 where a feature is an outlier; outliers [inputs]: which they
  // are, ascending; outlier_count [1]; seen [2]: what every run adds to: outliers, features.
  DevicePointer<std::uint8_t> marks = {};
  DevicePointer<std::int32_t> outliers = {}, outlier_count = {};
  DevicePointer<std::int64_t> seen = {};
};

// Codes of rows times an int8 matrix: (sum of (code - zero point) * weight) * (absmax * scale / 127^2), plus
// x * (code * (scale / 127)) for each outlier. Sums of codes are exact. A gate, moments and rows in order
// (Epilogue) are left by codes in order alone.
struct LinearInt8Args {
  bool is_ordered = false;  // the codes, of up to kFewInt8Rows rows
  DevicePointer<const std::int8_t> codes = {};
  std::int64_t codes_stride = 0, rows = 0;
  DevicePointer<const float> absmax = {};              // [rows]
  DevicePointer<const std::int32_t> zero_points = {};  // [rows], or null: 0
  DevicePointer<const std::int32_t> sums = {};         // [outputs], of the weights' codes; with zero_points
  Matrix weight = {};
  // For LLM.int8(), as QuantizeArgs writes them; null: none.
  DevicePointer<const std::int32_t> outliers = {}, outlier_count = {};
  DevicePointer<const float> x = {};  // [rows, inputs], of outliers
  std::int64_t x_stride = 0;
  Epilogue to = {};
  Scratch scratch = {};
  ManyRows many_rows = ManyRows::ranges;
};

// Both, with the same bits: the rows are quantized and multiplied. Codes lie in order or not as it suits the
// number of rows; of very few rows every block makes them for itself, and nothing is written of `quantize`.
// One row has kernels of its own (kernels/coded_row.cuh).
struct QuantizedLinearArgs {
  QuantizeArgs quantize = {};
  LinearInt8Args linear = {};
};

// Up to so many rows a block has all rows of its outputs; with a gate it has twice as many outputs.
inline constexpr std::int64_t kFewInt8Rows = 64, kFewGatedInt8Rows = 32;
// Up to so many a block makes the codes itself, of several rows that each have their own: with a gate a block
// has two strips. What blocks read, from the L2 cache, is then 16 MiB at most.
inline constexpr std::int64_t kMaxCodedRows = 8, kMaxCodedBytes = std::int64_t{16} << 20;
constexpr bool makes_codes(std::int64_t rows, std::int64_t inputs, std::int64_t strips) {
  return rows <= kMaxCodedRows && rows * inputs * 4 * strips <= kMaxCodedBytes;
}
// The step from row to row of codes that lie in order or not.
constexpr std::int64_t codes_stride(std::int64_t inputs) {
  return round_up(inputs, 64);
}
// The shared memory of such a block: ranges of warps, scales of rows, then rows of codes, which step by an
// odd number of 64 bytes so that lanes of two rows meet no bank twice, then partial sums.
inline constexpr std::int64_t kScalesAt = 8 * 16, kCodedRowsAt = kScalesAt + kMaxCodedRows * 8;
ASSAY_HOST_DEVICE constexpr std::int64_t coded_row_bytes(std::int64_t inputs) {
  return round_up(inputs, 128) + 64;
}

// Inputs of one row that the warps of a block hold in registers, of two or three blocks an SM; more are
// staged in shared memory, and not normed. Ranges of warps lie there, then the codes, two places for sums of
// each strip, and staged inputs.
ASSAY_HOST_DEVICE constexpr std::int64_t coded_row_held(bool is_wide) {
  return is_wide ? 2048 : 4096;
}
inline constexpr std::int64_t kCodedRowCodesAt = 8 * 16;
ASSAY_HOST_DEVICE constexpr std::int64_t coded_row_partial_bytes(std::int64_t strips) {
  return 2 * strips * 8 * kStrip * 4;
}
constexpr std::int64_t coded_row_bytes(std::int64_t inputs, std::int64_t strips, bool is_wide) {
  const std::int64_t padded = round_up(inputs, 64);
  return kCodedRowCodesAt + padded + coded_row_partial_bytes(strips) +
         (padded > coded_row_held(is_wide) ? padded * 4 : 0);
}

// Whether a product of one row, whose inputs a norm with moments makes or not, makes the codes; of aligned
// rows that fit shared memory.
constexpr bool makes_codes_of_row(std::int64_t rows, std::int64_t inputs, bool is_normed) {
  return rows == 1 && inputs > 0 && (!is_normed || (inputs % 16 == 0 && inputs <= coded_row_held(false)));
}

// Shared memory of a block that quantizes one row alone, and where it makes the moments of that row.
inline constexpr std::int64_t kPartsAt = 256;
constexpr std::int64_t quantize_bytes(std::int64_t inputs) {
  return kPartsAt + 64 + (inputs + 15) / 16 * 8;
}

}  // namespace assay::cuda
