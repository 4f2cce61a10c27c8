// What matrix multiplications of a GPU take: matrices, inputs as they are, rounded, in order or as codes, and
// what becomes of the sums.
#pragma once

#include <cstdint>

#include "assay/backend/cuda/lower/layout.h"
#include "assay/backend/cuda/runtime.h"
#include "assay/plan/elementwise.h"

namespace assay::cuda {

// A matrix, or a table of embeddings, in fragment order (layout.h): matrix_bytes(format, outputs, inputs).
//   int8       scales[outputs]: the largest magnitude of each output; a code stands for scale / 127 * code
//   four_bit   scales of groups: scale_count(outputs, inputs, group) in the order of scale_of(), `group` a
//              power of two. A code stands for book[code] * scale, + offset where there are offsets (zero
//              points or minima, which lie as scales do). Input groups, [inputs padded to a tile], say which
//              group an input is in; without them its position does
//   grouped    runs of scales (common/grouped_layout.h); a code of over 4 bits stands for book[0] + code
struct Matrix {
  DevicePointer<const std::byte> data = {};
  DevicePointer<const float> scales = {}, offsets = {};
  DevicePointer<const std::int32_t> input_groups = {};
  std::int64_t outputs = 0, inputs = 0, group = 0;
  MatrixFormat format = MatrixFormat::float32;
  float codebook[16] = {};
  ScaleRun run = {};  // grouped
};

// Where an operation leaves its rows in order too (kernels/ordered.cuh), for the multiplication behind it: as
// many columns as there are inputs of that, a multiple of 64. Null: nowhere.
struct OrderedRowsOut {
  DevicePointer<std::byte> out = {};  // 16-byte aligned
  std::int64_t out_stride = 0;        // bytes: rounded_inputs_stride()
  bool is_float16 = false;            // or bfloat16
};

// For each 16 columns of a row their sum and the sum of squared distances from their mean, which a norm of
// the row is made of (kernels/common.cuh): [rows][columns / 16, rounded up][2]. Null: they are not there.
struct MomentParts {
  DevicePointer<float> data = {};
  std::int64_t stride = 0;  // floats from row to row, even
};

// What a matrix multiplication does with its sums: out = activation(sum + bias), or +=. With `gated` columns
// in out there are twice as many outputs: out[i] = activation(s[i]) * s[i + gated], s = sum + bias.
struct Epilogue {
  DevicePointer<const float> bias = {};  // [outputs], or null
  Activation activation = Activation::none;
  bool adds = false;
  bool is_added_to_early = false;  // no kernel that may still run writes what is added to
  bool lets_next_start = false;    // before it waits itself; of few rows
  DevicePointer<float> out = {};
  std::int64_t out_stride = 0;
  OrderedRowsOut ordered = {};
  std::int64_t gated = 0;    // for few rows; a multiple of 16; without `adds`
  MomentParts moments = {};  // written, of what is in out then; of few rows
};

// How sums are formed where the weights leave a choice.
//   float32    fused multiply-adds in float32
//   tf32       tensor cores, weights and inputs rounded to TF32; of float32 matrices
//   float16, bfloat16   tensor cores, inputs rounded to it, sums in float32; 4-bit codes become book[code]
//              rounded to it, scales multiply sums in float32 (groups below 16 are computed in float32).
//              Of 4-bit codes with offsets or input groups the weights are rounded to it, and multiplied in
//              float32; grouped codes are exact in it, and scales and offsets float32
enum class Arithmetic : std::int32_t { float32, tf32, float16, bfloat16 };

// Memory that a multiplication works in. Inputs that are put into order need rows * rounded_inputs_stride()
// of it; without enough for many rows the way of few is taken, which gives the same bits.
struct Scratch {
  DevicePointer<std::byte> data = {};  // 256-byte aligned
  std::int64_t bytes = 0;
};
// What the rows take there as the tensor cores take them, and what sums of ranges take at most.
constexpr std::int64_t rounded_inputs_stride(std::int64_t inputs, Arithmetic arithmetic) {  // bytes
  return round_up(inputs, 64) * (arithmetic == Arithmetic::tf32 ? 4 : 2);
}
std::int64_t partial_sums_bytes(std::int64_t rows, std::int64_t outputs, int processors);

// What a multiplication makes of its inputs before it multiplies them, with the bits of NormArgs or
// GatedArgs; of few rows alone, since every block makes it for itself.
struct FusedPrologue {
  enum class Kind : std::int32_t { none, norm, gated };
  Kind kind = Kind::none;
  DevicePointer<const float> gain = {}, bias = {};  // for a norm of whole rows
  float epsilon = 0;
  bool subtracts_mean = false;
  Activation activation = Activation::silu;  // for a gate: x has 2 * inputs columns
  MomentParts moments = {};                  // for a norm, with its bits; null: they are made of x
};
inline constexpr std::int64_t kMaxPrologueRows = 4;
// Kernels of many rows take more than these; whether they are used of so few is decided above them.
inline constexpr std::int64_t kMinorRows = 16;
// Inputs that are put into order first (OrderArgs) are made once: those of all few rows.
inline constexpr std::int64_t kFewRows = 64, kMaxOrderedPrologueRows = kFewRows;
// Inputs of each row that a warp makes at a time; of fewer rows as many more as memory has room for. A row
// takes 8 floats more, so that lanes of four rows meet no bank twice.
inline constexpr std::int64_t kMadeAtOnce = 192, kMadePadding = 8;
// Bytes of shared memory: sums of warps, moments of rows, and what each of 8 warps has made.
inline constexpr std::int64_t kMomentBytes = (16 + 2 * kMaxPrologueRows) * 4,
                              kMadeBytesOfWarp = kMaxPrologueRows * (kMadeAtOnce + kMadePadding) * 4;
inline constexpr std::uint32_t kMadeBytes = kMomentBytes + 8 * kMadeBytesOfWarp;

// Rows rounded to float16 or bfloat16 (arithmetic) in the order in which tensor cores take few of them
// (kernels/ordered.cuh), zero from `inputs` on; as they are, or as `made` makes them.
struct OrderArgs {
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0, rows = 0, inputs = 0;
  FusedPrologue made = {};
  Arithmetic arithmetic = Arithmetic::bfloat16;
  DevicePointer<std::byte> out = {};  // 16-byte aligned
  std::int64_t out_stride = 0;        // bytes: rounded_inputs_stride()
};
// Those rows times a matrix in float16, bfloat16 or four_bit; or rows that the product norms itself.
struct OrderedArgs {
  DevicePointer<const std::byte> x = {};
  std::int64_t x_stride = 0, rows = 0;
  Matrix weight = {};
  Epilogue to = {};
  DevicePointer<const float> made_of = {};
  std::int64_t made_stride = 0;
  FusedPrologue made = {};  // a norm whose moments are there
  bool is_staged = false;   // run() decides
};
// Most units of 32 inputs of which a warp makes normed rows: odd, so that rows meet no bank twice.
ASSAY_HOST_DEVICE constexpr std::int64_t normed_units(std::int64_t inputs) {
  return ((inputs + 15) / 16 / 16 + 2) | 1;
}
ASSAY_HOST_DEVICE constexpr std::int64_t normed_moments_bytes(std::int64_t rows, std::int64_t inputs) {
  return round_up(rows * ((inputs + 15) / 16) * 8, 16);
}
ASSAY_HOST_DEVICE constexpr std::int64_t normed_rows_bytes(std::int64_t rows, std::int64_t inputs) {
  return normed_moments_bytes(rows, inputs) + 8 * rows * normed_units(inputs) * 64;
}
// Rows that blocks of a product of few rows stage in shared memory: long ones, of which a warp multiplies
// more than it can have on their way.
inline constexpr std::int64_t kMaxUnstagedInputs = 2048, kMaxStagedBytes = 40 << 10;
ASSAY_HOST_DEVICE constexpr std::int64_t staged_rows_bytes(std::int64_t rows, std::int64_t inputs) {
  return 8 * rows * normed_units(inputs) * 64;
}
// From row to row where a block keeps all of them (kernels/staged_halves.cuh).
ASSAY_HOST_DEVICE constexpr std::int64_t staged_row_bytes(std::int64_t inputs) {
  return round_up(2 * inputs, 128) + 64;
}
// Sums of rows that warps with strips of their own put together: two places of 32 for each of 8 warps.
inline constexpr std::int64_t kOwnSumsBytes = 8 * 2 * 32 * 4;
// Rows that a product norms for itself in every block: of more it is cheaper to do it once.
inline constexpr std::int64_t kMaxNormedRows = 2;
// Whether products are of rows in that order: what is not multiplied by 16-bit tensor cores is not.
bool takes_ordered_inputs(MatrixFormat format, Arithmetic arithmetic, std::int64_t group, bool has_offsets);

// The kernels of many rows: sums as few rows have them, or all inputs in one run (exact for int8 codes).
enum class ManyRows : std::int32_t { ranges, warpgroups };
// x [rows, inputs] times a matrix in any format but int8. Sums are made of 8 ranges of the inputs, added in
// order: bits depend on the matrix's shape, never on `rows`.
struct LinearArgs {
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0, rows = 0;
  Matrix weight = {};
  Arithmetic arithmetic = Arithmetic::float32;  // float16 and bfloat16 matrices: their own
  Epilogue to = {};
  Scratch scratch = {};
  FusedPrologue made = {};
  DevicePointer<const std::byte> ordered = {};  // few rows of x, where they are in order already; or null
  // Up to so many a block has all rows of its strip of outputs; of more, rows and weights meet in tiles.
  std::int64_t few_rows = kFewRows;
  ManyRows many_rows = ManyRows::ranges;  // warpgroups: where device and format allow
};

// Rows to int8 with a scale for each group of inputs, for 4-bit weights: codes = rint(x * (127 / largest of
// the group)), scales[row][group of the row] = largest / 127 * unit, all NaN of a row that is not finite.
struct QuantizeGroupsArgs {
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0, rows = 0, inputs = 0, group = 0;  // group: a power of two from 16 on
  float unit = 1;
  DevicePointer<std::int8_t> codes = {};  // [rows][codes_stride], a multiple of 64; zero from `inputs` on
  std::int64_t codes_stride = 0;
  DevicePointer<float> scales = {};  // [rows][groups_of_strip(inputs, group)]
};

// Those codes times a 4-bit matrix whose book holds integers, -127 to 127: for each group an exact sum of
// products, times scale of the inputs * scale of the weights.
struct LinearInt8ActivationsArgs {
  DevicePointer<const std::int8_t> codes = {};
  std::int64_t codes_stride = 0, rows = 0;
  DevicePointer<const float> x_scales = {};
  Matrix weight = {};  // group at least 16
  Epilogue to = {};
};

}  // namespace assay::cuda
