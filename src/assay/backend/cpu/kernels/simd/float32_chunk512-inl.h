// The inner loop of float32 products with many rows in AVX-512, for the ISA files that include it inside
// their own anonymous namespace, after vec512-inl.h. Not a header for others.
//
// 7 to 14 rows times two panels: up to 28 sums, 2 vectors of weights and 2 broadcast inputs fill the 32
// registers. Assembler, because a load more per row that a compiler puts into the loop costs a quarter: the
// loads are then as many as the products.
#pragma once

#include "assay/backend/cpu/kernels/simd/vec512-inl.h"

#include "assay/backend/cpu/kernels/simd/chunk_loops-inl.h"
#define ASSAY_HAS_WIDE_CHUNKS

constexpr std::int64_t kChunkRows = 14, kMinChunkRows = 7;

struct Chunk {
  const float* a;  // [rows, inputs]
  std::int64_t a_stride;
  const float *b, *b_second;  // two panels, [inputs][16] each
  std::int64_t inputs;
  bool is_first;  // else sums are added to
  float* c;       // [rows][32]
  // Of both panels, fetched into the second-level cache meanwhile: `step` bytes per two inputs, at most 128.
  const char *ahead, *ahead_second;
  std::int64_t step;
};

// The registers they use, which are all.
#define ASSAY_USED                                                                                         \
  "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
      "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21",   \
      "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31"
#define ASSAY_PASS_THREE(bytes) "add $" bytes ", %[p0]\n\tadd $" bytes ", %[p1]\n\tadd $" bytes ", %[p2]\n\t"

// X(lower sum, upper sum, where its pair starts in c, address of its input, register of the input)
// clang-format off
#define ASSAY_ROWS_7(X) \
  X("0", "1", "0", "(%[p0])", "30") X("2", "3", "128", "(%[p0],%[s])", "31") \
  X("4", "5", "256", "(%[p0],%[s],2)", "30") X("6", "7", "384", "(%[p0],%[s3])", "31") \
  X("8", "9", "512", "(%[p0],%[s],4)", "30") X("10", "11", "640", "(%[p1])", "31") \
  X("12", "13", "768", "(%[p1],%[s])", "30")
#define ASSAY_ROWS_8(X) ASSAY_ROWS_7(X) X("14", "15", "896", "(%[p1],%[s],2)", "31")
#define ASSAY_ROWS_9(X) ASSAY_ROWS_8(X) X("16", "17", "1024", "(%[p1],%[s3])", "30")
#define ASSAY_ROWS_10(X) ASSAY_ROWS_9(X) X("18", "19", "1152", "(%[p1],%[s],4)", "31")
#define ASSAY_ROWS_11(X) ASSAY_ROWS_10(X) X("20", "21", "1280", "(%[p2])", "30")
#define ASSAY_ROWS_12(X) ASSAY_ROWS_11(X) X("22", "23", "1408", "(%[p2],%[s])", "31")
#define ASSAY_ROWS_13(X) ASSAY_ROWS_12(X) X("24", "25", "1536", "(%[p2],%[s],2)", "30")
#define ASSAY_ROWS_14(X) ASSAY_ROWS_13(X) X("26", "27", "1664", "(%[p2],%[s3])", "31")

#define ASSAY_CLEAR(low, high, at, from, x) \
  "vpxord %%zmm" low ", %%zmm" low ", %%zmm" low "\n\t"                                                   \
  "vpxord %%zmm" high ", %%zmm" high ", %%zmm" high "\n\t"
#define ASSAY_LOAD(low, high, at, from, x) \
  "vmovups " at "(%[c]), %%zmm" low "\n\tvmovups 64+" at "(%[c]), %%zmm" high "\n\t"
#define ASSAY_STORE(low, high, at, from, x) \
  "vmovups %%zmm" low ", " at "(%[c])\n\tvmovups %%zmm" high ", 64+" at "(%[c])\n\t"
#define ASSAY_MULTIPLY(offset, low, high, from, x) \
  "vbroadcastss " offset from ", %%zmm" x "\n\t"                                                          \
  "vfmadd231ps %%zmm28, %%zmm" x ", %%zmm" low "\n\t"                                                     \
  "vfmadd231ps %%zmm29, %%zmm" x ", %%zmm" high "\n\t"
