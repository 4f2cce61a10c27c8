// Warpgroup products of the emulation (kernels/wgmma.cuh says what they are): four warps do them together,
// from the memory that the descriptor names.
//
// Reported: rows that are read before cp.async is waited for, before fence_async_proxy(), or without a
// barrier behind it; rows that are written, and registers of weights that change, before the product is
// waited for; products without wgmma_fence() in front of their group; sums that are written before they are
// waited for, and threads that end before. Until then sums hold kUnfinished, which as a float is no number.
#pragma once

#include <cstdint>
#include <functional>

#include "cuda_emulation/emulation.h"

namespace assay::cuda::emulation {

inline constexpr std::uint32_t kUnfinished = 0x7fb0dead;
// Where shared memory begins for descriptors: no multiple of the swizzle's pattern.
inline constexpr std::int64_t kSharedAddress = 1040;

// Whether a thread of the block has products that it has to wait for.
extern int products_in_flight[1024];
void forget_products();

// The last of the 128 threads to come does it for all.
void warpgroup_operation(const char* what, void* mine, const std::function<void(void* const*)>& function);
// 4-byte cells that a product may read from now on, and has read.
void begin_product_read(std::int64_t first, std::int64_t count);
void end_product_read(std::int64_t first, std::int64_t count);
void show_writes();

enum class ProductType : std::uint8_t { float16, bfloat16, int8 };
// `sums`: those of a thread, for twice as many rows.
void multiply(ProductType type, void* d, int sums, const std::uint32_t* a, std::uint64_t b);
void fence_products();
void commit_products();
void wait_for_products(int groups_left);
void copy_zeros(std::int64_t to_byte);

}  // namespace assay::cuda::emulation

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

inline constexpr bool kHasWarpgroups = true;
inline void refuse() {
  emulation::fail("it refuses to run on this target");
}

inline std::int32_t first_swizzled_byte() {
  return static_cast<std::int32_t>((1024 - emulation::kSharedAddress % 1024) % 1024);
}
template <typename T>
void cp_async_16_or_zero(const Shared<T>& to, std::int64_t element, const Global<const std::byte>& from,
                         std::int64_t byte, bool is_there) {
  if (is_there)
    cp_async_16(to, element, from, byte);
  else
    emulation::copy_zeros(to.byte() + element * static_cast<std::int64_t>(sizeof(T)));
}
inline Words4 load_or_zero(const Global<const std::byte>& from, std::int64_t byte, bool is_there) {
  return is_there ? (from + byte).load_once(0) : Words4{};
}
inline std::uint64_t swizzled_rows(std::int32_t byte) {
  return static_cast<std::uint64_t>(emulation::kSharedAddress + byte) >> 4 | std::uint64_t{1} << 16 |
         std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 62;
}
inline void fence_async_proxy() {
  emulation::show_writes();
}
inline void wgmma_fence() {
  emulation::fence_products();
}
inline void wgmma_commit() {
  emulation::commit_products();
}
template <int GroupsLeft>
void wgmma_wait() {
  emulation::wait_for_products(GroupsLeft);
}
template <typename T>
void hold(T& /*registers*/) {}

template <int N>
void wgmma_f16(float (&d)[N], const std::uint32_t (&a)[4], std::uint64_t b) {
  emulation::multiply(emulation::ProductType::float16, d, N, a, b);
}
template <int N>
void wgmma_bf16(float (&d)[N], const std::uint32_t (&a)[4], std::uint64_t b) {
  emulation::multiply(emulation::ProductType::bfloat16, d, N, a, b);
}
template <int N>
void wgmma_s8(std::int32_t (&d)[N], const std::uint32_t (&a)[4], std::uint64_t b) {
  emulation::multiply(emulation::ProductType::int8, d, N, a, b);
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
