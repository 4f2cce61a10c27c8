// What warps compute together in the emulation: ballots, ldmatrix, mma.
#include <algorithm>

#include "cuda_emulation/emulation.h"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

namespace {

struct Vote {
  bool vote;
  std::uint32_t all;
};

struct Matrices {
  const std::uint32_t* rows;  // this lane's 16 bytes, 4 words
  std::uint32_t out[4];
};
std::uint32_t half_of(void* const* lanes, int lane, int element) {
  const std::uint32_t word = static_cast<const Matrices*>(lanes[lane])->rows[element / 2];
  return element % 2 == 0 ? word & 0xffffU : word >> 16;
}

template <bool IsTransposed>
void matrices(std::uint32_t (&out)[4], const Shared<std::uint32_t>& from, std::int64_t element) {
  const std::int64_t byte = from.byte() + element * 4;
  emulation::check_shared(byte, 16, 16);
  emulation::read_shared(byte / 4, 4);
  Matrices mine{reinterpret_cast<const std::uint32_t*>(emulation::shared_memory + byte), {}};
  emulation::warp_operation(
      emulation::WarpOperation::matrices, IsTransposed ? 1 : 0, &mine, [](void* const* lanes) {
        for (int lane = 0; lane < 32; ++lane)
          for (int j = 0; j < 4; ++j) {
            const int g = lane / 4, t = lane % 4;
            const std::uint32_t low = IsTransposed ? half_of(lanes, 8 * j + 2 * t, g)
                                                   : half_of(lanes, 8 * j + g, 2 * t),
                                high = IsTransposed ? half_of(lanes, 8 * j + 2 * t + 1, g)
                                                    : half_of(lanes, 8 * j + g, 2 * t + 1);
            static_cast<Matrices*>(lanes[lane])->out[j] = low | high << 16;
          }
      });
  std::copy_n(mine.out, 4, out);
}

template <typename C>
struct Operands {
  C* c;
  const std::uint32_t *a, *b;
};

// Lane l of a fragment, g = l / 4, t = l % 4, element i in the order of registers (PTX ISA, "Matrix
// Fragments"): where it is in A and B.
struct Halves {
  static constexpr int kInputs = 16, kA = 8, kB = 4;
  static int a_row(int g, int i) { return g + 8 * (i / 2 % 2); }
  static int a_k(int t, int i) { return 2 * t + i % 2 + 8 * (i / 4); }
  static int b_k(int t, int i) { return 2 * t + i % 2 + 8 * (i / 2); }
  static std::uint32_t element(const std::uint32_t* registers, int i) {
    return registers[i / 2] >> (16 * (i % 2)) & 0xffffU;
  }
};
struct Float16 : Halves {
  static float value(std::uint32_t bits) { return f16_value(bits); }
};
struct Bfloat16 : Halves {
  static float value(std::uint32_t bits) { return bf16_value(bits); }
};
struct Tf32 {
  static constexpr int kInputs = 8, kA = 4, kB = 2;
  static int a_row(int g, int i) { return g + 8 * (i % 2); }
  static int a_k(int t, int i) { return t + 4 * (i / 2); }
  static int b_k(int t, int i) { return t + 4 * i; }
  static std::uint32_t element(const std::uint32_t* registers, int i) { return registers[i]; }
  static float value(std::uint32_t bits) { return float_of(bits & ~0x1fffU); }
};
struct Bytes {
  static constexpr int kInputs = 32, kA = 16, kB = 8;
  static int a_row(int g, int i) { return g + 8 * (i / 4 % 2); }
  static int a_k(int t, int i) { return 4 * t + i % 4 + 16 * (i / 8); }
  static int b_k(int t, int i) { return 4 * t + i % 4 + 16 * (i / 4); }
  static std::uint32_t element(const std::uint32_t* registers, int i) {
    return registers[i / 4] >> (8 * (i % 4)) & 0xffU;
  }
  static std::int32_t value(std::uint32_t bits) { return static_cast<std::int8_t>(bits); }
};

template <typename Layout, typename Sum, typename C>
void multiply(void* const* lanes) {
  using Value = decltype(Layout::value(0));
  Value a[16][Layout::kInputs], b[Layout::kInputs][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& one = *static_cast<const Operands<C>*>(lanes[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < Layout::kA; ++i)
      a[Layout::a_row(g, i)][Layout::a_k(t, i)] = Layout::value(Layout::element(one.a, i));
    for (int i = 0; i < Layout::kB; ++i) b[Layout::b_k(t, i)][g] = Layout::value(Layout::element(one.b, i));
  }
  Sum sums[16][8] = {};
  for (int row = 0; row < 16; ++row)
    for (int k = 0; k < Layout::kInputs; ++k)
      for (int column = 0; column < 8; ++column)
        sums[row][column] += static_cast<Sum>(a[row][k]) * static_cast<Sum>(b[k][column]);
  for (int lane = 0; lane < 32; ++lane) {
    const auto& one = *static_cast<const Operands<C>*>(lanes[lane]);
    for (int i = 0; i < 4; ++i)
      one.c[i] =
          static_cast<C>(static_cast<Sum>(one.c[i]) + sums[lane / 4 + 8 * (i / 2)][lane % 4 * 2 + i % 2]);
  }
}
template <typename Layout, typename Sum, typename C>
void mma(int kind, C (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  Operands<C> mine{c, a, b};
  emulation::warp_operation(emulation::WarpOperation::mma, static_cast<std::uint64_t>(kind), &mine,
                            multiply<Layout, Sum, C>);
}

}  // namespace

std::uint32_t ballot(bool vote) {
  Vote mine{vote, 0};
  emulation::warp_operation(emulation::WarpOperation::ballot, 0, &mine, [](void* const* lanes) {
    std::uint32_t all = 0;
    for (int i = 0; i < 32; ++i) all |= static_cast<Vote*>(lanes[i])->vote ? 1U << i : 0U;
    for (int i = 0; i < 32; ++i) static_cast<Vote*>(lanes[i])->all = all;
  });
  return mine.all;
}

std::uint32_t largest_of_warp(std::uint32_t value) {
  std::uint32_t mine = value;
  emulation::warp_operation(emulation::WarpOperation::largest, 0, &mine, [](void* const* lanes) {
    std::uint32_t most = 0;
    for (int i = 0; i < 32; ++i) most = std::max(most, *static_cast<const std::uint32_t*>(lanes[i]));
    for (int i = 0; i < 32; ++i) *static_cast<std::uint32_t*>(lanes[i]) = most;
  });
  return mine;
}

void ldmatrix_x4(std::uint32_t (&out)[4], const Shared<std::uint32_t>& from, std::int64_t element) {
  matrices<false>(out, from, element);
}
void ldmatrix_x4_trans(std::uint32_t (&out)[4], const Shared<std::uint32_t>& from, std::int64_t element) {
  matrices<true>(out, from, element);
}

void mma_f16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  mma<Float16, double>(0, c, a, b);
}
void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  mma<Bfloat16, double>(1, c, a, b);
}
void mma_s8(std::int32_t (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  mma<Bytes, std::int32_t>(2, c, a, b);
}
void mma_tf32(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  mma<Tf32, double>(3, c, a, b);
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
