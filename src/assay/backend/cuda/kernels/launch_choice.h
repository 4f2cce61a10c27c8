// What a launch of a matrix multiplication may choose without changing a bit of what it computes, as a value.
#pragma once

#include <cstdint>

namespace assay {

// What multiplies many rows. own: kernels whose bits do not depend on the batch. warpgroups:
// kernels/warpgroups.cuh.
enum class GemmKernel { own, warpgroups, cublaslt };

namespace cuda {

inline constexpr std::int8_t kByRule = -1;

// How 4-bit codes become operands of tensor cores. All give the bits of the codebook's entries rounded to the
// type; they differ in instructions and shared memory (docs/kernels/cuda.md counts them).
//   table         pairs of codes in shared memory, once a bank: 32 KiB. The rule
//   spaced_table  the same with entries 256 bytes apart: 64 KiB, half of which is unused. The bytes of an
//                 address are then a code pair and four times the lane, which one instruction puts together
//   integers      codes that stand for code - 8 become mantissas and are subtracted from: no table
enum class CodesBy : std::int8_t { table, spaced_table, integers };

// A member that is kByRule, or names what does not fit the launch, leaves it to the launch's own rule. A new
// member needs a line in `kFields` (launch_choices.cpp) and its values in candidates_of().
struct LaunchChoice {
  std::int8_t loads = kByRule;   // few rows of 16 bits, one by int8: 0 weights far ahead, 1 near, for more
                                 // blocks an SM
  std::int8_t inputs = kByRule;  // few rows: 0 normed or quantized by a kernel in front, 1 in each block
  std::int8_t codes = kByRule;   // 1 to 8 rows of 4-bit codes: how they become operands, a CodesBy
  std::int8_t strips = kByRule;  // few rows of 4-bit codes, 17 to 64 of 16 bits: 0 a block a strip; 1, 2 (of
                                 // codes) so many blocks an SM
  std::int8_t sums = kByRule;    // one row by int8, normed ones by 4-bit codes: 0 a strip's by all warps of a
                                 // block, 1 by one of them
  std::int8_t blocks = kByRule;  // many rows, own kernels: which of kGemmSizes
  std::int8_t ranges = kByRule;  // the same: 0 a block has all ranges of the inputs, 1 one of them
  std::int8_t warpgroups = kByRule;  // which of kWarpgroupBlocks
  std::int8_t kernel = kByRule;      // a GemmKernel; where it may be chosen, the one that changes bits
  bool operator==(const LaunchChoice&) const = default;
};

}  // namespace cuda
}  // namespace assay
