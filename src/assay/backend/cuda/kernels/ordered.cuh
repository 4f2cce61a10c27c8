// Matrix multiplications of few rows by 16-bit matrices, whose rows are rounded and in the order of operand B
// (kernels/ordered_rows.cuh), so that a lane reads what it multiplies 16 bytes at a time.
//
// Weights of several tiles are on their way before the kernel in front is waited for. Sums are those of
// kernels/linear.cuh, bit for bit: the same ranges, tiles in the same order.
#pragma once

#include "assay/backend/cuda/kernels/ordered_rows.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// Units of 32 inputs whose weights are on their way, 1,024 bytes each. Of one block a processor a warp
// fetches far ahead; where there are many blocks (IsWide), four of them share a processor and each needs
// less. Many rows need the registers.
template <int Blocks, int Strips, bool AreNormed, bool IsWide>
inline constexpr int kUnitsAhead = IsWide        ? 4 / Strips
                                   : Blocks == 1 ? (Strips == 1 ? 8
                                                    : AreNormed ? 3
                                                                : 4)
                                   : Blocks == 2 ? 4 / Strips
                                   : Blocks == 4 ? 2 / Strips
                                                 : 1;

template <typename Type, int Blocks>
ASSAY_DEVICE void multiply_tile(float (&c)[Blocks][4], const Words4& weights, const Words4 (&x)[Blocks],
                                int half) {
  ASSAY_UNROLL
  for (int block = 0; block < Blocks; ++block) {
    const std::uint32_t b[2] = {x[block].word[2 * half], x[block].word[2 * half + 1]};
    Type::multiply(c[block], weights.word, b);
  }
}

// float16 and bfloat16: the units of a warp. A range that begins or ends in the middle of one has a tile more
// in front of its whole units, or behind them.
template <typename Type, int Blocks, int Strips, int Ahead, bool HoldsEnds>
struct HalfUnits {
  static constexpr int kAhead = Ahead;
  const OrderedPlace<Strips>& at;
  std::int32_t begin, end;
  bool has_first, has_last;
  Words4 ahead[kAhead][Strips][2], first[Strips], last[Strips];
  float c[Strips][Blocks][4] = {};

  ASSAY_DEVICE explicit HalfUnits(const OrderedPlace<Strips>& place)
      : at(place),
        begin((at.begin + 1) / 2),
        end(larger(at.end / 2, begin)),
        has_first(at.begin % 2 != 0 && at.begin < at.end),
        has_last(at.end % 2 != 0 && at.end > 2 * begin) {
    if (HoldsEnds && has_first) fetch(first, at.begin);
    ASSAY_UNROLL
    for (int j = 0; j < kAhead; ++j)
      if (begin + j < end) fetch_unit(j, begin + j);
    if (HoldsEnds && has_last) fetch(last, at.end - 1);
  }
  ASSAY_DEVICE void fetch(Words4 (&out)[Strips], std::int32_t tile) const {
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) out[strip] = at.tile(strip, tile);
  }
  ASSAY_DEVICE void fetch_unit(int j, std::int32_t unit) {
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) ASSAY_UNROLL
    for (int half = 0; half < 2; ++half) ahead[j][strip][half] = at.tile(strip, 2 * unit + half);
  }
  ASSAY_DEVICE void multiply_unit(int j, std::int32_t unit, const Words4 (&x)[Blocks]) {
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) ASSAY_UNROLL
    for (int half = 0; half < 2; ++half) {
      multiply_tile<Type>(c[strip], ahead[j][strip][half], x, half);
      if (unit + kAhead < end) ahead[j][strip][half] = at.tile(strip, 2 * (unit + kAhead) + half);
    }
  }
  template <typename Rows>
  ASSAY_DEVICE void multiply_part(Words4 (&weights)[Strips], const Rows& in, std::int32_t tile, int half) {
    if (!HoldsEnds) fetch(weights, tile);
    Words4 x[Blocks];
    in.units(x, tile / 2);
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) multiply_tile<Type>(c[strip], weights[strip], x, half);
  }
  template <typename Rows>
  ASSAY_DEVICE void multiply(const Rows& in) {
    if (has_first) multiply_part(first, in, at.begin, 1);
    constexpr int kAtOnce = kAhead <= Rows::kUnitsAtOnce       ? kAhead
                            : kAhead % Rows::kUnitsAtOnce == 0 ? Rows::kUnitsAtOnce
                                                               : 1;
    Words4 x[kAtOnce][Blocks];
    std::int32_t unit = begin;
    ASSAY_NO_UNROLL
    for (; unit + kAhead <= end; unit += kAhead) ASSAY_UNROLL
    for (int group = 0; group < kAhead; group += kAtOnce) {
      ASSAY_UNROLL
      for (int j = 0; j < kAtOnce; ++j) in.units(x[j], unit + group + j);
      ASSAY_UNROLL
      for (int j = 0; j < kAtOnce; ++j) multiply_unit(group + j, unit + group + j, x[j]);
    }
    ASSAY_UNROLL
    for (int group = 0; group < kAhead; group += kAtOnce) {
      ASSAY_UNROLL
      for (int j = 0; j < kAtOnce; ++j)
        if (unit + group + j < end) in.units(x[j], unit + group + j);
      ASSAY_UNROLL
      for (int j = 0; j < kAtOnce; ++j)
        if (unit + group + j < end) multiply_unit(group + j, unit + group + j, x[j]);
    }
    if (has_last) multiply_part(last, in, at.end - 1, 0);
  }
};

template <typename Type, MatrixFormat Format, int Blocks, int Strips, bool AreNormed, bool IsWide>
ASSAY_KERNEL_OF(kLinearThreads, IsWide ? 3 : 2)
ordered_halves(OrderedArgs a) {
  if (a.to.lets_next_start) let_next_start();
  const auto at = OrderedPlace<Strips>::template of<Format>(a, 8 * Blocks);
  HalfUnits<Type, Blocks, Strips, kUnitsAhead<Blocks, Strips, AreNormed, IsWide>, !IsWide> units(at);
  EndInputs early;
  if constexpr (AreNormed) {
    prefetch_biases<Strips>(a, at);
    NormedRows<Type, !IsWide> in(a, at, at.begin / 2, (at.end + 1) / 2, Strips * kPartialBytes<8 * Blocks>);
    wait_for_previous();
    in.make();
    units.multiply(in);
  } else {
    if (Blocks == 1 && Strips == 1 && !IsWide) early.fetch(a, at);
    wait_for_previous();
    if (Blocks == 1 && Strips == 1 && !IsWide) early.fetch_behind_wait(a, at);
    bool is_staged = false;
    if constexpr (Blocks == 1 && Strips == 1 && !IsWide) {
      is_staged = a.is_staged;
      if (is_staged)
        units.multiply(StagedRows(a, at, at.begin / 2, (at.end + 1) / 2, kPartialBytes<8 * Blocks>));
    }
    if (!is_staged) units.multiply(OrderedRows<Blocks>(a, at));
  }
  finish_blocks<Blocks, Strips>(a, at, shared<float>(0), units.c, early);
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
