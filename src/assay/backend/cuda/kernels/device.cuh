// What kernels are written against: CUDA under nvcc, else the emulation of the tests, which offers the same
// and checks it (tests/cuda_emulation/emulation.h has the comments). A program may hold both: nvcc's host
// code has functions of the names that the emulation's have, and a linker keeps one of two. So whatever a
// .cuh file defines lies in the inline namespace ASSAY_COMPILED_FOR (tools/check_layers.py).
#pragma once

#ifndef __CUDACC__

#include "cuda_emulation/emulation.h"

#else

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "assay/backend/cuda/runtime.h"

#define ASSAY_COMPILED_FOR gpu
#define ASSAY_KERNEL __global__ void
#define ASSAY_KERNEL_OF(...) __global__ void __launch_bounds__(__VA_ARGS__)
#define ASSAY_DEVICE __device__ __forceinline__
#define ASSAY_UNROLL _Pragma("unroll")
#define ASSAY_NO_UNROLL _Pragma("unroll 1")

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

ASSAY_DEVICE std::int32_t thread_index() {
  return static_cast<std::int32_t>(threadIdx.x);
}
ASSAY_DEVICE std::int32_t block_threads() {
  return static_cast<std::int32_t>(blockDim.x);
}
ASSAY_DEVICE std::int32_t block_x() {
  return static_cast<std::int32_t>(blockIdx.x);
}
ASSAY_DEVICE std::int32_t block_y() {
  return static_cast<std::int32_t>(blockIdx.y);
}
ASSAY_DEVICE std::int32_t block_z() {
  return static_cast<std::int32_t>(blockIdx.z);
}
ASSAY_DEVICE std::int32_t grid_x() {
  return static_cast<std::int32_t>(gridDim.x);
}
ASSAY_DEVICE void barrier() {
  __syncthreads();
}
ASSAY_DEVICE void warp_barrier() {
  __syncwarp();
}

// Programmatic dependent launch (CUDA C++ Programming Guide, "Programmatic Dependent Launch and
// Synchronization"): a kernel may start before the one in front of it has ended, to load what that one does
// not write. It lets the next one start only once it has waited itself: so all kernels but the one in front
// have ended when a kernel starts. Every thread waits before it touches what the kernel in front writes, and
// before it ends.
ASSAY_DEVICE void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Lets the next kernel start before this one has waited. Kernels back to the last that did not do so may then
// still run: what they write none may read before it waits (Neighbours::lets_next_start).
ASSAY_DEVICE void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
struct alignas(16) Words4 {
  std::uint32_t word[4];
};
struct alignas(8) Floats2 {
  float x, y;
};

template <typename T>
class Global {
 public:
  Global() = default;
  ASSAY_DEVICE explicit Global(const DevicePointer<T>& pointer) : address_(pointer.address) {}
  ASSAY_DEVICE explicit Global(T* address) : address_(address) {}
  ASSAY_DEVICE explicit operator bool() const { return address_ != nullptr; }
  ASSAY_DEVICE Global operator+(std::int64_t elements) const { return Global(address_ + elements); }
  ASSAY_DEVICE T& operator[](std::int64_t i) const { return address_[i]; }
  template <typename U>
  ASSAY_DEVICE U load(std::int64_t i) const {
    return reinterpret_cast<const U*>(address_)[i];
  }
  // 16 bytes, by loads that stay where they stand: a compiler sinks others to their use, and a warp then
  // waits for each. What is read once leaves the L1 cache alone; what a kernel in front wrote goes past it.
  ASSAY_DEVICE Words4 load_once(std::int64_t i) const {
    Words4 r;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r.word[0]), "=r"(r.word[1]), "=r"(r.word[2]), "=r"(r.word[3])
                 : "l"(reinterpret_cast<const Words4*>(address_) + i)
                 : "memory");
    return r;
  }
  // The same of 2, 4 or 8 bytes.
  template <typename U>
  ASSAY_DEVICE U load_once_of(std::int64_t i) const {
    static_assert(sizeof(U) == 2 || sizeof(U) == 4 || sizeof(U) == 8);
    const U* at = reinterpret_cast<const U*>(address_) + i;
    U value;
    if constexpr (sizeof(U) == 2)
      asm volatile("ld.global.L1::no_allocate.u16 %0, [%1];" : "=h"(value) : "l"(at) : "memory");
    else if constexpr (sizeof(U) == 4)
      asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    else
      asm volatile("ld.global.L1::no_allocate.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
  }
  ASSAY_DEVICE Words4 load_shared_by_blocks(std::int64_t i) const {
    Words4 r;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r.word[0]), "=r"(r.word[1]), "=r"(r.word[2]), "=r"(r.word[3])
                 : "l"(reinterpret_cast<const Words4*>(address_) + i)
                 : "memory");
    return r;
  }
  // Brings the line of a 4-byte element into the L1 cache; nobody waits for it.
  ASSAY_DEVICE void prefetch(std::int64_t i) const {
    std::uint32_t unused;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(unused) : "l"(address_ + i));
  }
  template <typename U>
  ASSAY_DEVICE U load_written(std::int64_t i) const {
    static_assert(sizeof(U) == 4 || sizeof(U) == 8);
    const U* at = reinterpret_cast<const U*>(address_) + i;
    U value;
    if constexpr (sizeof(U) == 4) {
      std::uint32_t bits;
      asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(bits) : "l"(at) : "memory");
      memcpy(&value, &bits, sizeof bits);
    } else {
      std::uint64_t bits;
      asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(bits) : "l"(at) : "memory");
      memcpy(&value, &bits, sizeof bits);
    }
    return value;
  }
  template <typename U>
  ASSAY_DEVICE Global<U> as() const {
    return Global<U>(reinterpret_cast<U*>(address_));
  }
  ASSAY_DEVICE bool is_aligned(std::size_t bytes) const {
    return reinterpret_cast<std::uintptr_t>(address_) % bytes == 0;
  }
  ASSAY_DEVICE const T* address() const { return address_; }
  // The same, of which the compiler does not know how it was worked out, and so keeps it.
  ASSAY_DEVICE Global pinned() const {
    std::size_t address = __cvta_generic_to_global(address_);  // so that loads from it are known to be global
    asm volatile("" : "+l"(address));
    return Global(static_cast<T*>(const_cast<void*>(__cvta_global_to_generic(address))));
  }

 private:
  T* address_;
};

