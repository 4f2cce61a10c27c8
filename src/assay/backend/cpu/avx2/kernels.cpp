// AVX2 and FMA kernels. Compiled with its own flags, called only after the CPU check. vnni.cpp compiles them
// again as another tier.
#include "assay/backend/cpu/kernels.h"

#include <immintrin.h>

extern "C" double log(double) noexcept;

// What is called per vector: a call costs as much as the work.
#define ASSAY_INLINE [[gnu::always_inline]] inline

#if !defined(ASSAY_AVX2_TIER)
#define ASSAY_AVX2_TIER avx2
#endif
#define ASSAY_TEXT_OF(name) #name
#define ASSAY_NAME_OF(name) ASSAY_TEXT_OF(name)

namespace assay::cpu::ASSAY_AVX2_TIER {

namespace {

#include "assay/backend/cpu/simd/vec256.h"

#include "assay/backend/cpu/simd/float32_chunk256.h"
// Their vectors and loops are used there.
#include "assay/backend/cpu/simd/all_kernels.h"

}  // namespace

void fill(KernelTable& table) {
  fill_all(table);
  name_all(table, ASSAY_NAME_OF(ASSAY_AVX2_TIER));
}

}  // namespace assay::cpu::ASSAY_AVX2_TIER
