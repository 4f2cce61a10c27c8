// Matrix multiplications of few rows by 4-bit codes, in groups of at least 16 inputs. Rows are as those of
// kernels/ordered.cuh; sums are those of kernels/linear.cuh, bit for bit.
#pragma once

#include "assay/backend/cuda/kernels/code_operands.cuh"
#include "assay/backend/cuda/kernels/ordered.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// The scales of outputs g and g + 8.
struct ScalePair {
  float low, high;
};

// Tiles of 64 codes ahead: several blocks share a processor.
template <int Blocks>
inline constexpr int kCodeTilesAhead = Blocks == 1   ? 4
                                       : Blocks == 2 ? 2
                                                     : 1;

// Scales multiply sums; of groups of 64 and more they are on their way with the codes. A block takes strip
// after strip, since its table and rows are dear: codes of the next strip are on their way while it ends one.
template <typename Type, bool HasWideGroups, int Blocks, int Strips>
struct CodeTiles {
  static constexpr int kAhead = kCodeTilesAhead<Blocks> > Strips ? kCodeTilesAhead<Blocks> / Strips : 1;
  // What a lane reads, from a tile of a strip on.
  struct Source {
    Global<const std::byte> codes[Strips];
    Global<const float> scales[Strips];  // those of the whole strip
    std::int32_t strip, first;
  };
  const OrderedPlace<Strips>& at;
  GroupScales scales[Strips];
  int steps;
  Words4 ahead[kAhead][Strips];
  ScalePair scale[kAhead][Strips];
  float c[Strips][Blocks][4];

  // Addresses are worked out once for several tiles; many rows need the registers.
  static constexpr bool kKeeps = Blocks < 4;
  template <typename T>
  static ASSAY_DEVICE Global<T> kept(const Global<T>& address) {
    return kKeeps ? address.pinned() : address;
  }
  ASSAY_DEVICE Source source(std::int32_t of_strip, std::int32_t tile) const {
    Source from;
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) {
      from.codes[strip] = kept(at.strip_data[strip] +
                               ((std::int64_t{of_strip} * at.tiles + tile) * kTileBytes + at.lane * 16));
      from.scales[strip] = kept(scales[strip].scales +
                                (scales[strip].first + of_strip * scales[strip].groups * kStrip + at.g));
    }
    from.strip = of_strip;
    from.first = tile;
    return from;
  }
  ASSAY_DEVICE ScalePair scales_at(const Source& from, int strip, std::int32_t k) const {
    const std::int32_t i = (k >> scales[strip].shift) * static_cast<std::int32_t>(kStrip);
    return {from.scales[strip][i], from.scales[strip][i + 8]};
  }
  ASSAY_DEVICE void fetch(int j, int strip, const Source& from) {
    ahead[j][strip] = from.codes[strip].load_once(j * static_cast<std::int32_t>(kTileBytes / 16));
    if (HasWideGroups) scale[j][strip] = scales_at(from, strip, (from.first + j) * 64);
  }
  ASSAY_DEVICE void fetch_first() {
    const Source from = source(at.strip, at.begin);
    ASSAY_UNROLL
    for (int j = 0; j < kAhead; ++j) ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip)
      if (at.begin + j < at.end) fetch(j, strip, from);
  }
  // By the two units of its inputs.
  template <typename Operands>
  ASSAY_DEVICE void multiply(const Operands& operands, int j, int strip, const Source& own,
                             const Words4 (&x)[2][Blocks]) {
    float unscaled[Blocks][4] = {};
    ASSAY_UNROLL
    for (int step = 0; step < 4; ++step) {
      Words4 codes;
      operands.expand(codes.word, ahead[j][strip].word[step]);
      multiply_tile<Type>(unscaled, codes, x[step / 2], step % 2);
      if (HasWideGroups ? step < 3 : ((step + 1) & (steps - 1)) != 0) continue;
      const ScalePair by =
          HasWideGroups ? scale[j][strip] : scales_at(own, strip, (own.first + j) * 64 + step * 16);
      ASSAY_UNROLL
      for (int block = 0; block < Blocks; ++block)
        for (int i = 0; i < 4; ++i) {
          c[strip][block][i] = fmaf(unscaled[block][i], i < 2 ? by.low : by.high, c[strip][block][i]);
          unscaled[block][i] = 0;
        }
    }
  }
  // kAhead tiles from `own` on, or the last ones of a strip; in their place so many of `next` are fetched. Of
  // whole ones no test stands between the instructions of one tile and of another.
  template <bool AreWhole, typename Operands, typename Rows>
  ASSAY_DEVICE void multiply_tiles(const Operands& operands, const Rows& in, const Source& own,
                                   const Source& next, std::int32_t fetched) {
    Words4 x[kAhead][2][Blocks];
    ASSAY_UNROLL
    for (int j = 0; j < kAhead; ++j) ASSAY_UNROLL
    for (int half = 0; half < 2; ++half)
      if (AreWhole || own.first + j < at.end) in.units(x[j][half], 2 * (own.first + j) + half);
    ASSAY_UNROLL
    for (int j = 0; j < kAhead; ++j) ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) {
      if (AreWhole || own.first + j < at.end) multiply(operands, j, strip, own, x[j]);
      if (j < fetched)
        fetch(j, strip, kKeeps || !HasWideGroups ? next : source(next.strip, opaque(next.first)));
    }
  }
  // The strips' sums; the first codes of the next strip, if it is one, are fetched in place of the last.
  template <typename Operands, typename Rows>
  ASSAY_DEVICE void multiply_strip(const Operands& operands, const Rows& in, std::int32_t of_strip,
                                   std::int32_t next, bool has_next) {
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) ASSAY_UNROLL
    for (int block = 0; block < Blocks; ++block)
      for (int i = 0; i < 4; ++i) c[strip][block][i] = 0;
    Source own = source(of_strip, at.begin);
    ASSAY_NO_UNROLL
    while (own.first < at.end) {
      const std::int32_t behind = own.first + kAhead;
      const bool is_last = behind >= at.end;
      const Source more = source(is_last ? next : of_strip, is_last ? at.begin : behind);
      const std::int32_t fetched = is_last && !has_next ? 0 : at.end - more.first;
      if (kAhead == 1 || behind <= at.end)
        multiply_tiles<true>(operands, in, own, more, fetched);
      else
        multiply_tiles<false>(operands, in, own, more, fetched);
      own = more;
      if (is_last) break;
    }
  }
};

