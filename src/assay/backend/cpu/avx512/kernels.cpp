// AVX-512 (F, BW, DQ, VL) kernels in float32. Compiled with its own flags, called only after the CPU check.
#include "assay/backend/cpu/kernels.h"

#include <immintrin.h>

extern "C" double log(double) noexcept;

namespace assay::cpu::avx512 {

namespace {

struct Vec {
  static constexpr int kWidth = 16, kRegisters = 32;
  __m512 v;
  static Vec set(float x) { return {_mm512_set1_ps(x)}; }
  static Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Vec load(const std::uint16_t* p) {  // bfloat16
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }
  static __mmask16 mask(std::int64_t n) { return static_cast<__mmask16>((1u << n) - 1u); }
  static Vec load_n(const float* p, std::int64_t n) { return {_mm512_maskz_loadu_ps(mask(n), p)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store_n(float* p, std::int64_t n) const { _mm512_mask_storeu_ps(p, mask(n), v); }
  static Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  static Vec add(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
  static Vec sub(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
  static Vec mul(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
  static Vec div(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
  static Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
  static Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
  static Vec sqrt(Vec a) { return {_mm512_sqrt_ps(a.v)}; }
  static Vec round(Vec a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  static Vec scale_by_power(Vec a, Vec n) { return {_mm512_scalef_ps(a.v, n.v)}; }
  static Vec select_less(Vec a, Vec b, Vec x, Vec y) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
  }
  static Vec nan_from(Vec a, Vec x) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), x.v, a.v)};
  }
};

double log_of(double x) {
  return ::log(x);
}

#include "assay/backend/cpu/simd/float32_kernels.h"

}  // namespace

void fill(KernelTable& table) {
  table = {linear, norm, attend, argmax, log_sum_exp, "avx512", "avx512", "avx512", "avx512", "avx512"};
}

}  // namespace assay::cpu::avx512
