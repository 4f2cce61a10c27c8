// Hopper's matrix multiplications of a warpgroup: four warps multiply 64 outputs by up to 256 rows, while
// they go on. Under nvcc these are instructions of sm_90a (kHasWarpgroups: the target has them), else the
// emulation.
//
//   A  the weights, in the registers of the warpgroup: warp w has outputs 16 w to 16 w + 15, as mma.m16n8k16
//      and m16n8k32 have them (PTX ISA, "Matrix Fragments for wgmma.mma_async.m64nNk16", "... m64nNk32"), so
//      that a tile of layout.h is one load
//   B  rows in shared memory, 128 bytes of each, 16-byte chunk c of row r at c ^ (r % 8)
//   D  the sums: d[4 j + i] is of output 16 w + g + 8 * (i / 2) and row 8 j + 2 t + i % 2
//
// The order (PTX ISA, "wgmma.fence", "wgmma.commit_group", "Async proxy"): who writes rows waits for its
// cp.async, calls fence_async_proxy() and comes to a barrier; then wgmma_fence(), products, wgmma_commit().
// Until wgmma_wait() says that the group is done, nothing touches its sums, its weights' registers or its
// rows.
#pragma once

#include "assay/backend/cuda/kernels/device.cuh"

#ifndef __CUDACC__

#include "cuda_emulation/warpgroups.h"

#else

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool kHasWarpgroups = true;
#define ASSAY_WGMMA_ASM(...) asm volatile(__VA_ARGS__)
#else
inline constexpr bool kHasWarpgroups = false;
#define ASSAY_WGMMA_ASM(...) static_cast<void>(0)
#endif

// A kernel that must not be launched on this target ends its context, which is seen, in place of wrong sums.
ASSAY_DEVICE void refuse() {
  asm volatile("trap;");
}

ASSAY_DEVICE std::uint32_t address_of_shared(std::int32_t byte) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_memory)) +
         static_cast<std::uint32_t>(byte);
}
// The first byte of shared memory whose address is a multiple of 1,024, where the pattern of the swizzle
// begins.
ASSAY_DEVICE std::int32_t first_swizzled_byte() {
  return static_cast<std::int32_t>((1024 - address_of_shared(0) % 1024) % 1024);
}

// Copies 16 bytes, or fills them with zeros (PTX ISA, "cp.async": src-size bytes are read, the rest is zero).
template <typename T>
ASSAY_DEVICE void cp_async_16_or_zero(const Shared<T>& to, std::int64_t element,
                                      const Global<const std::byte>& from, std::int64_t byte, bool is_there) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(&to[element]));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from.address() + byte),
               "r"(is_there ? 16 : 0)
               : "memory");
}

// 16 bytes, or zeros, by one load: ptxas serializes products whose weights' registers are set in two places.
static __device__ const Words4 no_weights = {};
ASSAY_DEVICE Words4 load_or_zero(const Global<const std::byte>& from, std::int64_t byte, bool is_there) {
  const Global<const std::byte> zeros(reinterpret_cast<const std::byte*>(&no_weights));
  return (is_there ? from + byte : zeros).load_once(0);
}

// PTX ISA, "Matrix Descriptor Format" of wgmma:
//   bits  0 to 13   (address & 0x3ffff) >> 4
//   bits 16 to 29   leading dimension byte offset >> 4: of swizzled K-major matrices not used, 1 is assumed
//   bits 32 to 45   stride dimension byte offset >> 4, K-major: from 8 rows to the next 8, here 1,024 bytes
//   bits 49 to 51   base offset: 0, as the pattern of the swizzle begins at a multiple of 1,024 bytes
//   bits 62 to 63   1: swizzle of 128 bytes
// A step of 32 bytes along K begins as many bytes later: the swizzle is of the bits of addresses.
ASSAY_DEVICE std::uint64_t swizzled_rows(std::int32_t byte) {
  return (address_of_shared(byte) & 0x3ffffU) >> 4 | std::uint64_t{1} << 16 | std::uint64_t{1024 >> 4} << 32 |
         std::uint64_t{1} << 62;
}

// What this thread wrote to shared memory, the asynchronous proxy of wgmma sees from here on.
ASSAY_DEVICE void fence_async_proxy() {
  ASSAY_WGMMA_ASM("fence.proxy.async.shared::cta;" ::: "memory");
}
ASSAY_DEVICE void wgmma_fence() {
  ASSAY_WGMMA_ASM("wgmma.fence.sync.aligned;" ::: "memory");
}
ASSAY_DEVICE void wgmma_commit() {
  ASSAY_WGMMA_ASM("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int GroupsLeft>
ASSAY_DEVICE void wgmma_wait() {
  ASSAY_WGMMA_ASM("wgmma.wait_group.sync.aligned %0;" ::"n"(GroupsLeft) : "memory");
}
// Keeps the compiler from moving what it does with registers over what stands before this.
template <int N>
ASSAY_DEVICE void hold(float (&x)[N]) {
  ASSAY_UNROLL
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(x[i])::"memory");
}
template <int N>
ASSAY_DEVICE void hold(std::int32_t (&x)[N]) {
  ASSAY_UNROLL
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(x[i])::"memory");
}

