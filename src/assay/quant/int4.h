// Groupwise int4: sixteen even levels and a float scale per group of consecutive inputs of an output, by
// rounding to the nearest: the rule of llama.cpp's Q4_0 and of the symmetric MatMulNBits of ONNX Runtime.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace assay {

inline constexpr std::int64_t kInt4Group = 128;

// A code's value before scaling: code - 8, from -8 to 7.
const std::array<float, 16>& int4_codebook();

// The same where a group has a zero point or minimum: the code itself, from 0 to 15.
const std::array<float, 16>& int4_codes();

// Quantizes one output's inputs, cut into groups of `group` (the last may be shorter; no group crosses
// outputs). With m the value of a group's largest magnitude (the first of equals, with its sign): scale = m /
// -8, so that m itself has code 0 and is kept; inverse = 1 / scale; codes[i] = clamp(rint(row[i] * inverse),
// -8, 7) + 8, ties to even. All in float32. A group of zeros, or of magnitudes below 1e-37, gets scale 0 and
// codes 8. codes holds row.size(), scales ceil(row.size() / group) elements.
void quantize_int4(std::span<const float> row, std::int64_t group, std::uint8_t* codes, float* scales);

}  // namespace assay
