// Blocks of rows times int8 or 4-bit weights on AVX2, with and without AVX-VNNI, and on AVX-512 without VNNI,
// for the ISA files that include it inside their own anonymous namespace, after float32_kernels-inl.h. Not a
// header for others.
//
// `Dot` has also: set_near (kBytes codes of inputs as a block has them), start_of_codes; with AVX-VNNI
// copy_for_block (weights that are 128 too large).
//
// One side of vpdpbusd has to be unsigned: the weights, which are 128 too large, and sums start at -128 times
// the sum of the row's codes. Without it: x * w = |x| * (w ^ flip) + (x < 0 ? |x| : 0), where flip is -1 of a
// negative x and else 0: the latter does not depend on w, and sums start at it. vpmaddubsw adds two such
// products, at least -2 * 128 * 128 and at most 2 * 128 * 127, without saturation. To give w the sign of x by
// vpsignb instead keeps vpmaddubsw and vpmaddwd waiting, which run on the same two units of four (Zen 4):
// that ends at 0.62 of the processor's peak, this at 0.87; products of 16-bit integers, two vpmaddwd for one
// vpmaddubsw, end at 0.82. Assembler: what a compiler makes of the loop is a fifth slower.
#pragma once

#include "assay/backend/cpu/kernels/simd/float32_kernels-inl.h"

#define ASSAY_HAS_SIGNED_BLOCKS

// Up to five rows times two vectors of outputs: 10 sums, 2 of weights, 2 of an input, a product and ones. By
// vpdpbusd six rows: 12 sums, 2 of weights, an input.
#if defined(ASSAY_VNNI_256)
constexpr std::int64_t kSignedRows = 6, kMinSignedRows = 3;
#else
constexpr std::int64_t kSignedRows = 5, kMinSignedRows = 2;
#endif
constexpr std::int64_t kSignedOutputs = 2 * Vec::kWidth;
// Inputs of some panels that are near at a time (16 KB of bytes): whole groups of weights, which have at most
// 128.
constexpr std::int64_t kSignedInputs = 256, kSignedPanels = 4, kSignedColumns = kSignedPanels * kPanel;
constexpr std::int64_t kSignedPassRows = 256;  // whose sums wait in memory

// Some rows times kSignedOutputs outputs: for each of some groups of inputs an exact sum, which is added to
// sums of float32, times scale of the row * scale of the output; or to those of int32, where there are no
// scales.
struct SignedBlock {
  const std::uint8_t* x;  // [rows][2][kSignedInputs]: magnitudes and flips; with AVX-VNNI codes, and nothing
  const std::int8_t* w;   // [inputs / 4][16][4], the next panel w_next bytes on
  std::int64_t w_next;
  std::int64_t inputs;  // the size of a group, a multiple of 8
  std::byte* sums;      // [rows][kSignedColumns], added to
  std::int64_t groups;  // 1 where there are no scales
  // Of the first row; of the next group x_next bytes on.
  const float* x_scales;
  const std::int32_t* starts;
  std::int64_t x_next;
  const float* w_scales;  // [groups][kSignedColumns]
  // Fetched into the second-level cache meanwhile, of each panel of the block: `step` bytes per 4 inputs.
  const std::byte* ahead;
  std::int64_t step, ahead_next;
};

