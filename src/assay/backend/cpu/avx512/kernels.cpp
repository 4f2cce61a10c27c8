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

double log_of(double x) {
  return ::log(x);
}

#include "assay/backend/cpu/simd/float32_chunk512.h"

#include "assay/backend/cpu/simd/float32_kernels.h"
#include "assay/backend/cpu/simd/quantized_kernels.h"
#include "assay/backend/cpu/simd/store_bfloat16.h"

}  // namespace

void fill(KernelTable& table) {
  table.linear = linear;
  table.chunks_inputs = true;
  table.norm = norm;
  table.attend = attend;
  table.attend_bfloat16 = attend_bfloat16;
  table.attend_int8 = attend_int8;
  table.store_int8 = store_int8;
  table.store_bfloat16 = store_bfloat16;
  table.quantize = quantize;
  table.linear_int8 = linear_int8;
  table.expand = expand;
  table.linear_four_bit = linear_four_bit;
  table.quantize_groups = quantize_groups;
  table.linear_coded_inputs = linear_coded_inputs;
  table.argmax = argmax;
  table.log_sum_exp = log_sum_exp;
  table.linear_origin = table.norm_origin = table.attend_origin = table.attend_bfloat16_origin =
      table.attend_int8_origin = table.store_int8_origin = table.store_origin = table.argmax_origin =
          table.log_sum_exp_origin = table.int8_origin = table.expand_origin =
              ASSAY_NAME_OF(ASSAY_AVX512_TIER);
}

}  // namespace assay::cpu::ASSAY_AVX512_TIER
