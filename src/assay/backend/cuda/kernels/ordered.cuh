// Matrix multiplications of few rows by 16-bit matrices and 4-bit codes, whose rows are rounded and in the
// order of operand B (kernels/ordered_rows.cuh), so that a lane reads what it multiplies 16 bytes at a time.
//
// Weights of several tiles are on their way before the kernel in front is waited for. Sums are those of
// kernels/linear.cuh, bit for bit: the same ranges, tiles in the same order.
#pragma once

#include "assay/backend/cuda/kernels/ordered_rows.cuh"

namespace assay::cuda::device {

// Units of 32 inputs whose weights are on their way: 1,024 bytes each; many rows need the registers.
template <int Blocks>
inline constexpr int kUnitsAhead = Blocks == 1   ? 8
                                   : Blocks == 2 ? 4
                                   : Blocks == 4 ? 2
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
template <typename Type, int Blocks, int Strips, bool AreNormed>
struct HalfUnits {
  // Rows that are normed beside two strips need some registers.
  static constexpr int kAhead = kUnitsAhead<Blocks> / Strips - (AreNormed && Strips == 2 ? 1 : 0);
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
    if (has_first) fetch(first, at.begin);
    ASSAY_UNROLL
    for (int j = 0; j < kAhead; ++j)
      if (begin + j < end) fetch_unit(j, begin + j);
    if (has_last) fetch(last, at.end - 1);
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
  ASSAY_DEVICE void multiply_part(const Words4 (&weights)[Strips], const Rows& in, std::int32_t unit,
                                  int half) {
    Words4 x[Blocks];
    in.units(x, unit);
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) multiply_tile<Type>(c[strip], weights[strip], x, half);
  }
  template <typename Rows>
  ASSAY_DEVICE void multiply(const Rows& in) {
    if (has_first) multiply_part(first, in, at.begin / 2, 1);
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
    if (has_last) multiply_part(last, in, at.end / 2, 0);
  }
};

template <typename Type, MatrixFormat Format, int Blocks, int Strips, bool AreNormed>
ASSAY_KERNEL_OF(kLinearThreads, 2)
ordered_halves(OrderedArgs a) {
  const auto at = OrderedPlace<Strips>::template of<Format>(a, 8 * Blocks);
  HalfUnits<Type, Blocks, Strips, AreNormed> units(at);
  if constexpr (AreNormed) {
    NormedRows<Type> in(a, at, at.begin / 2, (at.end + 1) / 2, Strips * kPartialBytes<8 * Blocks>);
    wait_for_previous();
    in.make();
    units.multiply(in);
  } else {
    wait_for_previous();
    units.multiply(OrderedRows<Blocks>(a, at));
  }
  finish_blocks<Blocks, Strips>(a, at, shared<float>(0), units.c);
}

