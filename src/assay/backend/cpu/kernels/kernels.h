// The table of CPU kernels. `scalar` fills it completely; each ISA replaces what it improves.
//
// The order of every sum depends on the operation, the format and the ISA alone, never on the number of rows,
// on threads or on neighbours in the batch: one fused multiply-add chain along K for each output, lanes
// across outputs, attention in blocks of 64 keys. Results are therefore equal bit for bit across batch sizes,
// thread counts and cached or recomputed prefixes.
//
// NaN and infinity stay visible, on every tier: where one is among the inputs of a row, what a kernel
// computes from it is NaN or infinite too, in attention for every query that sees such a key or value.
// Activations that become int8 codes get a scale of NaN for their row. Numbers remain where the mathematics
// has one: the ReLU of -infinity, the tanh of infinity, the weight of a score of -infinity beside others; a
// row of nothing but such scores is NaN. A sum that overflows float32 counts as infinite. Other rows keep
// every bit, whatever lies beside them: padding, keys that are masked, positions of the cache that were never
// written.
#pragma once

#include <cstddef>
#include <cstdint>

#include "assay/backend/constants.h"
#include "assay/backend/head.h"
#include "assay/plan/elementwise.h"

namespace assay::cpu {

inline constexpr int kPanel = 16;  // outputs per panel of a packed matrix
inline constexpr int kGroup = 4;   // panels walked together: four streams from memory

// Activations as the products of bfloat16 (AMX, AVX-512 BF16) read them: bfloat16 in strips of 32 columns,
// [columns / 32][rows][32], so that 16 rows from any row on are 1 KB. A float32 value may be held as a sum of
// up to three such planes, the leading part first. Columns beyond the real ones stay zero; up to 15 rows
// beyond the last are read and ignored.
inline constexpr std::int64_t kTileRows = 16, kTileColumns = 32, kTileElements = kTileRows * kTileColumns;
inline constexpr int kMaxPlanes = 3;
struct Tiles {
  std::uint16_t* data;   // null where there are none
  std::int64_t rows;     // the capacity of a strip
  std::int64_t columns;  // a multiple of 32
  int planes;            // 1 for bfloat16

