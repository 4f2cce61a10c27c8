// The kernels of processors with AVX-VNNI, by the same instruction of AVX-512 on 256 bits: so that they are
// tested where AVX-VNNI is not there. Compiled with flags of its own.
#define ASSAY_VNNI_OF_AVX512
#include "assay/backend/cpu/kernels/grouped_codes.h"

#include <immintrin.h>

extern "C" double log(double) noexcept;

#define ASSAY_INLINE [[gnu::always_inline]] inline

namespace assay::cpu::avx2_vnni_of_avx512 {

namespace {

#include "assay/backend/cpu/kernels/simd/vec256-inl.h"

#include "assay/backend/cpu/kernels/simd/float32_chunk256-inl.h"
// Their vectors and loops are used there.
#include "assay/backend/cpu/kernels/simd/all_kernels-inl.h"

}  // namespace

void fill(KernelTable& table) {
  fill_byte_products(table, "avx2_vnni_of_avx512");
}

}  // namespace assay::cpu::avx2_vnni_of_avx512
