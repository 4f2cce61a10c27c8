// Products of bytes for processors that have an instruction for them (AVX-VNNI): the other kernels of
// the tier are those of kernels.cpp, and nothing of them is compiled here.
#include "assay/backend/cpu/kernels/grouped_codes.h"

#include <immintrin.h>

extern "C" double log(double) noexcept;

// What is called per vector: a call costs as much as the work.
#define ASSAY_INLINE [[gnu::always_inline]] inline

namespace assay::cpu::avx2_vnni {

namespace {

#include "assay/backend/cpu/kernels/simd/vec256-inl.h"

#include "assay/backend/cpu/kernels/simd/float32_chunk256-inl.h"
// Their vectors and loops are used there.
#include "assay/backend/cpu/kernels/simd/all_kernels-inl.h"

}  // namespace

void fill(KernelTable& table) {
  fill_byte_products(table, "avx2_vnni");
}

}  // namespace assay::cpu::avx2_vnni