// x[i] = the larger of it and value, whoever else does the same.
ASSAY_DEVICE void atomic_max(const Global<std::uint64_t>& x, std::int64_t i, std::uint64_t value) {
  static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
  atomicMax(reinterpret_cast<unsigned long long*>(&x[i]), static_cast<unsigned long long>(value));
}

// x[i] counts from 0 to `last`, and behind it is 0 again, whoever else counts; gives what it was.
ASSAY_DEVICE std::uint32_t atomic_count(const Global<std::uint32_t>& x, std::int64_t i, std::uint32_t last) {
  return atomicInc(&x[i], last);
}
ASSAY_DEVICE void fence() {
  __threadfence();
}

extern __shared__ __align__(16) unsigned char shared_memory[];
template <typename T>
class Shared {
 public:
  ASSAY_DEVICE explicit Shared(std::int64_t byte) : elements_(reinterpret_cast<T*>(shared_memory + byte)) {}
  ASSAY_DEVICE T& operator[](std::int64_t i) const { return elements_[i]; }
  ASSAY_DEVICE T& at_byte(std::uint32_t byte) const {
    return *reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(elements_) + byte);
  }

 private:
  T* elements_;
};
template <typename T>
ASSAY_DEVICE Shared<T> shared(std::int64_t byte) {
  return Shared<T>(byte);
}

// GPUs before sm_80 have no such copy: theirs is there at once.
template <typename T>
ASSAY_DEVICE void cp_async_16(const Shared<T>& to, std::int64_t element, const Global<const std::byte>& from,
                              std::int64_t byte) {
#if __CUDA_ARCH__ < 800
  reinterpret_cast<Words4&>(to[element]) = (from + byte).template load<Words4>(0);
#else
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(&to[element]));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from.address() + byte)
               : "memory");
#endif
}
ASSAY_DEVICE void cp_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int GroupsLeft>
ASSAY_DEVICE void cp_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(GroupsLeft) : "memory");
#endif
}

template <typename T>
ASSAY_DEVICE T shuffle_xor(T value, int lanes) {
  return __shfl_xor_sync(0xffffffffU, value, lanes);
}
template <typename T>
ASSAY_DEVICE T shuffle_from(T value, int lane) {
  return __shfl_sync(0xffffffffU, value, lane);
}
ASSAY_DEVICE std::uint32_t ballot(bool vote) {
  return __ballot_sync(0xffffffffU, vote);
}

// The largest of a warp's, in all lanes.
ASSAY_DEVICE std::uint32_t largest_of_warp(std::uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffffU, value);
#else
  for (int lanes = 16; lanes > 0; lanes /= 2) value = max(value, shuffle_xor(value, lanes));
  return value;
#endif
}

ASSAY_DEVICE void ldmatrix_x4(std::uint32_t (&out)[4], const Shared<std::uint32_t>& from,
                              std::int64_t element) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(&from[element]));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}
