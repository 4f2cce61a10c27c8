#include "assay/quant/int8.h"

#include <algorithm>
#include <cmath>

namespace assay {

float quantize_int8(std::span<const float> row, std::int8_t* codes) {
  float largest = 0;
  for (const float x : row) largest = std::max(largest, std::fabs(x));
  const float scale = largest > 0 ? 127.0F / largest : 0.0F;
  for (std::size_t i = 0; i < row.size(); ++i)
    codes[i] = static_cast<std::int8_t>(std::nearbyint(row[i] * scale));
  return largest;
}

}  // namespace assay
