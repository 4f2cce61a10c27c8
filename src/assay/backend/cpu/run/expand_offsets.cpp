#include "assay/backend/cpu/run/expand_offsets.h"

#include "assay/backend/cpu/kernels/grouped_codes.h"
#include "assay/tensor/half.h"

namespace assay::cpu {

void expand_offsets(const ExpandArgs& args, const float* offsets, const std::int32_t* input_groups) {
  const std::int64_t groups = (args.k_padded + args.group - 1) / args.group;
  const bool is_float32 = args.packing == Packing::float32;
  const auto scale_at = [&](std::int64_t i) {
    return args.scales.are_bfloat16 ? bf16_to_float(static_cast<const std::uint16_t*>(args.scales.data)[i])
                                    : static_cast<const float*>(args.scales.data)[i];
  };
  for (std::int64_t panel = 0; panel < args.panels; ++panel) {
    const std::uint8_t* codes = args.codes + panel * args.k_padded / 2 * kPanel;
    for (std::int64_t k = 0; k < (is_float32 ? args.k : args.k_padded); ++k) {
      const std::int64_t group = input_groups == nullptr ? k / args.group : input_groups[k];
      for (std::int64_t j = 0; j < kPanel; ++j) {
        const std::int64_t at = (panel * groups + group) * kPanel + j;
        const int code = codes[code_offset(k, j)] >> code_shift(k) & 15;
        float value = args.codebook[code] * scale_at(at) + (offsets == nullptr ? 0.0F : offsets[at]);
        if (k >= args.k) value = 0;  // which a code of 0 is not here
        if (is_float32)
          static_cast<float*>(args.out)[(panel * args.k + k) * kPanel + j] = value;
        else
          static_cast<std::uint16_t*>(
              args.out)[(panel * args.k_padded + k / 2 * 2) * kPanel + j * 2 + k % 2] = float_to_bf16(value);
      }
    }
  }
}

}  // namespace assay::cpu