#define ASSAY_MULTIPLY_0(low, high, at, from, x) ASSAY_MULTIPLY("0", low, high, from, x)
#define ASSAY_MULTIPLY_1(low, high, at, from, x) ASSAY_MULTIPLY("4", low, high, from, x)
#define ASSAY_MULTIPLY_2(low, high, at, from, x) ASSAY_MULTIPLY("8", low, high, from, x)
#define ASSAY_MULTIPLY_3(low, high, at, from, x) ASSAY_MULTIPLY("12", low, high, from, x)
#define ASSAY_MULTIPLY_4(low, high, at, from, x) ASSAY_MULTIPLY("16", low, high, from, x)
#define ASSAY_MULTIPLY_5(low, high, at, from, x) ASSAY_MULTIPLY("20", low, high, from, x)
#define ASSAY_MULTIPLY_6(low, high, at, from, x) ASSAY_MULTIPLY("24", low, high, from, x)
#define ASSAY_MULTIPLY_7(low, high, at, from, x) ASSAY_MULTIPLY("28", low, high, from, x)
#define ASSAY_WEIGHTS(offset) "vmovups " offset "(%[b0]), %%zmm28\n\tvmovups " offset "(%[b1]), %%zmm29\n\t"
#define ASSAY_FETCH(panel) \
  "prefetcht1 (%[" panel "])\n\tprefetcht1 64(%[" panel "])\n\tadd %[step], %[" panel "]\n\t"
#define ASSAY_EIGHT(n) \
  ASSAY_WEIGHTS("0") ASSAY_FETCH("ahead") ASSAY_ROWS_##n(ASSAY_MULTIPLY_0) \
  ASSAY_WEIGHTS("64") ASSAY_FETCH("ahead_second") ASSAY_ROWS_##n(ASSAY_MULTIPLY_1) \
  ASSAY_WEIGHTS("128") ASSAY_FETCH("ahead") ASSAY_ROWS_##n(ASSAY_MULTIPLY_2) \
  ASSAY_WEIGHTS("192") ASSAY_FETCH("ahead_second") ASSAY_ROWS_##n(ASSAY_MULTIPLY_3) \
  ASSAY_WEIGHTS("256") ASSAY_FETCH("ahead") ASSAY_ROWS_##n(ASSAY_MULTIPLY_4) \
  ASSAY_WEIGHTS("320") ASSAY_FETCH("ahead_second") ASSAY_ROWS_##n(ASSAY_MULTIPLY_5) \
  ASSAY_WEIGHTS("384") ASSAY_FETCH("ahead") ASSAY_ROWS_##n(ASSAY_MULTIPLY_6) \
  ASSAY_WEIGHTS("448") ASSAY_FETCH("ahead_second") ASSAY_ROWS_##n(ASSAY_MULTIPLY_7) \
  ASSAY_PASS_THREE("32") "add $512, %[b0]\n\tadd $512, %[b1]\n\t"
#define ASSAY_ONE(n) \
  ASSAY_WEIGHTS("0") ASSAY_ROWS_##n(ASSAY_MULTIPLY_0) \
  ASSAY_PASS_THREE("4") "add $64, %[b0]\n\tadd $64, %[b1]\n\t"
// clang-format on

#define ASSAY_ADD_CHUNK(n)                                                                                \
  void add_chunk_##n(const Chunk& chunk) {                                                                \
    const std::int64_t s = chunk.a_stride * 4;                                                            \
    const char *p0 = reinterpret_cast<const char*>(chunk.a), *p1 = p0 + 5 * s, *p2 = p0 + 10 * s;         \
    const float *b0 = chunk.b, *b1 = chunk.b_second;                                                      \
    std::int64_t strides = chunk.inputs / 8, rest = chunk.inputs % 8;                                     \
    const char *ahead = chunk.ahead, *ahead_second = chunk.ahead_second;                                  \
    const std::int64_t is_first = chunk.is_first ? 1 : 0;                                                 \
    __asm__ volatile(                                                                                     \
        ASSAY_START(ASSAY_ROWS_##n(ASSAY_LOAD), ASSAY_ROWS_##n(ASSAY_CLEAR))                              \
            ASSAY_LOOPS(ASSAY_EIGHT(n), ASSAY_ONE(n)) ASSAY_ROWS_##n(ASSAY_STORE)                         \
        : [p0] "+r"(p0), [p1] "+r"(p1), [p2] "+r"(p2), [b0] "+r"(b0), [b1] "+r"(b1), [ahead] "+r"(ahead), \
          [ahead_second] "+r"(ahead_second), [strides] "+r"(strides), [rest] "+r"(rest)                   \
        : [s] "r"(s), [s3] "r"(3 * s), [c] "r"(chunk.c), [is_first] "m"(is_first), [step] "r"(chunk.step) \
        : ASSAY_USED);                                                                                    \
  }
