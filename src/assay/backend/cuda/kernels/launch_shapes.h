// How many blocks and threads a launch takes.
#pragma once

#include <optional>

#include "assay/backend/cuda/kernels/kernels.h"

namespace assay::cuda {

inline constexpr std::int64_t kThreads = 256;

inline std::uint32_t count_of(std::int64_t n) {
  return static_cast<std::uint32_t>(n);
}
inline std::uint32_t blocks_of(std::int64_t n, std::int64_t unit) {
  return count_of((n + unit - 1) / unit);
}

// Bytes of partial sums, as kernels/linear.cuh lays them out: [8][rows][17].
inline std::uint32_t partial_bytes(std::int64_t rows) {
  return count_of(8 * rows * 17 * 4);
}

// A row or an operation of nothing launches nothing.
template <typename Args>
void launch_rows(Runtime& runtime, const Kernel<Args>& kernel, const Args& args, std::int64_t n) {
  if (args.rows == 0 || n == 0) return;
  launch(runtime, kernel,
         {.grid_x = blocks_of(n, kThreads), .grid_y = count_of(args.rows), .block = count_of(kThreads)},
         args);
}

// A block per row, with shared memory for a value of each warp.
inline constexpr std::uint32_t kReduceBytes = 32 * 8;
template <typename Args>
void launch_blocks(Runtime& runtime, const Kernel<Args>& kernel, const Args& args, std::int64_t blocks) {
  if (blocks == 0) return;
  launch(runtime, kernel,
         {.grid_x = count_of(blocks), .block = count_of(kThreads), .shared_bytes = kReduceBytes}, args);
}

inline constexpr std::int64_t kSmallTile = 64, kRangesOfSums = 8;

// Which blocks a multiplication of many rows takes. Bits do not depend on it.
struct GemmShape {
  int size = 0;  // one of kGemmSizes
  std::int64_t outputs = kSmallTile, rows = kSmallTile, blocks = 0;
  bool is_split = false;  // a block has one range of the inputs
};
GemmShape gemm_shape(std::int64_t rows, const Matrix& weight, int processors, const LaunchChoice& choice);

// Whether each warp has strips of its own, where a kernel has that; by the rule where they are as many as a
// vocabulary's.
bool have_own_strips(const Runtime& runtime, const Matrix& weight, const LaunchChoice& choice);
// Whether a block keeps all rows, 17 to 64 of 16 bits without a gate, and takes strip after strip; and the
// shared memory it takes.
bool are_rows_staged(const Runtime& runtime, const Matrix& weight, std::int64_t rows,
                     const LaunchChoice& choice);
std::uint32_t staged_bytes(const Matrix& weight, std::int64_t rows);
// Bytes of the tables of code pairs (CodesBy).
inline constexpr std::uint32_t kBankTables = 256 * 32 * 4, kSpacedTables = 2 * kBankTables;
// How codes of few rows become operands: as chosen where rows, codebook and shared memory allow it.
CodesBy codes_by(const Runtime& runtime, const Matrix& weight, std::int64_t rows, const LaunchChoice& choice);
// A product of rows in order, whose gate is checked, and the rows in scratch memory, as what is in front of
// the product makes them.
OrderedArgs ordered_product(const LinearArgs& args, Arithmetic arithmetic);
void put_in_order(Runtime& runtime, const LinearArgs& args, Arithmetic arithmetic, OrderedArgs& product);
// Puts the rows into order in scratch memory, or lets each block norm them, and multiplies them.
// `table_bytes`: of shared memory, of 4-bit codes.
void run_ordered(Runtime& runtime, const LinearArgs& args, Arithmetic arithmetic,
                 const OrderedKernels& kernels, std::uint32_t table_bytes, const LaunchChoice& choice);
// Products by grouped codes in 16 bits.
void run_grouped(Runtime& runtime, const LinearArgs& args);

// The kernels of many rows, of codes that are not in order; false where they take none of this shape.
bool run_gemm_int8(Runtime& runtime, const LinearInt8Args& args, const LaunchChoice& choice);

// The kernel of one row, and its blocks: each an SM has two of, or three where they are wide, and takes strip
// after strip, or each of its warps does. Bits do not depend on it.
struct CodedRowShape {
  bool is_wide = false, has_own_strips = false;
  std::uint32_t blocks = 0, shared_bytes = 0;
};
// Nothing where the row, or what is in front of it, takes other kernels.
std::optional<CodedRowShape> coded_row_shape(const Runtime& runtime, const QuantizedLinearArgs& args,
                                             const LaunchChoice& choice);
// Whether blocks can make the codes of the rows themselves; whether they do, where nothing is chosen, is
// makes_codes().
bool can_make_codes(const Runtime& runtime, const QuantizedLinearArgs& args);
bool makes_codes_by_rule(const QuantizedLinearArgs& args);

}  // namespace assay::cuda
