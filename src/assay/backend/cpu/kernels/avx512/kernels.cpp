// AVX-512 (F, BW, DQ, VL) kernels in float32. Compiled with its own flags, called only after the CPU check.
#include "assay/backend/cpu/kernels/grouped_codes.h"

#include <immintrin.h>

extern "C" double log(double) noexcept;

// What is called per vector: a call costs as much as the work.
#define ASSAY_INLINE [[gnu::always_inline]] inline

namespace assay::cpu::avx512 {

namespace {

#include "assay/backend/cpu/kernels/simd/vec512-inl.h"

#include "assay/backend/cpu/kernels/simd/float32_chunk512-inl.h"
// Its loops are used there.
#include "assay/backend/cpu/kernels/simd/all_kernels-inl.h"

}  // namespace

void fill(KernelTable& table) {
  fill_all(table, "avx512");
}

}  // namespace assay::cpu::avx512
