// A multiplication of 17 to 64 rows by a 16-bit matrix of many strips, as a vocabulary's: a block keeps all
// rows in shared memory and takes strip after strip. In kernels/ordered.cuh every strip fetches the rows from
// the L2 cache, up to four times the bytes of its weights. Sums are the same, bit for bit.
#pragma once

#include "assay/backend/cuda/kernels/ordered.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// The rows, in order and 64 bytes more than a multiple of 128 apart, so that lanes of two rows meet no bank
// twice. Lanes without a row of their own have the last one.
template <int Blocks>
struct RowsOfBlock {
  std::int32_t at[Blocks];

  ASSAY_DEVICE RowsOfBlock(const OrderedArgs& a, const OrderedPlace<1>& place, std::int64_t byte) {
    const auto rows = static_cast<std::int32_t>(a.rows),
               stride = static_cast<std::int32_t>(staged_row_bytes(a.weight.inputs) / 16);
    ASSAY_UNROLL
    for (int block = 0; block < Blocks; ++block)
      at[block] =
          static_cast<std::int32_t>(byte / 16) + smaller(8 * block + place.g, rows - 1) * stride + place.t;
  }
  ASSAY_DEVICE void units(Words4 (&out)[Blocks], std::int32_t i) const {
    ASSAY_UNROLL
    for (int block = 0; block < Blocks; ++block)
      out[block] = shared<Words4>(0)[at[block] + i * (kUnitWords / 4)];
  }
};

// In all threads, behind the wait and in front of a barrier.
ASSAY_DEVICE void stage_rows(const OrderedArgs& a, std::int64_t byte) {
  const auto rows = static_cast<std::int32_t>(a.rows),
             pieces = static_cast<std::int32_t>(round_up(a.weight.inputs, kUnitInputs) / 8),
             stride = static_cast<std::int32_t>(staged_row_bytes(a.weight.inputs) / 4);
  const Global<const std::byte> x(a.x);
  const Shared<std::uint32_t> words = shared<std::uint32_t>(byte);
  ASSAY_NO_UNROLL
  for (std::int32_t i = thread_index(); i < rows * pieces; i += kLinearThreads)
    cp_async_16(words, i / pieces * stride + i % pieces * 4, x,
                std::int64_t{i / pieces} * a.x_stride + i % pieces * 16);
  cp_async_commit();
  cp_async_wait<0>();
}

// Units of 32 inputs that a warp has on their way, of one strip and the first of the next. A range may begin
// or end in the middle of one.
template <typename Type, int Blocks>
struct StripHalves {
  static constexpr int kAhead = 4;
  const OrderedPlace<1>& at;
  std::int32_t begin, end;
  Words4 ahead[kAhead][2];

  ASSAY_DEVICE explicit StripHalves(const OrderedPlace<1>& place)
      : at(place), begin(at.begin / 2), end((at.end + 1) / 2) {}
  ASSAY_DEVICE bool has_tile(std::int32_t unit, int half) const {
    return 2 * unit + half >= at.begin && 2 * unit + half < at.end;
  }
  ASSAY_DEVICE void fetch(int j, std::int32_t strip, std::int32_t unit) {
    ASSAY_UNROLL
    for (int half = 0; half < 2; ++half)
      if (has_tile(unit, half)) ahead[j][half] = at.tile_of(0, strip, 2 * unit + half);
  }
  ASSAY_DEVICE void fetch_first(std::int32_t strip) {
    ASSAY_UNROLL
    for (int j = 0; j < kAhead; ++j)
      if (begin + j < end) fetch(j, strip, begin + j);
  }
  ASSAY_DEVICE void multiply(float (&c)[Blocks][4], const RowsOfBlock<Blocks>& rows, std::int32_t strip,
                             std::int32_t next, bool has_next) {
    std::int32_t unit = begin;
    ASSAY_NO_UNROLL
    while (unit < end) {
      const bool is_last = unit + kAhead >= end;
      const std::int32_t from = is_last ? begin : unit + kAhead,
                         fetched = is_last && !has_next ? 0 : end - from;
      ASSAY_UNROLL
      for (int j = 0; j < kAhead; ++j) {
        if (unit + j < end) {
          Words4 x[Blocks];
          rows.units(x, unit + j);
          ASSAY_UNROLL
          for (int half = 0; half < 2; ++half)
            if (has_tile(unit + j, half)) multiply_tile<Type>(c, ahead[j][half], x, half);
        }
        if (j < fetched) fetch(j, is_last ? next : strip, from + j);
      }
      if (is_last) break;
      unit = from;
    }
  }
};

template <typename Type, MatrixFormat Format, int Blocks>
ASSAY_KERNEL_OF(kLinearThreads, 1)
staged_halves(OrderedArgs a) {
  if (a.to.lets_next_start) let_next_start();
  auto at = OrderedPlace<1>::template of<Format>(a, 8 * Blocks);
  constexpr std::int64_t kPartials = kPartialBytes<8 * Blocks>;
  StripHalves<Type, Blocks> weights(at);
  weights.fetch_first(at.strip);
  wait_for_previous();
  stage_rows(a, 2 * kPartials);
  barrier();
  const RowsOfBlock<Blocks> rows(a, at, 2 * kPartials);
  const auto strips = static_cast<std::int32_t>(strips_of(a.weight.outputs)), step = grid_x();
  std::int64_t place = 0;  // sums of one strip are added while others are made
  ASSAY_NO_UNROLL
  for (; at.strip < strips; at.strip += step, place = kPartials - place) {
    float c[1][Blocks][4] = {};
    weights.multiply(c[0], rows, at.strip, at.strip + step, at.strip + step < strips);
    finish_blocks<Blocks, 1>(a, at, shared<float>(place), c);
  }
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
