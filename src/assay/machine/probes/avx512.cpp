// Probes of AVX-512 with its VNNI and BF16 extensions. Product loops are written in assembler: no compiler
// can put a spill into them.
#include <immintrin.h>

#include "assay/machine/probes/probes.h"

namespace assay::probes::avx512 {

namespace {

struct Vec {
  __m512i v;
  static Vec load(const std::byte* p) { return {_mm512_load_si512(p)}; }
  friend Vec operator|(Vec a, Vec b) { return {_mm512_or_si512(a.v, b.v)}; }
  std::uint64_t low() const {
    return static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm512_castsi512_si128(v)));
  }
};

#include "assay/machine/probes/read_loop-inl.h"

// `rounds` rounds of one instruction on 24 independent sums, which cover the latency of two units.
#define ASSAY_PRODUCT_LOOP(instruction, factor)                                                            \
  __asm__ volatile(                                                                                        \
      "vpbroadcastd %[value], %%zmm24\n\t"                                                                 \
      "vmovdqa64 %%zmm24, %%zmm25\n\t"                                                                     \
      ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n\t"                           \
      "vpxord %%zmm\\n, %%zmm\\n, %%zmm\\n\n\t.endr\n\t"                                                   \
      "1:\n\t"                                                                                             \
      ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n\t" instruction               \
      " %%zmm24, %%zmm25, %%zmm\\n\n\t.endr\n\t"                                                           \
      "dec %[rounds]\n\t"                                                                                  \
      "jnz 1b\n\t"                                                                                         \
      "vzeroupper"                                                                                         \
      : [rounds] "+r"(rounds)                                                                              \
      : [value] "m"(factor)                                                                                \
      : "cc", "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10",     \
        "zmm11", "zmm12", "zmm13", "zmm14", "zmm15", "zmm16", "zmm17", "zmm18", "zmm19", "zmm20", "zmm21", \
        "zmm22", "zmm23", "zmm24", "zmm25")

void run_float32(std::int64_t rounds) noexcept {
  const float factor = 0x1p-10f;
  ASSAY_PRODUCT_LOOP("vfmadd231ps", factor);
}

void run_vnni(std::int64_t rounds) noexcept {
  const std::uint32_t bytes = 0x01020304;
  ASSAY_PRODUCT_LOOP("vpdpbusd", bytes);
}

void run_bfloat16(std::int64_t rounds) noexcept {
  const std::uint32_t halves = 0x3c803c80;  // 2^-6 twice
  ASSAY_PRODUCT_LOOP("vdpbf16ps", halves);
}

#undef ASSAY_PRODUCT_LOOP

}  // namespace

Loops loops() {
  return {read, {run_float32, 24 * 16 * 2}, {run_vnni, 24 * 64 * 2}, {run_bfloat16, 24 * 32 * 2}};
}

}  // namespace assay::probes::avx512
