// The inner loop of float32 products with many rows in AVX2, for the ISA files that include it inside their
// own anonymous namespace, after vec256-inl.h. Not a header for others.
//
// 3 to 6 rows times one panel: up to 12 sums, 2 vectors of weights and 2 broadcast inputs fill the 16
// registers. Assembler: what a compiler adds to the loop costs a fifth.
#pragma once

#include "assay/backend/cpu/kernels/simd/vec256-inl.h"

#include "assay/backend/cpu/kernels/simd/chunk_loops-inl.h"

constexpr std::int64_t kChunkRows = 6, kMinChunkRows = 3;

struct Chunk {
  const float* a;  // [rows, inputs]
  std::int64_t a_stride;
  const float* b;  // a panel, [inputs][16]
  std::int64_t inputs;
  bool is_first;      // else sums are added to
  float* c;           // [rows][16]
  const char* ahead;  // fetched into the second-level cache meanwhile: `step` bytes per two inputs
  std::int64_t step;
};

// X(lower sum, upper sum, where its pair starts in c, address of its input, register of the input)
// clang-format off
#define ASSAY_ROWS_3(X) \
  X("0", "1", "0", "(%[p0])", "14") X("2", "3", "64", "(%[p0],%[s])", "15") \
  X("4", "5", "128", "(%[p0],%[s],2)", "14")
#define ASSAY_ROWS_4(X) ASSAY_ROWS_3(X) X("6", "7", "192", "(%[p0],%[s3])", "15")
#define ASSAY_ROWS_5(X) ASSAY_ROWS_4(X) X("8", "9", "256", "(%[p0],%[s],4)", "14")
#define ASSAY_ROWS_6(X) ASSAY_ROWS_5(X) X("10", "11", "320", "(%[p1])", "15")

#define ASSAY_CLEAR(low, high, at, from, x) \
  "vxorps %%ymm" low ", %%ymm" low ", %%ymm" low "\n\t" \
  "vxorps %%ymm" high ", %%ymm" high ", %%ymm" high "\n\t"
#define ASSAY_LOAD(low, high, at, from, x) \
  "vmovups " at "(%[c]), %%ymm" low "\n\tvmovups 32+" at "(%[c]), %%ymm" high "\n\t"
#define ASSAY_STORE(low, high, at, from, x) \
  "vmovups %%ymm" low ", " at "(%[c])\n\tvmovups %%ymm" high ", 32+" at "(%[c])\n\t"
#define ASSAY_MULTIPLY(offset, low, high, from, x) \
  "vbroadcastss " offset from ", %%ymm" x "\n\t" \
  "vfmadd231ps %%ymm12, %%ymm" x ", %%ymm" low "\n\t" \
  "vfmadd231ps %%ymm13, %%ymm" x ", %%ymm" high "\n\t"
#define ASSAY_MULTIPLY_0(low, high, at, from, x) ASSAY_MULTIPLY("0", low, high, from, x)
#define ASSAY_MULTIPLY_1(low, high, at, from, x) ASSAY_MULTIPLY("4", low, high, from, x)
#define ASSAY_MULTIPLY_2(low, high, at, from, x) ASSAY_MULTIPLY("8", low, high, from, x)
#define ASSAY_MULTIPLY_3(low, high, at, from, x) ASSAY_MULTIPLY("12", low, high, from, x)
#define ASSAY_WEIGHTS(offset) \
  "vmovups " offset "(%[b]), %%ymm12\n\tvmovups 32+" offset "(%[b]), %%ymm13\n\t"
#define ASSAY_FETCH "prefetcht1 (%[ahead])\n\tadd %[step], %[ahead]\n\t"
#define ASSAY_FOUR(n) \
  ASSAY_WEIGHTS("0") ASSAY_FETCH ASSAY_ROWS_##n(ASSAY_MULTIPLY_0) \
  ASSAY_WEIGHTS("64") ASSAY_ROWS_##n(ASSAY_MULTIPLY_1) \
  ASSAY_WEIGHTS("128") ASSAY_FETCH ASSAY_ROWS_##n(ASSAY_MULTIPLY_2) \
  ASSAY_WEIGHTS("192") ASSAY_ROWS_##n(ASSAY_MULTIPLY_3) \
  "add $16, %[p0]\n\tadd $16, %[p1]\n\tadd $256, %[b]\n\t"
#define ASSAY_ONE(n) \
  ASSAY_WEIGHTS("0") ASSAY_ROWS_##n(ASSAY_MULTIPLY_0) \
  "add $4, %[p0]\n\tadd $4, %[p1]\n\tadd $64, %[b]\n\t"
// clang-format on

#define ASSAY_ADD_CHUNK(n)                                                                                \
  void add_chunk_##n(const Chunk& chunk) {                                                                \
    const std::int64_t s = chunk.a_stride * 4;                                                            \
    const char *p0 = reinterpret_cast<const char*>(chunk.a), *p1 = p0 + 5 * s, *ahead = chunk.ahead;      \
    const float* b = chunk.b;                                                                             \
    std::int64_t strides = chunk.inputs / 4, rest = chunk.inputs % 4;                                     \
    const std::int64_t is_first = chunk.is_first ? 1 : 0;                                                 \
    __asm__ volatile(                                                                                     \
        ASSAY_START(ASSAY_ROWS_##n(ASSAY_LOAD), ASSAY_ROWS_##n(ASSAY_CLEAR))                              \
            ASSAY_LOOPS(ASSAY_FOUR(n), ASSAY_ONE(n)) ASSAY_ROWS_##n(ASSAY_STORE)                          \
        : [p0] "+r"(p0), [p1] "+r"(p1), [b] "+r"(b), [ahead] "+r"(ahead), [strides] "+r"(strides),        \
          [rest] "+r"(rest)                                                                               \
        : [s] "r"(s), [s3] "r"(3 * s), [c] "r"(chunk.c), [is_first] "m"(is_first), [step] "r"(chunk.step) \
        : "cc", "memory", "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8", "ymm9", \
          "ymm10", "ymm11", "ymm12", "ymm13", "ymm14", "ymm15");                                          \
  }
ASSAY_ADD_CHUNK(3)
ASSAY_ADD_CHUNK(4)
ASSAY_ADD_CHUNK(5)
ASSAY_ADD_CHUNK(6)

void add_chunk(std::int64_t rows, const Chunk& chunk) {
  constexpr void (*kOf[])(const Chunk&) = {add_chunk_3, add_chunk_4, add_chunk_5, add_chunk_6};
  kOf[rows - kMinChunkRows](chunk);
}