// clang-format off
#if defined(ASSAY_IS_512)
#define ASSAY_R(n) "%%zmm" n
#define ASSAY_XOR "vpxord "
#define ASSAY_WIDE "64"
#define ASSAY_SIGNED_OTHER(at) "64*" at "(%[w],%[w_next])"
#define ASSAY_SIGNED_FETCH "prefetcht1 (%[ahead])\n\tprefetcht1 (%[ahead],%[ahead_next])\n\tadd %[step], %[ahead]\n\t"
#else
#define ASSAY_R(n) "%%ymm" n
#define ASSAY_XOR "vpxor "
#define ASSAY_WIDE "32"
#define ASSAY_SIGNED_OTHER(at) "32+64*" at "(%[w])"
#define ASSAY_SIGNED_FETCH "prefetcht1 (%[ahead])\n\tadd %[step], %[ahead]\n\t"
#endif
// X(at, lower sum, upper sum, row)
#define ASSAY_SIGNED_ROWS_2(X, at) X(at, "0", "1", "0") X(at, "2", "3", "1")
#define ASSAY_SIGNED_ROWS_3(X, at) ASSAY_SIGNED_ROWS_2(X, at) X(at, "4", "5", "2")
#define ASSAY_SIGNED_ROWS_4(X, at) ASSAY_SIGNED_ROWS_3(X, at) X(at, "6", "7", "3")
#define ASSAY_SIGNED_ROWS_5(X, at) ASSAY_SIGNED_ROWS_4(X, at) X(at, "8", "9", "4")
#define ASSAY_SIGNED_ROWS_6(X, at) ASSAY_SIGNED_ROWS_5(X, at) X(at, "10", "11", "5")
#define ASSAY_SIGNED_LOW(row) "256*" row "(%[sums])"
#define ASSAY_SIGNED_HIGH(row) ASSAY_WIDE "+256*" row "(%[sums])"
#define ASSAY_SIGNED_LOAD(at, low, high, row) \
  "vmovups " ASSAY_SIGNED_LOW(row) ", " ASSAY_R(low) "\n\tvmovups " ASSAY_SIGNED_HIGH(row) ", " ASSAY_R(high) "\n\t"
#define ASSAY_SIGNED_STORE(at, low, high, row) \
  "vmovups " ASSAY_R(low) ", " ASSAY_SIGNED_LOW(row) "\n\tvmovups " ASSAY_R(high) ", " ASSAY_SIGNED_HIGH(row) "\n\t"
#define ASSAY_SIGNED_BEGIN(at, low, high, row) \
  "vpbroadcastd 4*" row "(%[starts]), " ASSAY_R(low) "\n\tvmovaps " ASSAY_R(low) ", " ASSAY_R(high) "\n\t"
#if defined(ASSAY_VNNI_256)
#define ASSAY_W0 ASSAY_R("12")
#define ASSAY_W1 ASSAY_R("13")
#define ASSAY_X ASSAY_R("14")
#define ASSAY_T ASSAY_R("15")
#define ASSAY_SIGNED_ONES ""
#if defined(ASSAY_VNNI_OF_AVX512)
#define ASSAY_VEX ""
#else
#define ASSAY_VEX "%{vex%} "
#endif
#define ASSAY_SIGNED_MULTIPLY(at, low, high, row) \
  "vpbroadcastd 512*" row "+4*" at "(%[x]), " ASSAY_X "\n\t" \
  ASSAY_VEX "vpdpbusd " ASSAY_X ", " ASSAY_W0 ", " ASSAY_R(low) "\n\t" \
  ASSAY_VEX "vpdpbusd " ASSAY_X ", " ASSAY_W1 ", " ASSAY_R(high) "\n\t"
#else
#define ASSAY_W0 ASSAY_R("10")
#define ASSAY_W1 ASSAY_R("11")
#define ASSAY_X ASSAY_R("12")
#define ASSAY_T ASSAY_R("13")
#define ASSAY_SIGNED_ONES "vpbroadcastd %[ones], " ASSAY_R("15") "\n\t"
#define ASSAY_SIGNED_MULTIPLY(at, low, high, row) \
  "vpbroadcastd 512*" row "+4*" at "(%[x]), " ASSAY_X "\n\t" \
  "vpbroadcastd 256+512*" row "+4*" at "(%[x]), " ASSAY_T "\n\t" \
  ASSAY_XOR ASSAY_T ", " ASSAY_W0 ", " ASSAY_R("14") "\n\t" \
  ASSAY_XOR ASSAY_T ", " ASSAY_W1 ", " ASSAY_T "\n\t" \
  "vpmaddubsw " ASSAY_R("14") ", " ASSAY_X ", " ASSAY_R("14") "\n\t" \
  "vpmaddubsw " ASSAY_T ", " ASSAY_X ", " ASSAY_T "\n\t" \
  "vpmaddwd " ASSAY_R("15") ", " ASSAY_R("14") ", " ASSAY_R("14") "\n\t" \
  "vpmaddwd " ASSAY_R("15") ", " ASSAY_T ", " ASSAY_T "\n\t" \
  "vpaddd " ASSAY_R("14") ", " ASSAY_R(low) ", " ASSAY_R(low) "\n\t" \
  "vpaddd " ASSAY_T ", " ASSAY_R(high) ", " ASSAY_R(high) "\n\t"
