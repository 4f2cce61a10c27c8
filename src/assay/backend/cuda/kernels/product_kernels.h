// The kernels of a matrix multiplication, by how many rows a block takes and what it makes of them.
#pragma once

#include "assay/backend/cuda/kernels/linear_args.h"

namespace assay::cuda {

// Entries for each number of columns of 8 rows that a block takes: 1, 2, 4, 8.
inline constexpr int kRowBlocks = 4;
// For many rows one for blocks of 64 outputs x 64 rows and one for 128 x 128, of 4-bit codes 128 x 64.
inline constexpr int kGemmSizes = 2;
// A product of rows in order, by 8, 16, 32 or 64 of them; with a gate by 8, 16 or 32; and of up to 8 rows
// that each block norms. `wide` where so many blocks share a processor that each has few loads on its way.
struct OrderedKernels {
  Kernel<OrderedArgs> rows[kRowBlocks], gated[kRowBlocks - 1], normed, normed_gated;
  Kernel<OrderedArgs> wide, wide_gated, wide_normed, wide_normed_gated;
  Kernel<OrderedArgs> staged[2];   // 32 and 64 rows that a block keeps; of 16-bit matrices alone
  Kernel<OrderedArgs> own_normed;  // each warp has strips of its own; 4-bit codes by a table alone
};
// By grouped codes, by 8, 32 or 64 rows, and with a gate by 8 or 32; one for each kind of codes.
struct GroupedKernels {
  Kernel<OrderedArgs> rows[3], gated[2];
};
inline constexpr struct GroupedKind {
  int bits;
  bool has_book;
} kGroupedKinds[] = {{8, false}, {6, false}, {5, false}, {4, false}, {4, true}, {3, false}, {2, false}};
inline constexpr int kGroupedKindCount = sizeof kGroupedKinds / sizeof *kGroupedKinds;

}  // namespace assay::cuda