  std::int64_t strip() const { return rows * kTileColumns; }  // elements from one strip to the next
  std::int64_t plane_size() const { return rows * columns; }
  std::uint16_t* plane(int i) const { return data + i * plane_size(); }
  std::int64_t offset(std::int64_t row, std::int64_t column) const {
    return column / kTileColumns * strip() + row * kTileColumns + column % kTileColumns;
  }
};
inline constexpr Tiles kNoTiles{nullptr, 0, 0, 0};
constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

// How a packed matrix holds its panels of 16 outputs.
//   float32:  [panels][k][16]
//   bfloat16: [panels][planes][k_padded / 2][16][2], k_padded = k rounded up to 32, zeros beyond k: the order
//             of the pair products, and 1 KB per 32 inputs for the tile products. planes > 1 hold a float32
//             matrix as a sum of bfloat16 parts.
//   int8:     [panels][k_padded / 4][16][4], k_padded = k rounded up to 64
//   four_bit: [panels][k_padded / 8][16][4], k_padded = k rounded up to 32: of eight inputs, byte i of an
//             output holds the code of input i, low, and of input i + 4: the order of the products of bytes
//   grouped:  codes of any width with the scales of their checkpoint (common/grouped_layout.h)
enum class Packing { float32, bfloat16, int8, four_bit, grouped };
inline constexpr std::int64_t kInt8Columns = 64;        // bytes of a row of a strip
inline constexpr float kInt8Unit = 1.0F / (127 * 127);  // times both absmax: the value of a product of codes

// Where the int8 code of input k of output j lies in its panel.
constexpr std::int64_t int8_offset(std::int64_t k, std::int64_t j) {
  return k / 4 * (4 * kPanel) + j * 4 + k % 4;
}

// out[rows, n] = activation(x * w^T + bias), or += .
struct LinearArgs {
  const float* x;  // [rows, k], rows x_stride apart; null where x_tiles are given
  std::int64_t x_stride;
  Tiles x_tiles;  // for linear_tiles alone
  std::int64_t rows, k;
  const void* w;
  Packing packing;
  int planes;         // planes of w; with n > 1 linear_tiles sums the products i, j of planes with i + j < n
  const float* bias;  // [n] or null
  Activation activation;
  bool adds;
  bool is_rounded = false;  // outputs become bfloat16 or bytes next: the activation need be no finer
  float* y;                 // [rows, n], rows y_stride apart; null where only y_tiles are wanted
  std::int64_t y_stride;
  Tiles y_tiles;  // written by the tables that use tiles
  std::int64_t n;
  std::int64_t first_panel, panels;  // the part of the outputs to compute
  WeightFetch fetch = {};            // for weights that a few rows pass once
};

// Rows of float32 to int8. The dequantized value of a code is absmax / 127 * (code - zero point).
//   symmetric   zero_points null, fixed_scale 0: codes = rint(x * (127 / absmax)), of each row's magnitudes
//   row ranges  zero_points given: scale = (high - low) / 255 of each row's range, zero included;
//               zero_points[row] = rint(-low * (1 / scale)) - 128; codes = rint(x * (1 / scale)) +
//               zero_points[row]; absmax = 127 * scale. A range below 1e-35 is none: scale, zero point and
//               codes 0.
//   fixed       fixed_scale > 0: the same with a scale and a zero point that are known beforehand, which goes
//               to zero_points too where they are given
// Codes are clamped to -128 and 127 and are zero beyond k. The absmax of a row with NaN or infinity is NaN.
struct QuantizeArgs {
  const float* x;  // null where x_tiles are given
  std::int64_t x_stride;
  Tiles codes;  // as bytes: strips of 64 columns, [k_padded / 64][rows][64]
  std::int64_t first_row, rows, k;
  float* absmax;  // [first_row + rows]
  // Of llm_int8, symmetric: inputs are rounded to float16, an element of threshold or more counts for
  // nothing, and columns that are marked become zero. An infinite threshold: one beyond 65504 is infinite.
  float threshold = 0;                       // 0 = off
  const std::uint8_t* is_outlier = nullptr;  // [k], or null
  const float* factors = nullptr;            // [k]: what inputs are multiplied by first; null: 1
  std::int32_t* zero_points = nullptr;       // [first_row + rows], written; or null
  float fixed_scale = 0;
  std::int32_t fixed_zero_point = 0;
  Tiles x_tiles = kNoTiles;  // bfloat16, of tables that use tiles; k at most kMaxTileInputs
};
inline constexpr std::int64_t kMaxTileInputs = 16384;
// The code of a row, from its range, which holds zero.
struct RowCode {
  float scale, inverse;
  std::int32_t zero_point;
};
[[gnu::always_inline]] inline RowCode row_code(float low, float high) {
  const float range = high - low;
  if (!(range >= 1e-35F)) return {0, 0, 0};
  if (range == __builtin_huge_valf()) return {__builtin_nanf(""), 0, 0};
  const float scale = range / 255.0F, inverse = 1.0F / scale;
  constexpr float kRounder = 12582912.0F;  // adding and taking it away rounds, ties to even
  return {scale, inverse, static_cast<std::int32_t>(-low * inverse + kRounder - kRounder) - 128};
}

// out[rows, n] from int8 inputs, less their zero points, and weights: (sum * (absmax of the row * absmax of
// the output)) / 127^2, and what columns of outliers add: x[row, c] * code * absmax of the output / 127.
// Bias, activation and residual as in `to`, whose x holds the inputs as floats for those columns.
struct Int8Args {
  LinearArgs to;  // x_tiles: codes as QuantizeArgs has them; w: Packing::int8
  const float* x_absmax;
  const float* w_absmax;         // [panels * 16]
  const std::int32_t* w_sums;    // [panels * 16]: the sum of an output's codes
  const std::int32_t* x_zero;    // [rows]: zero points of the inputs' codes; null: 0
  const std::int32_t* outliers;  // columns, ascending
  std::int64_t outlier_count;
};

// Scales of 4-bit codes: [panels][k_padded / group][16], float32; or bfloat16, where that holds them exactly.
struct BlockScales {
  const void* data;
  bool are_bfloat16;

