// Matrix multiplications of few rows by 16-bit matrices and 4-bit codes, whose rows are rounded and in the
// order of operand B (kernels/ordered_rows.cuh), so that a lane reads what it multiplies 16 bytes at a time.
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

// The scales of outputs g and g + 8.
struct ScalePair {
  float low, high;
};
ASSAY_DEVICE ScalePair scales_at(const GroupScales& scales, std::int32_t g, std::int32_t strip,
                                 std::int32_t k) {
  const Global<const float> own = scales.scales + (scales.first + strip * scales.groups * kStrip);
  const std::int32_t at = (k >> scales.shift) * static_cast<std::int32_t>(kStrip) + g;
  return {own[at], own[at + 8]};
}

ASSAY_DEVICE void expand_codes_of_bank(std::uint32_t (&a)[4], std::uint32_t codes,
                                       const Shared<std::uint32_t>& table, std::int32_t lane) {
  ASSAY_UNROLL
  for (int i = 0; i < 4; ++i)
    a[i] = table[static_cast<std::int32_t>(codes >> (8 * i) & 0xffU) * kWarp + lane];
}

// Tiles of 64 codes ahead; a block has a table of 32 KiB, so that several blocks share a processor.
template <int Blocks>
inline constexpr int kCodeTilesAhead = Blocks == 1   ? 4
                                       : Blocks == 2 ? 2
                                                     : 1;

// 4-bit codes in groups of at least 16. Scales multiply sums; of groups of 64 and more they are on their way
// with the codes. A block takes strip after strip, since its table and rows are dear: codes of the next strip
// are on their way while it ends one.
template <typename Type, bool HasWideGroups, int Blocks, int Strips>
struct CodeTiles {
  static constexpr int kAhead = kCodeTilesAhead<Blocks> > Strips ? kCodeTilesAhead<Blocks> / Strips : 1;
  const OrderedPlace<Strips>& at;
  GroupScales scales[Strips];
  const Shared<std::uint32_t>& table;
  int steps;
  Words4 ahead[kAhead][Strips];
  ScalePair scale[kAhead][Strips];
  float c[Strips][Blocks][4];

  ASSAY_DEVICE void fetch(int j, int strip, std::int32_t of_strip, std::int32_t tile) {
    ahead[j][strip] = at.tile_of(strip, of_strip, tile);
    if (HasWideGroups) scale[j][strip] = scales_at(scales[strip], at.g, of_strip, tile * 64);
  }
  ASSAY_DEVICE void fetch_first(std::int32_t of_strip) {
    ASSAY_UNROLL
    for (int j = 0; j < kAhead; ++j) ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip)
      if (at.begin + j < at.end) fetch(j, strip, of_strip, at.begin + j);
  }
  // By the two units of its inputs.
  ASSAY_DEVICE void multiply(int j, int strip, std::int32_t of_strip, std::int32_t tile,
                             const Words4 (&x)[2][Blocks]) {
    float unscaled[Blocks][4] = {};
    ASSAY_UNROLL
    for (int step = 0; step < 4; ++step) {
      Words4 codes;
      expand_codes_of_bank(codes.word, ahead[j][strip].word[step], table, at.lane);
      multiply_tile<Type>(unscaled, codes, x[step / 2], step % 2);
      if (HasWideGroups ? step < 3 : ((step + 1) & (steps - 1)) != 0) continue;
      const ScalePair own =
          HasWideGroups ? scale[j][strip] : scales_at(scales[strip], at.g, of_strip, tile * 64 + step * 16);
      ASSAY_UNROLL
      for (int block = 0; block < Blocks; ++block)
        for (int i = 0; i < 4; ++i) {
          c[strip][block][i] = fmaf(unscaled[block][i], i < 2 ? own.low : own.high, c[strip][block][i]);
          unscaled[block][i] = 0;
        }
    }
  }
  // The strips' sums; the first codes of the next strip, if it is one, are fetched in place of the last.
  template <typename Rows>
  ASSAY_DEVICE void multiply_strip(const Rows& in, std::int32_t of_strip, std::int32_t next, bool has_next) {
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) ASSAY_UNROLL
    for (int block = 0; block < Blocks; ++block)
      for (int i = 0; i < 4; ++i) c[strip][block][i] = 0;
    ASSAY_NO_UNROLL
    for (std::int32_t first = at.begin; first < at.end; first += kAhead) {
      Words4 x[kAhead][2][Blocks];
      ASSAY_UNROLL
      for (int j = 0; j < kAhead; ++j) ASSAY_UNROLL
      for (int half = 0; half < 2; ++half)
        if (first + j < at.end) in.units(x[j][half], 2 * (first + j) + half);
      const bool is_last = first + kAhead >= at.end;
      ASSAY_UNROLL
      for (int j = 0; j < kAhead; ++j) {
        const std::int32_t tile = is_last ? at.begin + j : first + kAhead + j;
        const bool has_more = is_last ? has_next && tile < at.end : tile < at.end;
        ASSAY_UNROLL
        for (int strip = 0; strip < Strips; ++strip) {
          if (first + j < at.end) multiply(j, strip, of_strip, first + j, x[j]);
          if (has_more) fetch(j, strip, is_last ? next : of_strip, tile);
        }
      }
    }
  }
};

