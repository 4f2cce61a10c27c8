// The scalar kernel of grouped codes: the reference of the faster ones.
#include "assay/backend/cpu/kernels/grouped_codes.h"

namespace assay::cpu::scalar {

void expand_grouped(const ExpandGroupedArgs& args) noexcept {
  const GroupedCodes& weights = args.weights;
  const bool is_float32 = args.packing == Packing::float32;
  for (std::int64_t panel = 0; panel < args.panels; ++panel)
    for (std::int64_t k = 0; k < (is_float32 ? weights.k : weights.k_padded); ++k)
      for (std::int64_t j = 0; j < kPanel; ++j) {
        const float value = k < weights.k ? weights.value(panel, j, k) : 0.0F;
        if (is_float32)
          static_cast<float*>(args.out)[(panel * weights.k + k) * kPanel + j] = value;
        else
          static_cast<std::uint16_t*>(
              args.out)[(panel * weights.k_padded + k / 2 * 2) * kPanel + j * 2 + k % 2] =
              float_to_bf16(value);
      }
}

}  // namespace assay::cpu::scalar