#endif
#define ASSAY_SIGNED_FOUR(n, at) \
  ASSAY_SIGNED_FETCH "vmovups 64*" at "(%[w]), " ASSAY_W0 "\n\tvmovups " ASSAY_SIGNED_OTHER(at) ", " ASSAY_W1 "\n\t" \
  ASSAY_SIGNED_ROWS_##n(ASSAY_SIGNED_MULTIPLY, at)
#define ASSAY_SIGNED_EIGHTS(n) \
  ".p2align 5\n3:\n\t" ASSAY_SIGNED_FOUR(n, "0") ASSAY_SIGNED_FOUR(n, "1") \
  "add $8, %[x]\n\tsub $-128, %[w]\n\tdec %[eights]\n\tjnz 3b\n\t"
// The registers of weights hold the scales of the outputs.
#define ASSAY_SIGNED_SCALE(at, low, high, row) \
  "vbroadcastss 4*" row "(%[x_scales]), " ASSAY_X "\n\t" \
  "vcvtdq2ps " ASSAY_R(low) ", " ASSAY_R(low) "\n\tvcvtdq2ps " ASSAY_R(high) ", " ASSAY_R(high) "\n\t" \
  "vmulps " ASSAY_W0 ", " ASSAY_X ", " ASSAY_T "\n\tvmulps " ASSAY_W1 ", " ASSAY_X ", " ASSAY_X "\n\t" \
  "vfmadd213ps " ASSAY_SIGNED_LOW(row) ", " ASSAY_T ", " ASSAY_R(low) "\n\t" \
  "vfmadd213ps " ASSAY_SIGNED_HIGH(row) ", " ASSAY_X ", " ASSAY_R(high) "\n\t" \
  ASSAY_SIGNED_STORE(at, low, high, row)
#define ASSAY_SIGNED_USED "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", \
  "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"

#define ASSAY_SIGNED_BLOCK(n) \
  void add_signed_block_##n(const SignedBlock& block) { \
    const std::uint8_t* x = block.x; \
    const std::int8_t* w = block.w; \
    const std::byte* ahead = block.ahead; \
    std::int64_t eights = block.inputs / 8; \
    __asm__ volatile( \
        ASSAY_SIGNED_ONES ASSAY_SIGNED_ROWS_##n(ASSAY_SIGNED_LOAD, "0") \
        ASSAY_SIGNED_EIGHTS(n) ASSAY_SIGNED_ROWS_##n(ASSAY_SIGNED_STORE, "0") \
        : [x] "+r"(x), [w] "+r"(w), [eights] "+r"(eights), [ahead] "+r"(ahead) \
        : [sums] "r"(block.sums), [w_next] "r"(block.w_next), [step] "r"(block.step), \
          [ahead_next] "r"(block.ahead_next), [ones] "m"(kOnes) \
        : ASSAY_SIGNED_USED); \
  } \
  void add_signed_groups_##n(const SignedBlock& block) { \
    const std::uint8_t* x = block.x; \
    const std::int8_t* w = block.w; \
    const float *x_scales = block.x_scales, *w_scales = block.w_scales; \
    const std::int32_t* starts = block.starts; \
    const std::byte* ahead = block.ahead; \
    std::int64_t eights = 0, groups = block.groups; \
    const std::int64_t eights_of_group = block.inputs / 8; \
    __asm__ volatile( \
        ASSAY_SIGNED_ONES ".p2align 5\n2:\n\tmov %[of_group], %[eights]\n\t" ASSAY_SIGNED_ROWS_##n(ASSAY_SIGNED_BEGIN, "0") \
        ASSAY_SIGNED_EIGHTS(n) \
        "vmovups (%[w_scales]), " ASSAY_W0 "\n\tvmovups " ASSAY_WIDE "(%[w_scales]), " ASSAY_W1 "\n\t" \
        ASSAY_SIGNED_ROWS_##n(ASSAY_SIGNED_SCALE, "0") \
        "add $256, %[w_scales]\n\tadd %[x_next], %[x_scales]\n\tadd %[x_next], %[starts]\n\t" \
        "dec %[groups]\n\tjnz 2b\n\t" \
        : [x] "+r"(x), [w] "+r"(w), [eights] "+r"(eights), [groups] "+r"(groups), [x_scales] "+r"(x_scales), \
          [starts] "+r"(starts), [w_scales] "+r"(w_scales), [ahead] "+r"(ahead) \
        : [sums] "r"(block.sums), [w_next] "r"(block.w_next), [x_next] "r"(block.x_next), \
          [of_group] "m"(eights_of_group), [step] "m"(block.step), [ahead_next] "r"(block.ahead_next), \
          [ones] "m"(kOnes) \
        : ASSAY_SIGNED_USED); \
  }