template <typename Type, bool HasWideGroups, int Blocks, int Strips, bool AreNormed>
ASSAY_KERNEL_OF(kLinearThreads, Blocks < 8 ? 2 : 1)
ordered_codes(OrderedArgs a) {
  using Tiles = CodeTiles<Type, HasWideGroups, Blocks, Strips>;
  auto at = OrderedPlace<Strips>::template of<MatrixFormat::four_bit>(a, 8 * Blocks);
  const Shared<std::uint32_t> table = shared<std::uint32_t>(0);
  const auto scales = [&](int strip) { return GroupScales(a.weight, at.distance(a, strip)); };
  Tiles tiles = [&] {
    if constexpr (Strips == 1)
      return Tiles{at, {scales(0)}, table, steps_of_group(a.weight.group), {}, {}, {}};
    else
      return Tiles{at, {scales(0), scales(1)}, table, steps_of_group(a.weight.group), {}, {}, {}};
  }();
  tiles.fetch_first(at.strip);
  make_bank_tables<Type>(table, a.weight);
  barrier();
  const auto strips =
      static_cast<std::int32_t>(a.to.gated > 0 ? a.to.gated / kStrip : strips_of(a.weight.outputs));
  const std::int32_t step = grid_x();
  constexpr std::int64_t kPartials = Strips * kPartialBytes<8 * Blocks>;
  // Sums of one strip are added while others are made: two places for them, where there is more than one
  // strip.
  EndInputs early;  // those of the first strip
  const auto multiply = [&](const auto& in) {
    std::int64_t place = kBankTableBytes;
    ASSAY_NO_UNROLL
    for (; at.strip < strips; at.strip += step) {
      const std::int32_t next = at.strip + step;
      tiles.multiply_strip(in, at.strip, next, next < strips);
      finish_blocks<Blocks, Strips>(a, at, shared<float>(place), tiles.c, early);
      early = {};
      place = kBankTableBytes + (kBankTableBytes + kPartials - place);
    }
  };
  if constexpr (AreNormed) {
    prefetch_biases<Strips>(a, at);
    NormedRows<Type, true> in(a, at, 2 * at.begin, 2 * at.end,
                              kBankTableBytes + kPartials * (step < strips ? 2 : 1));
    wait_for_previous();
    in.make();
    multiply(in);
  } else {
    if (Blocks == 1 && Strips == 1) early.fetch(a, at);
    wait_for_previous();
    bool is_staged = false;
    if constexpr (Blocks == 1 && Strips == 1) {
      is_staged = a.is_staged;
      if (is_staged)
        multiply(StagedRows(a, at, 2 * at.begin, 2 * at.end,
                            kBankTableBytes + kPartials * (step < strips ? 2 : 1)));
    }
    if (!is_staged) multiply(OrderedRows<Blocks>(a, at));
  }
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
