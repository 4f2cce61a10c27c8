// What a code stands for before it is scaled, for each format: the number that codes are multiplied as.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "assay/quant/format.h"

namespace assay {

// llama.cpp's kvalues_iq4nl, and OCP's FP4 (Microscaling Formats Specification 1.0, 5.3.3); the latter's
// negative zero is plain zero, as llama.cpp has it.
const std::array<float, 16>& iq4_nl_codebook();
const std::array<float, 16>& e2m1_codebook();

// The value of every code of a grouped format, 2^bits of them.
std::vector<float> code_values(const WeightFormat& format);

// All scales of a matrix in a format with super-blocks, in the order of ScaleLayout: the whole number of each
// group as its file has it, and the float16 factors of each super-block. Minima, which are subtracted, are
// empty where the format has none.
struct SuperBlocks {
  std::vector<std::uint8_t> scales, minima;
  std::vector<std::uint16_t> scale_factors, minimum_factors;
};

// The whole number that the scale of a group is in its super-block.
constexpr float scale_code_value(const WeightFormat& format, std::uint8_t code) {
  if (format.scale == ScaleType::int8) return static_cast<float>(static_cast<std::int8_t>(code));
  const bool has_sign = format.scale == ScaleType::bits6 && format.offset == Offset::none;
  return static_cast<float>(code - (has_sign ? 32 : 0));
}

}  // namespace assay