ASSAY_DEVICE void hold(Words4& x) {
  ASSAY_UNROLL
  for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(x.word[i])::"memory");
}

#define ASSAY_DIGITS(n) \
  "%" #n "0, %" #n "1, %" #n "2, %" #n "3, %" #n "4, %" #n "5, %" #n "6, %" #n "7, %" #n "8, %" #n "9, "
#define ASSAY_PLACES_32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, " ASSAY_DIGITS(1) ASSAY_DIGITS(2) "%30, %31"
#define ASSAY_PLACES_64                                                        \
  ASSAY_PLACES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, " ASSAY_DIGITS(4) \
      ASSAY_DIGITS(5) "%60, %61, %62, %63"
#define ASSAY_PLACES_128                                                                             \
  ASSAY_PLACES_64 ", %64, %65, %66, %67, %68, %69, " ASSAY_DIGITS(7) ASSAY_DIGITS(8) ASSAY_DIGITS(9) \
      ASSAY_DIGITS(10) ASSAY_DIGITS(11) "%120, %121, %122, %123, %124, %125, %126, %127"
#define ASSAY_SUMS_8(c, i)                                                                          \
  "+" c(d[i]), "+" c(d[i + 1]), "+" c(d[i + 2]), "+" c(d[i + 3]), "+" c(d[i + 4]), "+" c(d[i + 5]), \
      "+" c(d[i + 6]), "+" c(d[i + 7])
#define ASSAY_SUMS_32(c, i) \
  ASSAY_SUMS_8(c, i), ASSAY_SUMS_8(c, i + 8), ASSAY_SUMS_8(c, i + 16), ASSAY_SUMS_8(c, i + 24)
#define ASSAY_SUMS_64(c, i) ASSAY_SUMS_32(c, i), ASSAY_SUMS_32(c, i + 32)
#define ASSAY_SUMS_128(c, i) ASSAY_SUMS_64(c, i), ASSAY_SUMS_64(c, i + 64)

// d += a * b for 2 * `count` rows. The last operands: sums are added to, factors of A and B are 1, B is not
// transposed; int8 has the first alone.
#define ASSAY_WGMMA(name, T, constraint, count, shape, a_places, last)                                       \
  ASSAY_DEVICE void name(T(&d)[count], const std::uint32_t(&a)[4], std::uint64_t b) {                        \
    ASSAY_WGMMA_ASM("wgmma.mma_async.sync.aligned." shape " {" ASSAY_PLACES_##count "}, " a_places ", " last \
                                                                                    ";"                      \
                    : ASSAY_SUMS_##count(constraint, 0)                                                      \
                    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                   \
  }
#define ASSAY_WGMMA_OF_64(name, T, c, types, k, last) \
  ASSAY_WGMMA(name, T, c, 32, "m64n64" k types, "{%32, %33, %34, %35}, %36", last)
#define ASSAY_WGMMA_OF_128(name, T, c, types, k, last) \
  ASSAY_WGMMA(name, T, c, 64, "m64n128" k types, "{%64, %65, %66, %67}, %68", last)
#define ASSAY_WGMMA_OF_256(name, T, c, types, k, last) \
  ASSAY_WGMMA(name, T, c, 128, "m64n256" k types, "{%128, %129, %130, %131}, %132", last)
#define ASSAY_WGMMA_OF_ALL(name, T, c, types, k, last) \
  ASSAY_WGMMA_OF_64(name, T, c, types, k, last)        \
  ASSAY_WGMMA_OF_128(name, T, c, types, k, last)       \
  ASSAY_WGMMA_OF_256(name, T, c, types, k, last)
ASSAY_WGMMA_OF_ALL(wgmma_f16, float, "f", ".f32.f16.f16", "k16", "1, 1, 1, 0")
ASSAY_WGMMA_OF_ALL(wgmma_bf16, float, "f", ".f32.bf16.bf16", "k16", "1, 1, 1, 0")
ASSAY_WGMMA_OF_ALL(wgmma_s8, std::int32_t, "r", ".s32.s8.s8", "k32", "1")
#undef ASSAY_DIGITS
#undef ASSAY_PLACES_32
#undef ASSAY_PLACES_64
#undef ASSAY_PLACES_128
#undef ASSAY_SUMS_8
#undef ASSAY_SUMS_32
#undef ASSAY_SUMS_64
#undef ASSAY_SUMS_128
#undef ASSAY_WGMMA
#undef ASSAY_WGMMA_OF_64
#undef ASSAY_WGMMA_OF_128
#undef ASSAY_WGMMA_OF_256
#undef ASSAY_WGMMA_OF_ALL
#undef ASSAY_WGMMA_ASM

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device

#endif
