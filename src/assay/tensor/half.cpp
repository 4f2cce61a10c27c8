#include "assay/tensor/half.h"

#include <cassert>
#include <cstring>

namespace assay {

namespace {

template <float (*Convert)(std::uint16_t)>
void widen_16(const std::byte* stored, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, stored + 2 * i, sizeof(bits));
    out[i] = Convert(bits);
  }
}

}  // namespace

void widen(DType dtype, const std::byte* stored, std::size_t count, float* out) {
  switch (dtype) {
    case DType::f32:
      std::memcpy(out, stored, count * sizeof(float));
      return;
    case DType::f16:
      widen_16<f16_to_float>(stored, count, out);
      return;
    case DType::bf16:
      widen_16<bf16_to_float>(stored, count, out);
      return;
    default:
      assert(false && "only weight types widen");
  }
}

}  // namespace assay
