// Matrix multiplications of few rows by 16-bit matrices and 4-bit codes: the rows are rounded and put into
// the order of operand B before it, once, so that a lane reads what it multiplies 16 bytes at a time.
//
// 32 inputs of a row are 16 words: word 4 t + 2 s + h holds inputs 16 s + 8 h + 2 t and the one behind it,
// which lane 4 g + t multiplies in the k16 step s (PTX ISA, "Matrix Fragments for mma.m16n8k16").
//
// Weights of several tiles are on their way before the kernel in front is waited for. Sums are those of
// kernels/linear.cuh, bit for bit: the same ranges, tiles in the same order.
#pragma once

#include "assay/backend/cuda/kernels/linear.cuh"

namespace assay::cuda::device::inline ASSAY_COMPILED_FOR {

inline constexpr int kUnitInputs = 32, kUnitWords = kUnitInputs / 2;
ASSAY_DEVICE std::int64_t input_of_word(std::int64_t word) {
  return word / kUnitWords * kUnitInputs + (word >> 1 & 1) * 16 + (word & 1) * 8 + (word >> 2 & 3) * 2;
}

// A thread per word: as the inputs lie in memory, or as an operation in front would make them. Of a norm a
// block makes the whole row.
ASSAY_KERNEL_OF(kLinearThreads) order_inputs(OrderArgs a) {
  wait_for_previous();
  const std::int64_t row = block_y(), words = a.out_stride / 4, n = a.inputs;
  const bool is_norm = a.made.kind == FusedPrologue::Kind::norm,
             is_gated = a.made.kind == FusedPrologue::Kind::gated;
  const Global<const float> x(a.x), gain(a.made.gain), bias(a.made.bias);
  const InputRows in(x, a.x_stride, a.rows, n), up(is_gated ? x + n : x, a.x_stride, a.rows, n);
  Moments of_row{0, 1};
  if (is_norm)
    of_row = moments_of(x + row * a.x_stride, n, a.made.subtracts_mean, a.made.epsilon, shared<float>(0));
  const auto made = [&](float value, float by, std::int64_t i) {
    if (i >= n || a.made.kind == FusedPrologue::Kind::none) return value;
    return is_norm ? normed(value, of_row, gain, bias, i) : activate(a.made.activation, value) * by;
  };
  const Global<std::uint32_t> out = Global<std::byte>(a.out).as<std::uint32_t>() + row * words;
  const std::int64_t step = is_norm ? kLinearThreads : words;
  for (std::int64_t word = std::int64_t{block_x()} * kLinearThreads + thread_index(); word < words;
       word += step) {
    const std::int64_t k = input_of_word(word);
    const Floats2 value = in.pair(row, k), by = is_gated ? up.pair(row, k) : Floats2{0, 0};
    const Floats2 pair{made(value.x, by.x, k), made(value.y, by.y, k + 1)};
    out[word] = a.arithmetic == Arithmetic::float16 ? packed<Float16>(pair) : packed<Bfloat16>(pair);
  }
}

// As LinearPlace, in the 32 bits that indices of few rows need.
struct OrderedPlace {
  std::int32_t warp, lane, g, t, strip, first_row, tiles, begin, end;
  Global<const std::byte> strip_data;

  template <MatrixFormat Format>
  static ASSAY_DEVICE OrderedPlace of(const OrderedArgs& a, std::int32_t rows_of_block) {
    OrderedPlace at;
    at.warp = thread_index() / kWarp;
    at.lane = thread_index() % kWarp;
    at.g = at.lane / 4;
    at.t = at.lane % 4;
    at.strip = block_x();
    at.first_row = block_y() * rows_of_block;
    at.tiles = static_cast<std::int32_t>(tiles_of_strip(Format, a.weight.inputs));
    at.begin = at.tiles * at.warp / kRanges;
    at.end = at.tiles * (at.warp + 1) / kRanges;
    at.strip_data = Global<const std::byte>(a.weight.data) + std::int64_t{at.strip} * at.tiles * kTileBytes;
    return at;
  }
  ASSAY_DEVICE Words4 tile(std::int32_t i) const {
    return strip_data.load_once(i * static_cast<std::int32_t>(kTileBytes / 16) + lane);
  }
};

// The rows that a lane multiplies: of each block of 8 its own, the last one where there are fewer.
template <int Blocks>
struct OrderedRows {
  Global<const std::byte> x;
  std::int32_t at[Blocks];