  [[gnu::always_inline]] BlockScales from(std::int64_t i) const {
    return {static_cast<const std::byte*>(data) + i * bytes(), are_bfloat16};
  }
  [[gnu::always_inline]] std::int64_t bytes() const { return are_bfloat16 ? 2 : 4; }  // that one takes
};

// 4-bit codes of some panels to weights in float32 or bfloat16, packed: book[code] * scale.
// `group` is a power of two.
struct ExpandArgs {
  const std::uint8_t* codes;  // the first panel's
  BlockScales scales;         // the first panel's
  const float* codebook;      // [16]
  std::int64_t k, k_padded, group, panels;
  Packing packing;  // float32 [panels][k][16] or bfloat16
  void* out;
  WeightFetch fetch = {};
};

// Few rows times 4-bit codes as they are: the bits of float32 panels from `expand` and `linear`.
struct FourBitArgs {
  LinearArgs to;       // x in floats; w is not read
  ExpandArgs weights;  // those of all panels; packing and out are not read
};
inline constexpr std::int64_t kFourBitRows = 2;
inline constexpr std::int64_t kMinCodedGroup = 16, kMaxCodedGroup = 256;  // for inputs in int8

// Rows as int8 with a scale for each group of inputs, beside 4-bit weights.
struct CodedRows {
  std::int8_t* codes;  // strips of 64 inputs, [k_padded / 64, rounded up][capacity][64]; zero beyond k
  float* scales;       // [k_padded / group, rounded up][capacity]: absmax / 127 * unit
  // The same: what the sums of a group start at in the products of the table that coded the rows.
  std::int32_t* starts;
  std::int64_t capacity;  // rows

  std::int64_t strip() const { return capacity * kInt8Columns; }  // bytes from one strip to the next
  std::int64_t offset(std::int64_t row, std::int64_t k) const {
    return k / kInt8Columns * strip() + row * kInt8Columns + k % kInt8Columns;
  }
};

// Rows to int8: codes = rint(x * (127 / absmax of the group)). Of a row with NaN or infinity all scales are
// NaN.
struct QuantizeGroupsArgs {
  const float* x;  // null where x_tiles are given
  std::int64_t x_stride;
  Tiles x_tiles;
  std::int64_t first_row, rows, k, k_padded, group;  // group: a power of two, at least 16
  float unit;                                        // that the weights' values have as bytes
  CodedRows out;
};

// Rows of int8 inputs times 4-bit codes, whose values are held as bytes: for each group of inputs an exact
// sum of products, times scale of the inputs * scale of the weights; the groups are added by one chain of
// multiply-adds.
struct Int8ActivationsArgs {
  LinearArgs to;                // x and w are not read
  ExpandArgs weights;           // those of all panels, group of 16 to 256; book, packing and out are not read
  const std::int8_t* codebook;  // [16]: the dequantized values of codes, in units
  CodedRows x;                  // row 0 is that of `to`
  std::byte* scratch;  // memory of coded_scratch_bytes(to.rows), 64-byte aligned; null for one or two rows
};
// Panels of a call that has scratch memory, at most; and inputs whose weights become bytes at a time.
inline constexpr std::int64_t kCodedPanels = 4, kCodedInputs = 8 * kInt8Columns;
constexpr std::int64_t coded_scratch_bytes(std::int64_t rows) {
  return kCodedPanels * kPanel * (kCodedInputs + rows * 4);
}

struct NormArgs {
  const float* x;
  std::int64_t x_stride;
  const float* gain;  // [n]
  const float* bias;  // [n] or null
  float epsilon;
  bool subtracts_mean;
  float* y;  // null where only y_tiles are wanted
  std::int64_t y_stride;
  Tiles y_tiles;  // as above; row 0 of them is first_tile_row
  std::int64_t first_tile_row;
  std::int64_t rows, n;
};

// Rotary position embedding in place: of each pair (a, b) of a head, a * cosine - b * sine and b * cosine + a
// * sine.
struct RotateArgs {
  float* x;  // [rows][heads * head_dim], rows x_stride apart
  std::int64_t x_stride;
  std::int64_t rows, heads, head_dim;
  RotaryPairing pairing;
  std::int64_t pairs;            // in each head the first 2 * pairs elements
  const float *cosines, *sines;  // [rows][pairs], of each row's position
};

// y[rows, n] = activation(gate) * up.
struct GateArgs {
  const float *gate, *up;  // [rows, n], rows x_stride apart
  std::int64_t x_stride;
  Activation activation;
  bool is_rounded;  // outputs become bfloat16 or bytes next: the activation need be no finer
  float* y;         // null where only y_tiles are wanted
  std::int64_t y_stride;
  Tiles y_tiles;  // row 0 goes to first_tile_row, column 0 to first_tile_column, a multiple of 16
  std::int64_t first_tile_row, first_tile_column;
  std::int64_t rows, n;
};

// Keys and values of one head in a block of 64 positions.
//   float32:  keys [head_dim][64] (position last), values [64][padded], padded = head_dim rounded up to 16
//   bfloat16: keys 4 panels of 16 positions, each [dim_padded / 2][16][2], dim_padded = head_dim rounded
//             up to 32; values padded / 16 panels of 16 dimensions, each [32][16][2], pairs of positions; all
//             that is not held is zero. Both are in the order of the packed weights.
//   int8:     keys [head_dim][64], values [64][padded], of codes; behind each the scales of its codes, a
//             float32 per position, [64]. Beyond head_dim values are zero.
struct KvShape {
  std::int64_t head_dim;
  std::int64_t padded() const { return round_up(head_dim, kPanel); }
  std::int64_t dim_padded() const { return round_up(head_dim, kTileColumns); }
};

// Causal attention of some rows of one head of one sequence; or of one position's heads that share keys and
// values, as rows: the keys are then read once for all of them.
struct AttendArgs {
  const float* q;  // [rows, head_dim]; null where q_tiles are given (tables that use tiles, a bfloat16 cache)
  std::int64_t q_stride;
  Tiles q_tiles;                // row 0 is first_tile_row, as of the output
  std::int64_t q_first_column;  // a multiple of 32, and so is head_dim
  std::int64_t rows;
  bool rows_are_heads = false;  // the output's tiles are then side by side; queries are floats
  std::int64_t first_position;  // the position of row 0: it sees keys up to this one
  std::int64_t first_key;       // keys before it are not seen
  std::int64_t window;          // 0 = none
  KvShape shape;
  float scale;
  // Scores become soft_cap * tanh(score / soft_cap), 0 = none; then a row's slope * (key - its position) is
  // added. Queries of such scores are floats.
  float soft_cap = 0;
  const float* alibi_slopes = nullptr;  // null: none; otherwise one, or one of each row that is a head
  const void* const* blocks;            // per 64 positions
  std::int64_t k_offset,
      v_offset;  // where this head and layer begin in a block, in elements, of int8 in bytes
  std::int64_t next_k_offset = 0;  // the place of the head that the caller attends next; 0: unknown
  float* out;                      // [rows, head_dim]; null where only tiles are wanted
  std::int64_t out_stride;
  Tiles out_tiles;  // row 0 goes to first_tile_row, first_tile_column
  std::int64_t first_tile_row, first_tile_column;
  WeightFetch fetch = {};  // for keys and values