ASSAY_DEVICE void ldmatrix_x4_trans(std::uint32_t (&out)[4], const Shared<std::uint32_t>& from,
                                    std::int64_t element) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(&from[element]));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define ASSAY_MMA(name, C, constraint, instruction)                                                        \
  ASSAY_DEVICE void name(C(&c)[4], const std::uint32_t(&a)[4], const std::uint32_t(&b)[2]) {               \
    asm("mma.sync.aligned." instruction " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
        : "+" constraint(c[0]), "+" constraint(c[1]), "+" constraint(c[2]), "+" constraint(c[3])           \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                               \
  }
ASSAY_MMA(mma_f16, float, "f", "m16n8k16.row.col.f32.f16.f16.f32")
ASSAY_MMA(mma_bf16, float, "f", "m16n8k16.row.col.f32.bf16.bf16.f32")
ASSAY_MMA(mma_s8, std::int32_t, "r", "m16n8k32.row.col.s32.s8.s8.s32")
ASSAY_MMA(mma_tf32, float, "f", "m16n8k8.row.col.f32.tf32.tf32.f32")
#undef ASSAY_MMA
#else
// Turing's instructions are smaller: two for a product in float16, four for one in int8. It has none for
// bfloat16 and TF32, which the host refuses (lower/supported.cpp).
ASSAY_DEVICE void mma_f16_half(float (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(b));
}
ASSAY_DEVICE void mma_f16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  mma_f16_half(c, a[0], a[1], b[0]);
  mma_f16_half(c, a[2], a[3], b[1]);
}
ASSAY_DEVICE void mma_s8_quarter(std::int32_t& c0, std::int32_t& c1, std::uint32_t a, std::uint32_t b) {
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+r"(c0), "+r"(c1)
      : "r"(a), "r"(b));
}
ASSAY_DEVICE void mma_s8(std::int32_t (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  mma_s8_quarter(c[0], c[1], a[0], b[0]);
  mma_s8_quarter(c[2], c[3], a[1], b[0]);
  mma_s8_quarter(c[0], c[1], a[2], b[1]);
  mma_s8_quarter(c[2], c[3], a[3], b[1]);
}
ASSAY_DEVICE void mma_bf16(float (&)[4], const std::uint32_t (&)[4], const std::uint32_t (&)[2]) {
  __trap();
}
ASSAY_DEVICE void mma_tf32(float (&)[4], const std::uint32_t (&)[4], const std::uint32_t (&)[2]) {
  __trap();
}
#endif

ASSAY_DEVICE std::uint32_t bits_of(float x) {
  return __float_as_uint(x);
}
ASSAY_DEVICE float float_of(std::uint32_t bits) {
  return __uint_as_float(bits);
}
// The same, of which the compiler does not know how it was worked out: what depends on it is worked out anew
// in each turn of a loop, and takes no registers meanwhile.
ASSAY_DEVICE std::int32_t opaque(std::int32_t x) {
  asm volatile("" : "+r"(x));
  return x;
}
// 2^x by one instruction, within 2^-22 of it; what is below 2^-126 is 0.
ASSAY_DEVICE float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// 1 / x by one instruction, within 2^-23 of it, for x of at least 2^-126.
ASSAY_DEVICE float inverse_of(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
ASSAY_DEVICE float bf16_value(std::uint32_t bits) {
  return __uint_as_float(bits << 16);
}
ASSAY_DEVICE float f16_value(std::uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}
ASSAY_DEVICE std::uint32_t bf16_bits(float x) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
ASSAY_DEVICE std::uint32_t f16_bits(float x) {
  return __half_as_ushort(__float2half_rn(x));
}
// Two, of which the first is in the low half, by one instruction.
ASSAY_DEVICE std::uint32_t bf16_pair(float x, float y) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
  std::uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}
ASSAY_DEVICE std::uint32_t f16_pair(float x, float y) {
  const __half2 pair = __floats2half2_rn(x, y);
  std::uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}
// The sums of two pairs of 16-bit numbers, one by one.
ASSAY_DEVICE std::uint32_t f16_sums(std::uint32_t x, std::uint32_t y) {
  __half2 a, b;
  memcpy(&a, &x, sizeof x);
  memcpy(&b, &y, sizeof y);
  const __half2 sums = __hadd2(a, b);
  std::uint32_t bits;
  memcpy(&bits, &sums, sizeof bits);
  return bits;
}
ASSAY_DEVICE std::uint32_t bf16_sums(std::uint32_t x, std::uint32_t y) {
  __nv_bfloat162 a, b;
  memcpy(&a, &x, sizeof x);
  memcpy(&b, &y, sizeof y);
  const __nv_bfloat162 sums = __hadd2(a, b);
  std::uint32_t bits;
  memcpy(&bits, &sums, sizeof bits);
  return bits;
}
// (x & mask) | bits by one instruction: a compiler makes two of it where both are constants.
ASSAY_DEVICE std::uint32_t masked_or(std::uint32_t x, std::uint32_t mask, std::uint32_t bits) {
  std::uint32_t y;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(y) : "r"(x), "r"(mask), "r"(bits));
  return y;
}
// Four of the eight bytes of x and y, those that the low nibbles of `which` name.
ASSAY_DEVICE std::uint32_t bytes_of(std::uint32_t x, std::uint32_t y, std::uint32_t which) {
  return __byte_perm(x, y, which);
}
ASSAY_DEVICE std::uint32_t tf32_bits(float x) {
  std::uint32_t bits = 0;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
#endif
  return bits;
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device

#endif