// clang-format on
constexpr std::int32_t kOnes = 0x00010001;
ASSAY_SIGNED_BLOCK(3)
ASSAY_SIGNED_BLOCK(4)
ASSAY_SIGNED_BLOCK(5)
#if defined(ASSAY_VNNI_256)
ASSAY_SIGNED_BLOCK(6)
#define ASSAY_SIGNED_BLOCKS(name) \
  { name##_3, name##_4, name##_5, name##_6 }
#else
ASSAY_SIGNED_BLOCK(2)
#define ASSAY_SIGNED_BLOCKS(name) \
  { name##_2, name##_3, name##_4, name##_5 }
#endif

void add_signed_block(std::int64_t rows, const SignedBlock& block) {
  constexpr void (*kOf[])(const SignedBlock&) = ASSAY_SIGNED_BLOCKS(add_signed_block);
  constexpr void (*kOfGroups[])(const SignedBlock&) = ASSAY_SIGNED_BLOCKS(add_signed_groups);
  (block.w_scales == nullptr ? kOf : kOfGroups)[rows - kMinSignedRows](block);
}

// Codes of rows, strips of 64 inputs, as blocks have them.
using NearRows = std::uint8_t[kSignedRows * 2 * kSignedInputs];
ASSAY_INLINE void set_near_rows(const std::int8_t* x, std::int64_t strip, std::int64_t rows,
                                std::int64_t inputs, NearRows& near) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::uint8_t* to = near + row * 2 * kSignedInputs;
    for (std::int64_t i = 0; i < inputs; i += Dot::kBytes)
      Dot::set_near(x + row * kInt8Columns + i / kInt8Columns * strip + i % kInt8Columns, to + i,
                    to + kSignedInputs + i);
  }
}

// The weights that come next, of which each block of rows fetches its share.
struct NextWeights {
  const void* first_panel;
  std::int64_t panel_bytes;  // to the next
  std::int64_t bytes;        // that each has
  // Where a block of rows and of outputs begins, and how much it fetches for 4 inputs.
  ASSAY_INLINE const std::byte* from(std::int64_t block, std::int64_t blocks, std::int64_t outputs) const {
    return static_cast<const std::byte*>(first_panel) + outputs * kSignedOutputs / kPanel * panel_bytes +
           bytes * block / blocks;
  }
  ASSAY_INLINE std::int64_t step(std::int64_t blocks) const {
    constexpr std::int64_t kSteps = kSignedInputs / 4;
    return (bytes + blocks * kSteps - 1) / (blocks * kSteps);
  }
};
// Where the outputs of a block of rows go.
ASSAY_INLINE void fetch_outputs(const LinearArgs& to, std::int64_t row, std::int64_t rows,
                                std::int64_t output) {
  if (to.y == nullptr) return;
  for (std::int64_t i = row; i < row + rows; ++i)
    for (std::int64_t j = 0; j < kSignedColumns; j += kPanel)
      __builtin_prefetch(to.y + i * to.y_stride + output + j, 1);
}
// Blocks of outputs of some panels: of an odd number the last may be its own neighbour.
constexpr std::int64_t blocks_of(std::int64_t panels) {
  return (panels * kPanel + kSignedOutputs - 1) / kSignedOutputs;
}
constexpr bool has_neighbour(std::int64_t block, std::int64_t panels) {
  return (block + 1) * kSignedOutputs <= panels * kPanel;
}
