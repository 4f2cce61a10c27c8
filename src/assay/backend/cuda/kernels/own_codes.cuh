// A multiplication of one or two normed rows by 4-bit codes with as many outputs as a vocabulary: each warp
// has strips of its own and waits for no other, where a strip shared by eight (kernels/ordered_codes.cuh) is
// over in a tile or two of each. Sums are the same, bit for bit: a warp sums range after range of the inputs.
#pragma once

#include "assay/backend/cuda/kernels/ordered_codes.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// Where a strip's ranges of tiles lie, one after another.
struct TileRange {
  std::int32_t tiles, index = 0, begin = 0, end;

  ASSAY_DEVICE explicit TileRange(std::int32_t of_strip) : tiles(of_strip), end(of_strip / kRanges) {}
  ASSAY_DEVICE void step() {
    ++index;
    begin = end;
    end = tiles * (index + 1) / kRanges;
  }
};

// The sum of ranges: that of the first, then each added to it.
struct RangeSums {
  float all[4] = {};

  ASSAY_DEVICE void take(const TileRange& range, float (&c)[1][4]) {
    ASSAY_UNROLL
    for (int i = 0; i < 4; ++i) {
      all[i] = range.index == 0 ? c[0][i] : all[i] + c[0][i];
      c[0][i] = 0;
    }
  }
};

template <typename Type, bool HasWideGroups>
ASSAY_KERNEL_OF(kLinearThreads, 2)
own_codes(OrderedArgs a) {
  using Tiles = CodeTiles<Type, HasWideGroups, 1, 1>;
  constexpr auto kColumns = static_cast<std::int32_t>(kStrip);
  if (a.to.lets_next_start) let_next_start();
  const auto shared_rows = OrderedPlace<1>::template of<MatrixFormat::four_bit>(a, 8);
  auto at = shared_rows;
  at.begin = 0;
  at.end = at.tiles;
  at.strip = block_x() * kRanges + at.warp;
  const auto strips = static_cast<std::int32_t>(strips_of(a.weight.outputs)), step = grid_x() * kRanges;
  // Scales of the first strip of all: those of others are counted from there.
  Tiles tiles{at, {GroupScales(a.weight, 0)}, steps_of_group(a.weight.group), {}, {}, {}};
  if (at.strip < strips) tiles.fetch_first();
  const CodeOperands<Type, CodesBy::table> operands(a.weight, at.lane);
  NormedRows<Type, true> rows(a, shared_rows, 2 * shared_rows.begin, 2 * shared_rows.end,
                              kCodeTableBytes<CodesBy::table> + kOwnSumsBytes);
  wait_for_previous();
  rows.make();
  barrier();  // the table, and rows that all warps have made
  const Shared<float> sums =
      shared<float>(kCodeTableBytes<CodesBy::table> + at.warp * (kOwnSumsBytes / kRanges));
  std::int32_t slot = 0;  // two places, so that nobody writes what a neighbour still reads
  ASSAY_NO_UNROLL
  for (; at.strip < strips; at.strip += step, slot ^= 1) {
    const bool has_next = at.strip + step < strips;
    TileRange range(at.tiles);
    RangeSums sum;
    ASSAY_UNROLL
    for (int i = 0; i < 4; ++i) tiles.c[0][0][i] = 0;
    typename Tiles::Source own = tiles.source(at.strip, 0);
    ASSAY_NO_UNROLL
    while (own.first < at.end) {
      const std::int32_t behind = own.first + Tiles::kAhead;
      const bool is_last = behind >= at.end;
      const typename Tiles::Source more =
          tiles.source(is_last ? at.strip + step : at.strip, is_last ? 0 : behind);
      const std::int32_t fetched = is_last && !has_next ? 0 : at.end - more.first;
      ASSAY_UNROLL
      for (int j = 0; j < Tiles::kAhead; ++j) {
        if (const std::int32_t tile = own.first + j; tile < at.end) {
          ASSAY_NO_UNROLL
          while (tile >= range.end) {
            sum.take(range, tiles.c[0]);
            range.step();
          }
          Words4 x[2][1];
          ASSAY_UNROLL
          for (int half = 0; half < 2; ++half)
            rows.units_of(x[half], range.index, 2 * (tile - range.begin) + half);
          tiles.multiply(operands, j, 0, own, x);
        }
        if (j < fetched) tiles.fetch(j, 0, more);
      }
      own = more;
      if (is_last) break;
    }
    ASSAY_NO_UNROLL
    for (; range.index != kRanges; range.step()) sum.take(range, tiles.c[0]);
    // Lanes of the first two rows have what all lanes finish: an output of a row each.
    if (at.t == 0) ASSAY_UNROLL
    for (int i = 0; i < 4; ++i) sums[slot * kWarp + i % 2 * kColumns + at.g + 8 * (i / 2)] = sum.all[i];
    warp_barrier();
    const std::int32_t row = at.lane / kColumns, output = at.strip * kColumns + at.lane % kColumns;
    if (row < a.rows && output < a.weight.outputs) finish(a.to, row, output, sums[slot * kWarp + at.lane]);
  }
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
