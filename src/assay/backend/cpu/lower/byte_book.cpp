// Values of 4-bit codes as bytes, which products of bytes multiply.
#include <algorithm>
#include <cmath>

#include "assay/backend/cpu/lower/pack.h"
#include "assay/quant/quantizer.h"

namespace assay::cpu {

ByteCodebook byte_codebook_of(const std::array<float, 16>& codebook) {
  float highest = 0;
  for (const float value : codebook) highest = std::max(highest, std::fabs(value));
  ByteCodebook best{};
  double least = 0;
  // From three quarters of the range to all of it: less would waste a bit.
  for (int sixteenths = 96 * 16; sixteenths <= 127 * 16; ++sixteenths) {
    ByteCodebook tried{};
    tried.unit = highest / (static_cast<float>(sixteenths) / 16);
    double squares = 0;
    for (std::size_t i = 0; i < codebook.size(); ++i) {
      const float value = std::nearbyint(codebook[i] / tried.unit);
      const double error = static_cast<double>(value * tried.unit) - static_cast<double>(codebook[i]);
      tried.values[i] = static_cast<std::int8_t>(value);
      squares += error * error;
    }
    if (sixteenths > 96 * 16 && squares >= least) continue;
    least = squares;
    best = tried;
  }
  return best;
}

const ByteCodebook& PackedWeight::byte_codebook() const {
  static const ByteCodebook nf4 = byte_codebook_of(codebook_values(formats::kNf4)),
                            fp4 = byte_codebook_of(codebook_values(formats::kFp4)),
                            int4 = byte_codebook_of(codebook_values(formats::kInt4G128));
  if (spec.format.element == ElementType::integer) return int4;  // formats with offsets need none
  return spec.format.element == ElementType::nf4 ? nf4 : fp4;
}

}  // namespace assay::cpu
