#include "assay/quant/int4.h"

#include <algorithm>
#include <cmath>

#include "assay/quant/magnitude.h"

namespace assay {

const std::array<float, 16>& int4_codebook() {
  static constexpr std::array<float, 16> kBook = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
  return kBook;
}

const std::array<float, 16>& int4_codes() {
  static constexpr std::array<float, 16> kCodes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return kCodes;
}

void quantize_int4(std::span<const float> row, std::int64_t group, std::uint8_t* codes, float* scales) {
  const auto size = static_cast<std::size_t>(group);
  for (std::size_t first = 0; first < row.size(); first += size) {
    const auto part = row.subspan(first, std::min(size, row.size() - first));
    float largest = largest_magnitude(part);
    if (largest < 1e-37F) largest = 0;  // its inverse would be no number
    const auto at = std::find_if(part.begin(), part.end(), [&](float x) { return std::fabs(x) == largest; });
    const float scale = largest > 0 ? *at / -8.0F : 0.0F, inverse = largest > 0 ? 1.0F / scale : 0.0F;
    scales[first / size] = scale;
    // Adding and taking away 1.5 * 2^23 rounds to a whole number, ties to even: compilers make vectors of it.
    constexpr float kRounder = 12582912.0F;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const float level = std::clamp(part[i] * inverse + kRounder - kRounder, -8.0F, 7.0F);
      codes[first + i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(level) + 8);
    }
  }
}

}  // namespace assay