  [[gnu::always_inline]] bool has_score_modifiers() const { return soft_cap != 0 || alibi_slopes != nullptr; }
  // What a row has: its position, its slope, and where its output's tiles begin.
  [[gnu::always_inline]] std::int64_t position_of(std::int64_t row) const {
    return first_position + (rows_are_heads ? 0 : row);
  }
  [[gnu::always_inline]] float slope_of(std::int64_t row) const {
    return alibi_slopes == nullptr ? 0.0F : alibi_slopes[rows_are_heads ? row : 0];
  }
  [[gnu::always_inline]] std::int64_t tile_row_of(std::int64_t row) const {
    return first_tile_row + (rows_are_heads ? 0 : row);
  }
  [[gnu::always_inline]] std::int64_t tile_column_of(std::int64_t row) const {
    return first_tile_column + (rows_are_heads ? row * shape.head_dim : 0);
  }
};

inline constexpr std::int64_t kInt8ScaleBytes = 64 * 4;  // what holds the scales of 64 positions

// Puts the keys and values of consecutive positions of one head into a bfloat16 or an int8 cache. int8: a
// scale of largest / 127 for each key and each value, codes = rint(x * (127 / largest)); all 0 where the
// largest magnitude is below 1e-35. One that is not finite makes the scale NaN.
struct StoreArgs {
  const float *k, *v;  // [rows, head_dim], stride apart; null where a bfloat16 cache is given tiles
  std::int64_t stride;
  Tiles tiles;  // keys and values from first_tile_row on, at columns that are multiples of 32, as is head_dim
  std::int64_t first_tile_row, k_column, v_column;
  std::int64_t rows;
  std::int64_t first_position;
  KvShape shape;
  void* const* blocks;
  std::int64_t k_offset, v_offset;
};

// Which panels of outputs may hold the highest of all, where each is known to a bound: x_norm *
// error_norms[i] + x_error * code_norms[i].
struct CandidateArgs {
  const float *outputs, *code_norms, *error_norms;  // [n]
  std::int64_t n;
  float x_norm, x_error;
  std::uint8_t* marks;  // [n / 16, rounded up]: written, 1 where it may
};

struct KernelTable {
  void (*linear)(const LinearArgs&) noexcept;        // x in float32
  void (*linear_tiles)(const LinearArgs&) noexcept;  // x in tiles, w in bfloat16
  void (*norm)(const NormArgs&) noexcept;
  void (*rotate)(const RotateArgs&) noexcept;
  void (*gate)(const GateArgs&) noexcept;
  void (*attend)(const AttendArgs&) noexcept;           // float32 cache
  void (*attend_bfloat16)(const AttendArgs&) noexcept;  // bfloat16 cache
  void (*attend_int8)(const AttendArgs&) noexcept;      // int8 cache; queries in float32
  void (*store_bfloat16)(const StoreArgs&) noexcept;
  void (*store_int8)(const StoreArgs&) noexcept;  // keys and values in float32
  void (*quantize)(const QuantizeArgs&) noexcept;
  void (*linear_int8)(const Int8Args&) noexcept;
  void (*expand)(const ExpandArgs&) noexcept;
  void (*linear_four_bit)(const FourBitArgs&) noexcept;
  void (*expand_grouped)(const struct ExpandGroupedArgs&) noexcept;  // grouped_codes.h
  // kFourBitRows rows at most; null in a table that expands for them too.
  void (*linear_grouped)(const struct LinearGroupedArgs&) noexcept;
  void (*quantize_grouped)(const struct QuantizeGroupedArgs&) noexcept;  // beside grouped codes
  void (*linear_grouped_int8)(const struct GroupedInt8Args&) noexcept;
  std::int64_t four_bit_rows;  // up to so many rows it is faster than expand and linear
  void (*quantize_groups)(const QuantizeGroupsArgs&) noexcept;
  void (*linear_coded_inputs)(const Int8ActivationsArgs&) noexcept;
  // After the attend calls of a task: lets go of what the processor keeps between them (tiles).
  void (*end_attending)() noexcept;
  void (*mark_candidates)(const CandidateArgs&) noexcept;
  // x = scale * x of n floats, then soft_cap * tanh(x / soft_cap) where there is a cap.
  void (*bend_logits)(float* x, std::int64_t n, float scale, float soft_cap) noexcept;
  // Index of the largest of n floats, the lowest of equals; -1 where one is NaN or the largest infinite.
  std::int64_t (*argmax)(const float* x, std::int64_t n) noexcept;
  // log(sum(exp(x))) of n floats, summed in double; NaN where argmax has none.
  double (*log_sum_exp)(const float* x, std::int64_t n) noexcept;
  const LogitReducer* logits;  // in slices
  // Where each comes from, for listings.
  const char *linear_origin, *linear_tiles_origin, *norm_origin, *attend_origin, *attend_bfloat16_origin,
      *attend_int8_origin, *store_origin, *store_int8_origin, *argmax_origin, *log_sum_exp_origin,
      *int8_origin, *expand_origin, *rotate_origin, *gate_origin;
  // Products of bfloat16 weights run on tiles, and the norm, linear and attention kernels write them.
  bool uses_tiles;
};

inline constexpr std::int64_t kKvBlockPositions = 64;  // in one block of the cache (backend.h: kKvBlock)
// Rows of one attend call at most: they share each block of keys while it is in the nearest cache.
inline constexpr std::int64_t kAttendRows = 48;
inline constexpr std::int64_t kMaxHeadDim = 512;

namespace scalar {
void fill(KernelTable& table);
}
namespace avx2 {
void fill(KernelTable& table);
}
namespace avx2_vnni {
void fill(KernelTable& table);
}
namespace avx512 {
void fill(KernelTable& table);
}
namespace avx512_vnni {
void fill(KernelTable& table);
}
namespace avx512bf16 {
void fill(KernelTable& table);
}
namespace amx {
void fill(KernelTable& table);
}

}  // namespace assay::cpu