// The scales of outputs g and g + 8.
struct ScalePair {
  float low, high;
};
ASSAY_DEVICE ScalePair scales_at(const GroupScales& scales, int g, std::int64_t k) {
  return {scales.of(g, k), scales.of(g + 8, k)};
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
// with the codes.
template <typename Type, bool HasWideGroups, int Blocks, int Strips>
struct CodeTiles {
  static constexpr int kAhead = kCodeTilesAhead<Blocks> > Strips ? kCodeTilesAhead<Blocks> / Strips : 1;
  const OrderedPlace<Strips>& at;
  GroupScales scales[Strips];
  const Shared<std::uint32_t>& table;
  int steps;
  Words4 ahead[kAhead][Strips];
  ScalePair scale[kAhead][Strips];
  float c[Strips][Blocks][4] = {};

  ASSAY_DEVICE void fetch(int j, int strip, std::int32_t tile) {
    ahead[j][strip] = at.tile(strip, tile);
    if (HasWideGroups) scale[j][strip] = scales_at(scales[strip], at.g, std::int64_t{tile} * 64);
  }
  ASSAY_DEVICE void fetch(int j, std::int32_t tile) {
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) fetch(j, strip, tile);
  }
  // By the two units of its inputs; then the codes that follow are fetched.
  ASSAY_DEVICE void multiply(int j, int strip, std::int32_t tile, const Words4 (&x)[2][Blocks]) {
    float unscaled[Blocks][4] = {};
    ASSAY_UNROLL
    for (int step = 0; step < 4; ++step) {
      Words4 codes;
      expand_codes_of_bank(codes.word, ahead[j][strip].word[step], table, at.lane);
      multiply_tile<Type>(unscaled, codes, x[step / 2], step % 2);
      if (HasWideGroups ? step < 3 : ((step + 1) & (steps - 1)) != 0) continue;
      const ScalePair own = HasWideGroups
                                ? scale[j][strip]
                                : scales_at(scales[strip], at.g, std::int64_t{tile} * 64 + step * 16);
      ASSAY_UNROLL
      for (int block = 0; block < Blocks; ++block)
        for (int i = 0; i < 4; ++i) {
          c[strip][block][i] = fmaf(unscaled[block][i], i < 2 ? own.low : own.high, c[strip][block][i]);
          unscaled[block][i] = 0;
        }
    }
    if (tile + kAhead < at.end) fetch(j, strip, tile + kAhead);
  }
  ASSAY_DEVICE void multiply(int j, std::int32_t tile, const Words4 (&x)[2][Blocks]) {
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) multiply(j, strip, tile, x);
  }
  template <typename Rows>
  ASSAY_DEVICE void multiply_all(const Rows& in) {
    constexpr int kAtOnce = Rows::kUnitsAtOnce < 2 * kAhead ? Rows::kUnitsAtOnce / 2 : kAhead;
    Words4 x[kAtOnce][2][Blocks];
    const auto fetch_rows = [&](int j, std::int32_t tile) {
      ASSAY_UNROLL
      for (int half = 0; half < 2; ++half) in.units(x[j][half], 2 * tile + half);
    };
    std::int32_t tile = at.begin;
    ASSAY_NO_UNROLL
    for (; tile + kAhead <= at.end; tile += kAhead) ASSAY_UNROLL
    for (int group = 0; group < kAhead; group += kAtOnce) {
      ASSAY_UNROLL
      for (int j = 0; j < kAtOnce; ++j) fetch_rows(j, tile + group + j);
      ASSAY_UNROLL
      for (int j = 0; j < kAtOnce; ++j) multiply(group + j, tile + group + j, x[j]);
    }
    ASSAY_UNROLL
    for (int j = 0; j < kAhead; ++j)
      if (tile + j < at.end) {
        fetch_rows(0, tile + j);
        multiply(j, tile + j, x[0]);
      }
  }
};

template <typename Type, bool HasWideGroups, int Blocks, int Strips, bool AreNormed>
ASSAY_KERNEL_OF(kLinearThreads, Blocks < 8 ? 2 : 1)
ordered_codes(OrderedArgs a) {
  using Tiles = CodeTiles<Type, HasWideGroups, Blocks, Strips>;
  const auto at = OrderedPlace<Strips>::template of<MatrixFormat::four_bit>(a, 8 * Blocks);
  const Shared<std::uint32_t> table = shared<std::uint32_t>(0);
  const auto scales = [&](int strip) { return GroupScales(a.weight, at.strip_of(a, strip)); };
  Tiles tiles = [&] {
    if constexpr (Strips == 1)
      return Tiles{at, {scales(0)}, table, steps_of_group(a.weight.group), {}, {}};
    else
      return Tiles{at, {scales(0), scales(1)}, table, steps_of_group(a.weight.group), {}, {}};
  }();
  ASSAY_UNROLL
  for (int j = 0; j < Tiles::kAhead; ++j)
    if (at.begin + j < at.end) tiles.fetch(j, at.begin + j);
  make_bank_tables<Type>(table, a.weight);
  barrier();
  if constexpr (AreNormed) {
    NormedRows<Type> in(a, at, 2 * at.begin, 2 * at.end,
                        kBankTableBytes + Strips * kPartialBytes<8 * Blocks>);
    wait_for_previous();
    in.make();
    tiles.multiply_all(in);
  } else {
    wait_for_previous();
    tiles.multiply_all(OrderedRows<Blocks>(a, at));
  }
  finish_blocks<Blocks, Strips>(a, at, shared<float>(kBankTableBytes), tiles.c);
}

}  // namespace assay::cuda::device
