// What the emulation has for instructions of arithmetic (kernels/device.cuh). emulation.h includes it.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda_emulation/emulation.h"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// Four 8 x 8 matrices of 16-bit elements; lane 8 j + r names row r of matrix j, 16 bytes.
void ldmatrix_x4(std::uint32_t (&out)[4], const Shared<std::uint32_t>& from, std::int64_t element);
void ldmatrix_x4_trans(std::uint32_t (&out)[4], const Shared<std::uint32_t>& from, std::int64_t element);

// c += a * b by the fragment layouts of the PTX ISA.
void mma_f16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);
void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);
void mma_s8(std::int32_t (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);
void mma_tf32(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);

inline float bf16_value(std::uint32_t bits) {
  return bf16_to_float(static_cast<std::uint16_t>(bits));
}
inline float f16_value(std::uint32_t bits) {
  return f16_to_float(static_cast<std::uint16_t>(bits));
}
inline std::uint32_t bf16_bits(float x) {
  return float_to_bf16(x);
}
inline std::uint32_t f16_bits(float x) {
  return float_to_f16(x);
}
inline std::int32_t opaque(std::int32_t x) {
  return x;
}
inline float exp2_of(float x) {
  return std::exp2(x);
}
inline float inverse_of(float x) {
  return 1.0F / x;
}
inline std::uint32_t bf16_pair(float x, float y) {
  return bf16_bits(x) | bf16_bits(y) << 16;
}
inline std::uint32_t f16_pair(float x, float y) {
  return f16_bits(x) | f16_bits(y) << 16;
}
// Each is rounded once: a float holds any sum of two such numbers of like size.
inline std::uint32_t f16_sums(std::uint32_t x, std::uint32_t y) {
  return f16_pair(f16_value(x & 0xffffU) + f16_value(y & 0xffffU), f16_value(x >> 16) + f16_value(y >> 16));
}
inline std::uint32_t bf16_sums(std::uint32_t x, std::uint32_t y) {
  return bf16_pair(bf16_value(x & 0xffffU) + bf16_value(y & 0xffffU),
                   bf16_value(x >> 16) + bf16_value(y >> 16));
}
inline std::uint32_t masked_or(std::uint32_t x, std::uint32_t mask, std::uint32_t bits) {
  return (x & mask) | bits;
}
// A nibble of 8 and more would copy a sign: kernels have none.
inline std::uint32_t bytes_of(std::uint32_t x, std::uint32_t y, std::uint32_t which) {
  const std::uint64_t all = std::uint64_t{y} << 32 | x;
  std::uint32_t bytes = 0;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t nibble = which >> (4 * i) & 15U;
    const auto byte = static_cast<std::uint32_t>(all >> (8 * (nibble & 7U)) & 255U);
    bytes |= (nibble < 8 ? byte : (byte & 128U) != 0 ? 255U : 0U) << (8 * i);
  }
  return bytes;
}
// To the nearest, ties away from zero.
inline std::uint32_t tf32_bits(float x) {
  const std::uint32_t bits = bits_of(x);
  return (bits & 0x7fffffffU) >= 0x7f800000U ? bits : (bits + 0x1000U) & ~0x1fffU;
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
