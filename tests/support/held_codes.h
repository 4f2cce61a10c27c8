// Panels of grouped codes for tests of the kernels that read them.
#pragma once

#include "assay/backend/common/grouped_codes.h"
#include "assay/backend/cpu/kernels/grouped_codes.h"
#include "assay/base/random.h"
#include "assay/quant/code_values.h"
#include "support/guarded.h"

namespace assay::test {

inline constexpr WeightFormat kHeldFormats[] = {
    formats::kQ8_0,  formats::kQ4_0,  formats::kQ4_1,  formats::kQ5_0, formats::kQ5_1,
    formats::kIq4Nl, formats::kMxfp4, formats::kQ2K,   formats::kQ3K,  formats::kQ4K,
    formats::kQ5K,   formats::kQ6K,   formats::kIq4Xs, formats::kTq2_0};

inline std::vector<std::byte> any_bytes(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  for (std::byte& each : bytes) each = static_cast<std::byte>(256 * random.uniform());
  return bytes;
}

// Panels of random codes, and of random scales: any at all, or small numbers.
class HeldCodes {
 public:
  HeldCodes(const WeightFormat& format, std::int64_t k, std::int64_t panels, bool has_any_scale)
      : values_(code_values(format)),
        shape_{.codes = nullptr,
               .scales = nullptr,
               .values = values_.data(),
               .bits = format.bits,
               .run = scale_run_of(format),
               .k = k,
               .k_padded = cpu::round_up(k, kSpan)},
        codes_(any_bytes(panels * shape_.code_bytes(), 3)),
        scales_(made_scales(format, panels * shape_.scale_bytes(), has_any_scale)) {
    shape_.codes = codes_.data();
    shape_.scales = scales_.data();
  }
  const cpu::GroupedCodes& args() const { return shape_; }

 private:
  static std::vector<std::byte> made_scales(const WeightFormat& format, std::int64_t count, bool is_any) {
    std::vector<std::byte> bytes = any_bytes(count, 4);
    if (is_any) return bytes;
    const bool is_e8m0 = format.scale == ScaleType::e8m0;
    for (std::byte& each : bytes)  // magnitudes below 1 as float16, with either sign
      each = is_e8m0 ? std::byte{120} ^ (each & std::byte{7}) : each & std::byte{0xbb};
    return bytes;
  }
  std::vector<float> values_;
  cpu::GroupedCodes shape_;
  Guarded<std::byte> codes_, scales_;
};

}  // namespace assay::test
