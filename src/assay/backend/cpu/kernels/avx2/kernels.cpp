// AVX2 and FMA kernels. Compiled with its own flags, called only after the CPU check.
#include "assay/backend/cpu/kernels/grouped_codes.h"

#include <immintrin.h>

extern "C" double log(double) noexcept;

// What is called per vector: a call costs as much as the work.
#define ASSAY_INLINE [[gnu::always_inline]] inline

namespace assay::cpu::avx2 {

namespace {

#include "assay/backend/cpu/kernels/simd/vec256-inl.h"

#include "assay/backend/cpu/kernels/simd/float32_chunk256-inl.h"
// Their vectors and loops are used there.
#include "assay/backend/cpu/kernels/simd/all_kernels-inl.h"

}  // namespace

void fill(KernelTable& table) {
  fill_all(table, "avx2");
}

}  // namespace assay::cpu::avx2