ASSAY_ADD_CHUNK(7)
ASSAY_ADD_CHUNK(8)
ASSAY_ADD_CHUNK(9)
ASSAY_ADD_CHUNK(10)
ASSAY_ADD_CHUNK(11)
ASSAY_ADD_CHUNK(12)
ASSAY_ADD_CHUNK(13)
ASSAY_ADD_CHUNK(14)

void add_chunk(std::int64_t rows, const Chunk& chunk) {
  constexpr void (*kOf[])(const Chunk&) = {add_chunk_7,  add_chunk_8,  add_chunk_9,  add_chunk_10,
                                           add_chunk_11, add_chunk_12, add_chunk_13, add_chunk_14};
  kOf[rows - kMinChunkRows](chunk);
}

// 5 to 9 rows times three panels: 27 sums, 3 vectors of weights and 2 inputs. Fewer loads a product, which
// reaches 88 instead of 84 % of the compute roofline, where rows are many.
constexpr std::int64_t kTripleRows = 9, kMinTripleRows = 5;

struct TripleChunk {
  const float* a;
  std::int64_t a_stride;
  const float* b;  // three panels, [inputs][16] each, `b_stride` floats apart
  std::int64_t b_stride, inputs;
  bool is_first;
  float* c;           // [rows][48]
  const char* ahead;  // as of Chunk, of three panels one behind the other
  std::int64_t step;  // bytes per input
};

// X(three sums, where they start in c, address of its input, register of the input)
// clang-format off
#define ASSAY_TRIPLE_ROWS_5(X) \
  X("0", "1", "2", "0", "(%[p0])", "30") X("3", "4", "5", "192", "(%[p0],%[s])", "31") \
  X("6", "7", "8", "384", "(%[p0],%[s],2)", "30") X("9", "10", "11", "576", "(%[p0],%[s3])", "31") \
  X("12", "13", "14", "768", "(%[p0],%[s],4)", "30")
#define ASSAY_TRIPLE_ROWS_6(X) ASSAY_TRIPLE_ROWS_5(X) X("15", "16", "17", "960", "(%[p1])", "31")
#define ASSAY_TRIPLE_ROWS_7(X) ASSAY_TRIPLE_ROWS_6(X) X("18", "19", "20", "1152", "(%[p1],%[s])", "30")
#define ASSAY_TRIPLE_ROWS_8(X) ASSAY_TRIPLE_ROWS_7(X) X("21", "22", "23", "1344", "(%[p1],%[s],2)", "31")
#define ASSAY_TRIPLE_ROWS_9(X) ASSAY_TRIPLE_ROWS_8(X) X("24", "25", "26", "1536", "(%[p1],%[s3])", "30")

#define ASSAY_TRIPLE_CLEAR(low, mid, high, at, from, x) \
  "vpxord %%zmm" low ", %%zmm" low ", %%zmm" low "\n\t" \
  "vpxord %%zmm" mid ", %%zmm" mid ", %%zmm" mid "\n\t" \
  "vpxord %%zmm" high ", %%zmm" high ", %%zmm" high "\n\t"
#define ASSAY_TRIPLE_LOAD(low, mid, high, at, from, x) \
  "vmovups " at "(%[c]), %%zmm" low "\n\tvmovups 64+" at "(%[c]), %%zmm" mid "\n\t" \
  "vmovups 128+" at "(%[c]), %%zmm" high "\n\t"
#define ASSAY_TRIPLE_STORE(low, mid, high, at, from, x) \
  "vmovups %%zmm" low ", " at "(%[c])\n\tvmovups %%zmm" mid ", 64+" at "(%[c])\n\t" \
  "vmovups %%zmm" high ", 128+" at "(%[c])\n\t"
#define ASSAY_TRIPLE_MULTIPLY(offset, low, mid, high, from, x) \
  "vbroadcastss " offset from ", %%zmm" x "\n\t" \
  "vfmadd231ps %%zmm27, %%zmm" x ", %%zmm" low "\n\t" \
  "vfmadd231ps %%zmm28, %%zmm" x ", %%zmm" mid "\n\t" \
  "vfmadd231ps %%zmm29, %%zmm" x ", %%zmm" high "\n\t"
