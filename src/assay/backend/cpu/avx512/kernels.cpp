// AVX-512 (F, BW, DQ, VL) kernels in float32. Compiled with its own flags, called only after the CPU check.
// vnni.cpp compiles them again as another tier.
#include "assay/backend/cpu/kernels.h"

#include <immintrin.h>

extern "C" double log(double) noexcept;

// What is called per vector: a call costs as much as the work.
#define ASSAY_INLINE [[gnu::always_inline]] inline

#if !defined(ASSAY_AVX512_TIER)
#define ASSAY_AVX512_TIER avx512
#endif
#define ASSAY_TEXT_OF(name) #name
#define ASSAY_NAME_OF(name) ASSAY_TEXT_OF(name)

namespace assay::cpu::ASSAY_AVX512_TIER {

namespace {

#include "assay/backend/cpu/simd/vec512.h"

#include "assay/backend/cpu/simd/float32_chunk512.h"
// Its loops are used there.
#include "assay/backend/cpu/simd/all_kernels.h"

}  // namespace

void fill(KernelTable& table) {
  fill_all(table);
  name_all(table, ASSAY_NAME_OF(ASSAY_AVX512_TIER));
}

}  // namespace assay::cpu::ASSAY_AVX512_TIER
