// Kernels for processors with AVX-512 BF16 (Zen 4 and 5, Cooper Lake): products of bfloat16 by vdpbf16ps; the
// others are those of AVX-512 with VNNI. Compiled with its own flags, called only after the CPU check.
#include "assay/backend/cpu/kernels/grouped_codes.h"

#include <immintrin.h>

extern "C" double log(double) noexcept;

// What is called per vector: a call costs as much as the work.
#define ASSAY_INLINE [[gnu::always_inline]] inline

namespace assay::cpu::avx512bf16 {

namespace {

#include "assay/backend/cpu/kernels/simd/vec512-inl.h"

#include "assay/backend/cpu/kernels/simd/float32_chunk512-inl.h"
// Its loops are used there, and products of pairs in attention.
#define ASSAY_HAS_PAIR_PRODUCTS
#include "assay/backend/cpu/kernels/simd/all_kernels-inl.h"
// These need it.
#include "assay/backend/cpu/kernels/simd/tiles512-inl.h"

// Queries that are tiles become floats: exactly what they were rounded to.
void attend_bfloat16_tiles(const AttendArgs& args) noexcept {
  if (args.q != nullptr) return attend_bfloat16(args);
  alignas(64) float queries[kAttendRows * kMaxHeadDim];
  AttendArgs of_floats = args;
  of_floats.q = queries;
  of_floats.q_stride = args.shape.head_dim;
  for (std::int64_t row = 0; row < args.rows; ++row)
    for (std::int64_t i = 0; i < args.shape.head_dim; i += kPanel)
      Vec::load_bfloat16(args.q_tiles.data +
                         args.q_tiles.offset(args.first_tile_row + row, args.q_first_column + i))
          .store(queries + row * args.shape.head_dim + i);
  attend_bfloat16(of_floats);
}

}  // namespace

void fill(KernelTable& table) {
  table.norm = norm;
  table.gate = gate;
  table.expand = expand;
  table.linear_tiles = linear_pairs;
  table.attend_bfloat16 = attend_bfloat16_tiles;
  table.attend_int8 = attend_int8;
  table.store_bfloat16 = store_bfloat16_tiles;
  table.quantize = quantize_tiles;
  table.norm_origin = table.gate_origin = table.expand_origin = table.linear_tiles_origin =
      table.attend_bfloat16_origin = table.attend_int8_origin = table.store_origin = "avx512bf16";
  table.uses_tiles = true;
}

}  // namespace assay::cpu::avx512bf16
