// How codes of 2 to 8 bits lie whose groups of inputs have scales of their own, as checkpoints hold them
// (GGUF's block types), on every device: in panels of 16 outputs. No bit is added to what the file has.
//
// Codes: 32 inputs of a panel are a span of 64 * bits bytes, first a plane of the codes' low bits, then,
// where there are any, one of their high bits. A plane of w bits is lines of 64 bytes, a word of 4 for each
// output, which hold 32 / w inputs: input i lies in byte i % 4 of the word, w * (i / 4) bits up.
//
// Scales: each run of groups has a string of bits for each output: whole numbers, and float16 factors
// (ScaleRun). It is cut into words of 4 bytes, those of all outputs side by side; the last may be 2 bytes
// or 1.
#pragma once

#include <cstdint>

#ifndef ASSAY_HOST_DEVICE
#ifdef __CUDACC__
#define ASSAY_HOST_DEVICE __host__ __device__
#else
#define ASSAY_HOST_DEVICE
#endif
#endif

namespace assay {

inline constexpr std::int64_t kGroupedOutputs = 16, kSpan = 32;

struct CodePlanes {
  int low, high;  // bits; high 0: none
};
ASSAY_HOST_DEVICE constexpr CodePlanes planes_of_code(int bits) {
  return bits == 8 ? CodePlanes{8, 0} : bits >= 4 ? CodePlanes{4, bits - 4} : CodePlanes{2, bits - 2};
}

// Where the part of a code that a plane of `width` bits holds lies: the word in the plane of its span, in
// bytes, and how many bits up in it.
ASSAY_HOST_DEVICE constexpr std::int64_t plane_word(int width, std::int64_t k, std::int64_t output) {
  return k % kSpan / (32 / width) * (kGroupedOutputs * 4) + output * 4;
}
ASSAY_HOST_DEVICE constexpr int plane_shift(int width, std::int64_t k) {
  return static_cast<int>(k % 4) * 8 + width * static_cast<int>(k % (32 / width) / 4);
}
// Bytes of a panel.
ASSAY_HOST_DEVICE constexpr std::int64_t grouped_code_bytes(int bits, std::int64_t inputs) {
  return (inputs + kSpan - 1) / kSpan * kGroupedOutputs * 4 * bits;
}

// The scales of a group, or of the groups of a super-block: where each number begins in an output's string of
// bits. scale = factor * (number - zero) and offset = -(minimum factor * minimum), or the factors themselves.
struct ScaleRun {
  std::int32_t code_bits = 0;            // that it scales codes of
  std::int32_t groups = 1, inputs = 32;  // that it has
  std::int32_t number_bits = 0;          // planes hold the low 4 or 8; 0: factors alone
  bool is_e8m0 = false, has_minima = false;
  std::int32_t zero = 0;
  std::int32_t minima_at = 0, highs_at = 0, minimum_highs_at = 0, factor_at = 0, minimum_factor_at = 0;
  std::int32_t bits = 0;  // that the string has

  ASSAY_HOST_DEVICE constexpr std::int32_t low_bits() const { return number_bits == 8 ? 8 : 4; }
  ASSAY_HOST_DEVICE constexpr std::int32_t group() const { return inputs / groups; }
  ASSAY_HOST_DEVICE constexpr std::int64_t bytes() const { return bits / 8 * kGroupedOutputs; }
  // That the runs of a panel take.
  ASSAY_HOST_DEVICE constexpr std::int64_t panel_bytes(std::int64_t columns) const {
    return (columns + inputs - 1) / inputs * bytes();
  }
  // The byte of a run in which a bit of an output's string lies; it is bit % 8 up in it.
  ASSAY_HOST_DEVICE constexpr std::int64_t byte_of(std::int32_t bit, std::int64_t output) const {
    const std::int32_t word = bit / 32, left = bits / 8 - word * 4;
    return word * kGroupedOutputs * 4 + output * (left < 4 ? left : 4) + bit % 32 / 8;
  }
};

// That of a super-block whose groups have numbers of 4, 6 or 8 bits.
ASSAY_HOST_DEVICE constexpr ScaleRun run_of_super_block(std::int32_t code_bits, std::int32_t inputs,
                                                        std::int32_t groups, std::int32_t number_bits,
                                                        bool has_minima) {
  ScaleRun run;
  run.code_bits = code_bits;
  run.inputs = inputs;
  run.groups = groups;
  run.number_bits = number_bits;
  run.has_minima = has_minima;
  run.zero = has_minima ? 0 : 1 << (number_bits - 1);
  const std::int32_t lows = groups * run.low_bits(), highs = number_bits == 6 ? groups * 2 : 0;
  run.bits = lows;
  if (has_minima) {
    run.minima_at = run.bits;
    run.bits += lows;
  }
  if (highs > 0) run.highs_at = run.bits;
  run.bits += highs;
  if (highs > 0 && has_minima) {
    run.minimum_highs_at = run.bits;
    run.bits += highs;
  }
  run.factor_at = run.bits;
  if (has_minima) run.minimum_factor_at = run.bits + 16;
  run.bits += has_minima ? 32 : 16;
  return run;
}

}  // namespace assay