template <typename Type, CodesBy By, bool HasWideGroups, int Blocks, int Strips, bool AreNormed>
ASSAY_KERNEL_OF(kLinearThreads, Blocks < 8 ? 2 : 1)
ordered_codes(OrderedArgs a) {
  if (a.to.lets_next_start) let_next_start();
  using Tiles = CodeTiles<Type, HasWideGroups, Blocks, Strips>;
  auto at = OrderedPlace<Strips>::template of<MatrixFormat::four_bit>(a, 8 * Blocks);
  const auto scales = [&](int strip) { return GroupScales(a.weight, at.distance(a, strip)); };
  Tiles tiles = [&] {
    if constexpr (Strips == 1)
      return Tiles{at, {scales(0)}, steps_of_group(a.weight.group), {}, {}, {}};
    else
      return Tiles{at, {scales(0), scales(1)}, steps_of_group(a.weight.group), {}, {}, {}};
  }();
  tiles.fetch_first();
  const CodeOperands<Type, By> operands(a.weight, at.lane);
  if (By != CodesBy::integers) barrier();
  const auto strips =
      static_cast<std::int32_t>(a.to.gated > 0 ? a.to.gated / kStrip : strips_of(a.weight.outputs));
  const std::int32_t step = grid_x();
  constexpr std::int64_t kTable = kCodeTableBytes<By>, kPartials = Strips * kPartialBytes<8 * Blocks>;
  // Sums of one strip are added while others are made: two places for them, where there is more than one
  // strip.
  EndInputs early;  // those of the first strip
  const auto multiply = [&](const auto& in) {
    std::int64_t place = kTable;
    ASSAY_NO_UNROLL
    for (; at.strip < strips; at.strip += step) {
      const std::int32_t next = at.strip + step;
      tiles.multiply_strip(operands, in, at.strip, next, next < strips);
      finish_blocks<Blocks, Strips>(a, at, shared<float>(place), tiles.c, early);
      early = {};
      place = 2 * kTable + kPartials - place;
    }
  };
  if constexpr (AreNormed) {
    prefetch_biases<Strips>(a, at);
    NormedRows<Type, true> in(a, at, 2 * at.begin, 2 * at.end, kTable + kPartials * (step < strips ? 2 : 1));
    wait_for_previous();
    in.make();
    multiply(in);
  } else {
    if (Blocks == 1 && Strips == 1) early.fetch(a, at);
    wait_for_previous();
    if (Blocks == 1 && Strips == 1) early.fetch_behind_wait(a, at);
    bool is_staged = false;
    if constexpr (Blocks == 1 && Strips == 1) {
      is_staged = a.is_staged;
      if (is_staged)
        multiply(StagedRows(a, at, 2 * at.begin, 2 * at.end, kTable + kPartials * (step < strips ? 2 : 1)));
    }
    if (!is_staged) multiply(OrderedRows<Blocks>(a, at));
  }
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