  ASSAY_DEVICE OrderedRows(const OrderedArgs& a, const OrderedPlace& place) : x(a.x) {
    const auto rows = static_cast<std::int32_t>(a.rows), stride = static_cast<std::int32_t>(a.x_stride / 16);
    ASSAY_UNROLL
    for (int block = 0; block < Blocks; ++block)
      at[block] = smaller(place.first_row + 8 * block + place.g, rows - 1) * stride + place.t;
  }
  ASSAY_DEVICE Words4 unit(int block, std::int32_t i) const {
    return x.load_shared_by_blocks(at[block] + i * 4);
  }
  ASSAY_DEVICE void units(Words4 (&out)[Blocks], std::int32_t i) const {
    ASSAY_UNROLL
    for (int block = 0; block < Blocks; ++block) out[block] = unit(block, i);
  }
};

template <int Blocks>
ASSAY_DEVICE void finish_blocks(const OrderedArgs& a, const OrderedPlace& at, const Shared<float>& partial,
                                const float (&c)[Blocks][4]) {
  ASSAY_UNROLL
  for (int block = 0; block < Blocks; ++block) put_partial(partial, at, 8 * Blocks, 8 * block, c[block]);
  add_ranges(partial, at, 8 * Blocks, a.rows, a.weight.outputs,
             [&](std::int64_t row, std::int64_t output, float sum) { finish(a.to, row, output, sum); });
}

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

// float16 and bfloat16. A range that begins or ends in the middle of a unit has a tile more in front of its
// whole units, or behind them.
template <typename Type, MatrixFormat Format, int Blocks>
ASSAY_KERNEL_OF(kLinearThreads)
ordered_halves(OrderedArgs a) {
  constexpr int kAhead = kUnitsAhead<Blocks>;
  const auto at = OrderedPlace::of<Format>(a, 8 * Blocks);
  const std::int32_t begin = (at.begin + 1) / 2, end = larger(at.end / 2, begin);
  const bool has_first = at.begin % 2 != 0 && at.begin < at.end,
             has_last = at.end % 2 != 0 && at.end > 2 * begin;
  Words4 ahead[kAhead][2], first = {}, last = {};
  if (has_first) first = at.tile(at.begin);
  ASSAY_UNROLL
  for (int j = 0; j < kAhead; ++j)
    if (begin + j < end) ASSAY_UNROLL
  for (int half = 0; half < 2; ++half) ahead[j][half] = at.tile(2 * (begin + j) + half);
  if (has_last) last = at.tile(at.end - 1);
  wait_for_previous();
  const OrderedRows<Blocks> in(a, at);
  float c[Blocks][4] = {};
  Words4 x[kAhead][Blocks];
  const auto multiply_unit = [&](int j, std::int32_t unit) {
    ASSAY_UNROLL
    for (int half = 0; half < 2; ++half) {
      multiply_tile<Type>(c, ahead[j][half], x[j], half);
      if (unit + kAhead < end) ahead[j][half] = at.tile(2 * (unit + kAhead) + half);
    }
  };
  if (has_first) {
    in.units(x[0], at.begin / 2);
    multiply_tile<Type>(c, first, x[0], 1);
  }
  std::int32_t unit = begin;
  ASSAY_NO_UNROLL
  for (; unit + kAhead <= end; unit += kAhead) {
    ASSAY_UNROLL
    for (int j = 0; j < kAhead; ++j) in.units(x[j], unit + j);
    ASSAY_UNROLL
    for (int j = 0; j < kAhead; ++j) multiply_unit(j, unit + j);
  }
  ASSAY_UNROLL
  for (int j = 0; j < kAhead; ++j)
    if (unit + j < end) in.units(x[j], unit + j);
  ASSAY_UNROLL
  for (int j = 0; j < kAhead; ++j)
    if (unit + j < end) multiply_unit(j, unit + j);
  if (has_last) {
    in.units(x[0], at.end / 2);
    multiply_tile<Type>(c, last, x[0], 0);
  }
  finish_blocks(a, at, shared<float>(0), c);
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
template <typename Type, bool HasWideGroups, int Blocks>
struct CodeTiles {
  static constexpr int kAhead = kCodeTilesAhead<Blocks>;
  const OrderedPlace& at;
  const GroupScales& scales;
  const Shared<std::uint32_t>& table;
  int steps;
  Words4 ahead[kAhead];
  ScalePair scale[kAhead];
  float c[Blocks][4];

  ASSAY_DEVICE void fetch(int j, std::int32_t tile) {
    ahead[j] = at.tile(tile);
    if (HasWideGroups) scale[j] = scales_at(scales, at.g, std::int64_t{tile} * 64);
  }
  // By the two units of its inputs; then the codes that follow are fetched.
  ASSAY_DEVICE void multiply(int j, std::int32_t tile, const Words4 (&x)[2][Blocks]) {
    float unscaled[Blocks][4] = {};
    ASSAY_UNROLL
    for (int step = 0; step < 4; ++step) {
      Words4 codes;
      expand_codes_of_bank(codes.word, ahead[j].word[step], table, at.lane);
      multiply_tile<Type>(unscaled, codes, x[step / 2], step % 2);
      if (HasWideGroups ? step < 3 : ((step + 1) & (steps - 1)) != 0) continue;
      const ScalePair own =
          HasWideGroups ? scale[j] : scales_at(scales, at.g, std::int64_t{tile} * 64 + step * 16);
      ASSAY_UNROLL
      for (int block = 0; block < Blocks; ++block)
        for (int i = 0; i < 4; ++i) {
          c[block][i] = fmaf(unscaled[block][i], i < 2 ? own.low : own.high, c[block][i]);
          unscaled[block][i] = 0;
        }
    }
    if (tile + kAhead < at.end) fetch(j, tile + kAhead);
  }
};

template <typename Type, bool HasWideGroups, int Blocks>
ASSAY_KERNEL_OF(kLinearThreads, Blocks < 8 ? 2 : 1)
ordered_codes(OrderedArgs a) {
  constexpr int kAhead = kCodeTilesAhead<Blocks>;
  const auto at = OrderedPlace::of<MatrixFormat::four_bit>(a, 8 * Blocks);
  const GroupScales scales(a.weight, at.strip);
  const Shared<std::uint32_t> table = shared<std::uint32_t>(0);
  CodeTiles<Type, HasWideGroups, Blocks> tiles{at, scales, table, steps_of_group(a.weight.group), {}, {}, {}};
  ASSAY_UNROLL
  for (int j = 0; j < kAhead; ++j)
    if (at.begin + j < at.end) tiles.fetch(j, at.begin + j);
  make_bank_tables<Type>(table, a.weight);
  barrier();
  wait_for_previous();
  const OrderedRows<Blocks> in(a, at);
  Words4 x[kAhead][2][Blocks];
  std::int32_t tile = at.begin;
  ASSAY_NO_UNROLL
  for (; tile + kAhead <= at.end; tile += kAhead) {
    ASSAY_UNROLL
    for (int j = 0; j < kAhead; ++j) ASSAY_UNROLL
    for (int half = 0; half < 2; ++half) in.units(x[j][half], 2 * (tile + j) + half);
    ASSAY_UNROLL
    for (int j = 0; j < kAhead; ++j) tiles.multiply(j, tile + j, x[j]);
  }
  ASSAY_UNROLL
  for (int j = 0; j < kAhead; ++j)
    if (tile + j < at.end) {
      ASSAY_UNROLL
      for (int half = 0; half < 2; ++half) in.units(x[j][half], 2 * (tile + j) + half);
      tiles.multiply(j, tile + j, x[j]);
    }
  finish_blocks(a, at, shared<float>(kBankTableBytes), tiles.c);
}

}  // namespace assay::cuda::device::inline ASSAY_COMPILED_FOR
