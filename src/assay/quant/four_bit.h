// 4-bit formats of bitsandbytes, NF4 and FP4: a code per weight and a scale per block of consecutive weights
// (Dettmers et al. 2023; bitsandbytes 0.50, backends/default/ops.py, whose rules on a CPU these are).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace assay {

enum class FourBit { nf4, fp4 };

// The value of each code, between -1 and 1. Those of FP4 are not sorted; its codes 0 and 8 are both zero.
const std::array<float, 16>& codebook_of(FourBit type);

inline constexpr std::int64_t kFourBitBlock = 64;  // weights that share a scale
inline constexpr std::int64_t kNestedBlock = 256;  // scales that share one, where scales are quantized too

// Quantizes x, cut into blocks of `block` (the last may be shorter): codes[i] in 0 to 15, absmax[b] the
// largest magnitude of a block. A value half-way between two codes takes the lower value. codes holds
// x.size(), absmax ceil(x.size() / block) elements.
void quantize_four_bit(FourBit type, std::span<const float> x, std::int64_t block, std::uint8_t* codes,
                       float* absmax);

// The same scales alone.
void four_bit_scales(std::span<const float> x, std::int64_t block, float* absmax);

// Scales as 8-bit codes: map[codes[i]] * absmax[i / 256] + offset.
struct NestedScales {
  std::vector<std::uint8_t> codes;
  std::vector<float> absmax;
  float offset = 0;  // the mean of the scales
};
// The 256 values of the 8-bit codes, ascending ("dynamic map").
const std::array<float, 256>& dynamic_map();
NestedScales nest_scales(std::span<const float> scales);
// By a checkpoint's own map, or by the one above.
void unnest_scales(const NestedScales& nested, float* scales,
                   const std::array<float, 256>& map = dynamic_map());

}  // namespace assay
