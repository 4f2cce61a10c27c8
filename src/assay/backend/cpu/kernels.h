// The table of CPU kernels. `scalar` fills it completely; each ISA replaces what it improves.
//
// The order of every sum depends on the operation, the format and the ISA alone, never on the number of rows,
// on threads or on neighbours in the batch: one fused multiply-add chain along K for each output, lanes
// across outputs, attention in blocks of 64 keys. Results are therefore equal bit for bit across batch sizes,
// thread counts and cached or recomputed prefixes.
#pragma once

#include <cstdint>

#include "assay/backend/plan.h"

namespace assay::cpu {

inline constexpr int kPanel = 16;  // outputs per panel of a packed matrix
inline constexpr int kGroup = 4;   // panels walked together: four streams from memory

// out[rows, n] = activation(x * w^T + bias), or += . w is packed: panel p holds, for each k, its 16 outputs.
struct LinearArgs {
  const float* x;  // [rows, k], rows x_stride apart
  std::int64_t x_stride, rows, k;
  const void* w;  // [panels, k, 16] of float, or of bfloat16 as uint16
  bool is_bfloat16;
  const float* bias;  // [n] or null
  Activation activation;
  bool adds;
  float* y;  // [rows, n], rows y_stride apart
  std::int64_t y_stride, n;
  std::int64_t first_panel, panels;  // the part of the outputs to compute
};

struct NormArgs {
  const float* x;
  std::int64_t x_stride;
  const float* gain;  // [n]
  const float* bias;  // [n] or null
  float epsilon;
  bool subtracts_mean;
  float* y;
  std::int64_t y_stride, rows, n;
};

// Causal attention of some rows of one head of one sequence. A block of keys is [head_dim, 64] (position
// last), a block of values [64, padded] with padded = head_dim rounded up to 16.
struct AttendArgs {
  const float* q;  // [rows, head_dim]
  std::int64_t q_stride, rows;
  std::int64_t first_position;  // of row 0: it sees keys up to this one
  std::int64_t first_key;       // keys before it are not seen
  std::int64_t window;          // 0 = none
  std::int64_t head_dim, padded;
  float scale;
  const float* const* blocks;       // per 64 positions
  std::int64_t k_offset, v_offset;  // of this head and layer in a block, in floats
  float* out;                       // [rows, head_dim]
  std::int64_t out_stride;
};

struct KernelTable {
  void (*linear)(const LinearArgs&) noexcept;
  void (*norm)(const NormArgs&) noexcept;
  void (*attend)(const AttendArgs&) noexcept;
  // Index of the largest of n floats, the lowest of equals; -1 where one is NaN.
  std::int64_t (*argmax)(const float* x, std::int64_t n) noexcept;
  // log(sum(exp(x))) of n floats, summed in double.
  double (*log_sum_exp)(const float* x, std::int64_t n) noexcept;
  // Where each comes from, for listings.
  const char *linear_origin, *norm_origin, *attend_origin, *argmax_origin, *log_sum_exp_origin;
};

// Positions in one block of the cache (backend.h: kKvBlock).
inline constexpr std::int64_t kKvBlockPositions = 64;
// Rows of one attend call at most: they share each block of keys while it is in the nearest cache.
inline constexpr std::int64_t kAttendRows = 6;
inline constexpr std::int64_t kMaxHeadDim = 512;

namespace scalar {
void fill(KernelTable& table);
}
namespace avx2 {
void fill(KernelTable& table);
}
namespace avx512 {
void fill(KernelTable& table);
}

}  // namespace assay::cpu
