// The ways from 4-bit codes to 16-bit operands A (CodesBy in kernels/launch_choice.h).
#pragma once

#include "assay/backend/cuda/kernels/linear.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

template <CodesBy By>
inline constexpr std::int64_t kCodeTableBytes = By == CodesBy::table          ? kBankTableBytes
                                                : By == CodesBy::spaced_table ? 2 * kBankTableBytes
                                                                              : 0;

// Made by all threads of a block, a barrier in front of its first use.
template <typename Type, CodesBy By>
class CodeOperands {
 public:
  ASSAY_DEVICE CodeOperands(const Matrix& weight, std::int32_t lane)
      : table_(shared<std::uint32_t>(0)), lane_bytes_(static_cast<std::uint32_t>(lane) * 4) {
    if constexpr (By != CodesBy::integers) make_bank_tables<Type, kPitch>(table_, weight);
  }
  // The four registers of a k16 step, of 8 codes.
  ASSAY_DEVICE void expand(std::uint32_t (&a)[4], std::uint32_t codes) const {
    if constexpr (By == CodesBy::integers) {
      constexpr std::uint32_t kZero = Type::kInteger * 0x00010001U, kLessEight = 0x80088008U;
      const std::uint32_t odd = codes >> 4;
      ASSAY_UNROLL
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint32_t pair = masked_or(bytes_of(codes, odd, 0x4400U + 0x1111U * i), 0x000f000fU, kZero);
        a[i] = Type::sums(pair, kZero | kLessEight);
      }
    } else {
      ASSAY_UNROLL
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint32_t shifted = i == 0 ? codes << 7 : codes >> (8 * i - 7);
        a[i] = table_.at_byte(By == CodesBy::spaced_table ? bytes_of(codes, lane_bytes_, 0x5504U + 0x10U * i)
                                                          : (shifted & 0x7f80U) | lane_bytes_);
      }
    }
  }

 private:
  static constexpr std::int32_t kPitch = static_cast<std::int32_t>(kCodeTableBytes<By> / (256 * 4));

  Shared<std::uint32_t> table_;
  std::uint32_t lane_bytes_;
};

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
