#include "assay/quant/int8.h"

#include "assay/quant/magnitude.h"

namespace assay {

float quantize_int8(std::span<const float> row, std::int8_t* codes) {
  const float largest = largest_magnitude(row);
  // Two roundings, as PyTorch divides a number by a tensor. Below the limit the first would be infinite.
  const float scale = largest > 1e-38F ? 1.0F / largest * 127.0F : 0.0F;
  // Adding and taking away 1.5 * 2^23 rounds to a whole number, ties to even, as nearbyint does: compilers
  // make vectors of it.
  constexpr float kRounder = 12582912.0F;
  for (std::size_t i = 0; i < row.size(); ++i)
    codes[i] = static_cast<std::int8_t>(static_cast<std::int32_t>(row[i] * scale + kRounder - kRounder));
  return largest;
}

}  // namespace assay