#define ASSAY_TRIPLE_MULTIPLY_0(low, mid, high, at, from, x) ASSAY_TRIPLE_MULTIPLY("0", low, mid, high, from, x)
#define ASSAY_TRIPLE_MULTIPLY_1(low, mid, high, at, from, x) ASSAY_TRIPLE_MULTIPLY("4", low, mid, high, from, x)
#define ASSAY_TRIPLE_MULTIPLY_2(low, mid, high, at, from, x) ASSAY_TRIPLE_MULTIPLY("8", low, mid, high, from, x)
#define ASSAY_TRIPLE_MULTIPLY_3(low, mid, high, at, from, x) ASSAY_TRIPLE_MULTIPLY("12", low, mid, high, from, x)
#define ASSAY_TRIPLE_WEIGHTS(offset) \
  "vmovups " offset "(%[b]), %%zmm27\n\tvmovups " offset "(%[b],%[w]), %%zmm28\n\t" \
  "vmovups " offset "(%[b],%[w],2), %%zmm29\n\t" ASSAY_FETCH("ahead")
#define ASSAY_TRIPLE_FOUR(n) \
  ASSAY_TRIPLE_WEIGHTS("0") ASSAY_TRIPLE_ROWS_##n(ASSAY_TRIPLE_MULTIPLY_0) \
  ASSAY_TRIPLE_WEIGHTS("64") ASSAY_TRIPLE_ROWS_##n(ASSAY_TRIPLE_MULTIPLY_1) \
  ASSAY_TRIPLE_WEIGHTS("128") ASSAY_TRIPLE_ROWS_##n(ASSAY_TRIPLE_MULTIPLY_2) \
  ASSAY_TRIPLE_WEIGHTS("192") ASSAY_TRIPLE_ROWS_##n(ASSAY_TRIPLE_MULTIPLY_3) \
  "add $16, %[p0]\n\tadd $16, %[p1]\n\tadd $256, %[b]\n\t"
#define ASSAY_TRIPLE_ONE(n) \
  ASSAY_TRIPLE_WEIGHTS("0") ASSAY_TRIPLE_ROWS_##n(ASSAY_TRIPLE_MULTIPLY_0) \
  "add $4, %[p0]\n\tadd $4, %[p1]\n\tadd $64, %[b]\n\t"
// clang-format on

#define ASSAY_ADD_TRIPLE_CHUNK(n)                                                                            \
  void add_triple_chunk_##n(const TripleChunk& chunk) {                                                      \
    const std::int64_t s = chunk.a_stride * 4, w = chunk.b_stride * 4;                                       \
    const char *p0 = reinterpret_cast<const char*>(chunk.a), *p1 = p0 + 5 * s, *ahead = chunk.ahead;         \
    const float* b = chunk.b;                                                                                \
    std::int64_t strides = chunk.inputs / 4, rest = chunk.inputs % 4;                                        \
    const std::int64_t is_first = chunk.is_first ? 1 : 0;                                                    \
    __asm__ volatile(                                                                                        \
        ASSAY_START(ASSAY_TRIPLE_ROWS_##n(ASSAY_TRIPLE_LOAD), ASSAY_TRIPLE_ROWS_##n(ASSAY_TRIPLE_CLEAR))     \
            ASSAY_LOOPS(ASSAY_TRIPLE_FOUR(n), ASSAY_TRIPLE_ONE(n)) ASSAY_TRIPLE_ROWS_##n(ASSAY_TRIPLE_STORE) \
        : [p0] "+r"(p0), [p1] "+r"(p1), [b] "+r"(b), [ahead] "+r"(ahead), [strides] "+r"(strides),           \
          [rest] "+r"(rest)                                                                                  \
        : [s] "r"(s), [s3] "r"(3 * s), [w] "r"(w), [c] "r"(chunk.c), [is_first] "m"(is_first),               \
          [step] "r"(chunk.step)                                                                             \
        : ASSAY_USED);                                                                                       \
  }
ASSAY_ADD_TRIPLE_CHUNK(5)
ASSAY_ADD_TRIPLE_CHUNK(6)
ASSAY_ADD_TRIPLE_CHUNK(7)
ASSAY_ADD_TRIPLE_CHUNK(8)
ASSAY_ADD_TRIPLE_CHUNK(9)

