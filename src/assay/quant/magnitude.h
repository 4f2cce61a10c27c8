// The largest magnitude of some numbers.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

namespace assay {

// max |x|, 0 of none. Of numbers without NaN: their bits, without the sign, are in the order of their
// magnitudes, and of integers compilers make vectors.
inline float largest_magnitude(std::span<const float> x) {
  std::int32_t largest = 0;
  for (const float value : x)
    largest = std::max(largest, std::bit_cast<std::int32_t>(value) & std::int32_t{0x7fffffff});
  return std::bit_cast<float>(largest);
}

}  // namespace assay
