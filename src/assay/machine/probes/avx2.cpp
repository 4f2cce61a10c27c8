// Probes of AVX2 and FMA. Product loops are written in assembler: no compiler can put a spill into them.
#include <immintrin.h>

#include "assay/machine/probes/probes.h"

namespace assay::probes::avx2 {

namespace {

struct Vec {
  __m256i v;
  static Vec load(const std::byte* p) { return {_mm256_load_si256(reinterpret_cast<const __m256i*>(p))}; }
  friend Vec operator|(Vec a, Vec b) { return {_mm256_or_si256(a.v, b.v)}; }
  std::uint64_t low() const {
    return static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm256_castsi256_si128(v)));
  }
};

#include "assay/machine/probes/read_loop-inl.h"

// Twelve independent sums cover the latency of two multiply-add units (4 or 5 cycles) on every processor.
#define ASSAY_PRODUCT_LOOP(instruction, factor)                                                        \
  __asm__ volatile(                                                                                    \
      "vpbroadcastd %[value], %%ymm12\n\t"                                                             \
      "vmovdqa %%ymm12, %%ymm13\n\t"                                                                   \
      ".irp n,0,1,2,3,4,5,6,7,8,9,10,11\n\tvpxor %%ymm\\n, %%ymm\\n, %%ymm\\n\n\t.endr\n\t"            \
      "1:\n\t"                                                                                         \
      ".irp n,0,1,2,3,4,5,6,7,8,9,10,11\n\t" instruction                                               \
      " %%ymm12, %%ymm13, %%ymm\\n\n\t.endr\n\t"                                                       \
      "dec %[rounds]\n\t"                                                                              \
      "jnz 1b\n\t"                                                                                     \
      "vzeroupper"                                                                                     \
      : [rounds] "+r"(rounds)                                                                          \
      : [value] "m"(factor)                                                                            \
      : "cc", "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8", "ymm9", "ymm10", \
        "ymm11", "ymm12", "ymm13")

void run_float32(std::int64_t rounds) noexcept {
  const float factor = 0x1p-10f;
  ASSAY_PRODUCT_LOOP("vfmadd231ps", factor);
}

void run_vnni(std::int64_t rounds) noexcept {
  const std::uint32_t bytes = 0x01020304;
  ASSAY_PRODUCT_LOOP("%{vex%} vpdpbusd", bytes);
}

#undef ASSAY_PRODUCT_LOOP

// Unsigned times signed bytes: pairs are summed to 16 bits, pairs of those to 32, and added.
void run_int8(std::int64_t rounds) noexcept {
  const std::uint32_t bytes = 0x01020304, ones = 0x00010001;
  __asm__ volatile(
      "vpbroadcastd %[bytes], %%ymm12\n\t"
      "vpbroadcastd %[bytes], %%ymm13\n\t"
      "vpbroadcastd %[ones], %%ymm14\n\t"
      ".irp n,0,1,2,3,4,5,6,7\n\tvpxor %%ymm\\n, %%ymm\\n, %%ymm\\n\n\t.endr\n\t"
      "1:\n\t"
      ".irp n,0,1,2,3,4,5,6,7\n\t"
      "vpmaddubsw %%ymm12, %%ymm13, %%ymm15\n\t"
      "vpmaddwd %%ymm14, %%ymm15, %%ymm15\n\t"
      "vpaddd %%ymm15, %%ymm\\n, %%ymm\\n\n\t.endr\n\t"
      "dec %[rounds]\n\t"
      "jnz 1b\n\t"
      "vzeroupper"
      : [rounds] "+r"(rounds)
      : [bytes] "m"(bytes), [ones] "m"(ones)
      : "cc", "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8", "ymm9", "ymm10",
        "ymm11", "ymm12", "ymm13", "ymm14", "ymm15");
}

}  // namespace

Loops loops() {
  return {read, {run_float32, 12 * 8 * 2}, {run_int8, 8 * 32 * 2}, {}, {run_vnni, 12 * 32 * 2}};
}

}  // namespace assay::probes::avx2