void add_triple_chunk(std::int64_t rows, const TripleChunk& chunk) {
  constexpr void (*kOf[])(const TripleChunk&) = {add_triple_chunk_5, add_triple_chunk_6, add_triple_chunk_7,
                                                 add_triple_chunk_8, add_triple_chunk_9};
  kOf[rows - kMinTripleRows](chunk);
}

// Two panels of weights whose inputs lie `b_stride` apart, once and from zero: sums [rows][64], of which the
// first 32 columns from `c` on are written.
struct SpreadChunk {
  const float* a;  // [rows, inputs]
  std::int64_t a_stride;
  const float* b;  // two panels side by side, [inputs][32] at b_stride
  std::int64_t b_stride, inputs;
  float* c;
};

// clang-format off
#define ASSAY_STORE_SPREAD(low, high, at, from, x) \
  "vmovups %%zmm" low ", 2*" at "(%[c])\n\tvmovups %%zmm" high ", 64+2*" at "(%[c])\n\t"
#define ASSAY_SPREAD_WEIGHTS(at) "vmovups (" at "), %%zmm28\n\tvmovups 64(" at "), %%zmm29\n\t"
#define ASSAY_SPREAD_FOUR(n) \
  ASSAY_SPREAD_WEIGHTS("%[b]") ASSAY_ROWS_##n(ASSAY_MULTIPLY_0) \
  ASSAY_SPREAD_WEIGHTS("%[b],%[w]") ASSAY_ROWS_##n(ASSAY_MULTIPLY_1) \
  ASSAY_SPREAD_WEIGHTS("%[b],%[w],2") ASSAY_ROWS_##n(ASSAY_MULTIPLY_2) \
  ASSAY_SPREAD_WEIGHTS("%[b],%[w3]") ASSAY_ROWS_##n(ASSAY_MULTIPLY_3) \
  ASSAY_PASS_THREE("16") "lea (%[b],%[w],4), %[b]\n\t"
#define ASSAY_SPREAD_ONE(n) \
  ASSAY_SPREAD_WEIGHTS("%[b]") ASSAY_ROWS_##n(ASSAY_MULTIPLY_0) ASSAY_PASS_THREE("4") "add %[w], %[b]\n\t"
// clang-format on

#define ASSAY_ADD_SPREAD_CHUNK(n)                                                                         \
  void add_spread_chunk_##n(const SpreadChunk& chunk) {                                                   \
    const std::int64_t s = chunk.a_stride * 4, w = chunk.b_stride * 4;                                    \
    const char *p0 = reinterpret_cast<const char*>(chunk.a), *p1 = p0 + 5 * s, *p2 = p0 + 10 * s;         \
    const float* b = chunk.b;                                                                             \
    std::int64_t strides = chunk.inputs / 4, rest = chunk.inputs % 4;                                     \
    __asm__ volatile(ASSAY_ROWS_##n(ASSAY_CLEAR) ASSAY_LOOPS(ASSAY_SPREAD_FOUR(n), ASSAY_SPREAD_ONE(n))   \
                         ASSAY_ROWS_##n(ASSAY_STORE_SPREAD)                                               \
                     : [p0] "+r"(p0), [p1] "+r"(p1), [p2] "+r"(p2), [b] "+r"(b), [strides] "+r"(strides), \
                       [rest] "+r"(rest)                                                                  \
                     : [s] "r"(s), [s3] "r"(3 * s), [w] "r"(w), [w3] "r"(3 * w), [c] "r"(chunk.c)         \
                     : ASSAY_USED);                                                                       \
  }
ASSAY_ADD_SPREAD_CHUNK(7)
ASSAY_ADD_SPREAD_CHUNK(8)
ASSAY_ADD_SPREAD_CHUNK(9)
ASSAY_ADD_SPREAD_CHUNK(10)
ASSAY_ADD_SPREAD_CHUNK(11)
ASSAY_ADD_SPREAD_CHUNK(12)
ASSAY_ADD_SPREAD_CHUNK(13)
ASSAY_ADD_SPREAD_CHUNK(14)

void add_spread_chunk(std::int64_t rows, const SpreadChunk& chunk) {
  constexpr void (*kOf[])(const SpreadChunk&) = {
      add_spread_chunk_7,  add_spread_chunk_8,  add_spread_chunk_9,  add_spread_chunk_10,
      add_spread_chunk_11, add_spread_chunk_12, add_spread_chunk_13, add_spread_chunk_14};
  kOf[rows - kMinChunkRows](chunk);
}
