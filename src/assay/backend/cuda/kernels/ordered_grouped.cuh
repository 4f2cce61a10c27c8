// Matrix multiplications of few rows by grouped codes on 16-bit tensor cores; of more, 64 at a time. A
// group's products are summed as its codes are, and scaled then; what minima add is their product with the
// sum of the group's inputs, which a multiplication by ones makes.
//
// As in kernels/ordered.cuh rows lie in the order of operand B, weights are on their way before the kernel in
// front is waited for, and each of 8 warps sums a range of the inputs.
#pragma once

#include "assay/backend/cuda/kernels/grouped_codes.cuh"
#include "assay/backend/cuda/kernels/grouped_scales.cuh"
#include "assay/backend/cuda/kernels/ordered_rows.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// Spans of a warp whose codes are on their way: a power of two up to kChunkSpans.
template <int Blocks, int Strips>
inline constexpr int kSpansAhead = Blocks == 1   ? 8 / Strips
                                   : Blocks == 8 ? 2
                                                 : 4 / Strips;

// Blocks that share a processor, where their registers have room; 32 rows of 2-bit codes spill beside
// another.
template <int Bits, int Columns>
inline constexpr int kGroupedBlocksOfProcessor = Columns < (Bits == 2 ? 4 : 8) ? 2 : 1;

template <typename Type, int Bits, bool HasBook, int Blocks, int Strips>
struct GroupedSpans {
  using Shape = GroupedShape<Bits, HasBook>;
  using Codes = std::conditional_t<HasBook, BookCodes<Type>, IntegerCodes<Type, Bits>>;
  using Scales = StagedScales<Bits, HasBook>;
  static constexpr int kAhead = kSpansAhead<Blocks, Strips>, kAtOnce = Blocks == 1 ? kAhead : 1;

  const OrderedPlace<Strips>& at;
  bool has_minima;
  Codes codes;
  using Place = typename SpanWords<Bits>::Place;
  std::uint32_t ones[4];
  SpanWords<Bits> ahead[kAhead][Strips];
  float c[Strips][Blocks][4] = {};

  ASSAY_DEVICE GroupedSpans(const OrderedArgs& a, const OrderedPlace<Strips>& place,
                            const Place (&strips)[Strips])
      : at(place), has_minima(Shape::kMayHaveMinima && a.weight.run.has_minima), codes(a.weight) {
    // By numbers that are above 0 in every launch: of a constant each turn would make four registers anew.
    const std::int64_t positive[4] = {a.rows, a.weight.outputs, a.weight.inputs, a.x_stride};
    ASSAY_UNROLL
    for (int i = 0; i < 4; ++i) ones[i] = positive[i] > 0 ? twice(Type::kOne) : 0;
    // Slot j has the spans that leave j when divided by kAhead.
    ASSAY_UNROLL
    for (int j = 0; j < kAhead; ++j)
      if (const std::int32_t span = at.begin + ((j - at.begin) & (kAhead - 1)); span < at.end)
        fetch(j, strips, span);
  }
  ASSAY_DEVICE void fetch(int j, const Place (&strips)[Strips], std::int32_t span) {
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) ahead[j][strip].fetch(strips[strip], span);
  }

  // Scales of the chunk that span `first` is in; those of the next are on their way then.
  ASSAY_DEVICE void make_scales(const Scales (&scales)[Strips], std::int32_t first) const {
    const std::int32_t chunk = first / kChunkSpans;
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) scales[strip].fetch(chunk + 1, at.end, at.lane);
    cp_async_commit();
    cp_async_wait<1>();
    warp_barrier();
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) scales[strip].make(chunk, at.begin, at.end, at.lane);
    warp_barrier();
  }

  ASSAY_DEVICE void scale(float (&sums)[4], const float (&unscaled)[4], const float (&inputs)[4],
                          const ScalesOfLane& by) const {
    ASSAY_UNROLL
    for (int i = 0; i < 4; ++i) {
      sums[i] = fmaf(unscaled[i], i < 2 ? by.low : by.high, sums[i]);
      if (Shape::kMayHaveMinima && has_minima)
        sums[i] = fmaf(inputs[i], i < 2 ? by.low_offset : by.high_offset, sums[i]);
    }
  }
  // Span `first` + j, of which `strips` are the places, and which is `place` of its chunk.
  ASSAY_DEVICE void multiply_span(int j, std::int32_t first, std::int32_t place,
                                  const Place (&strips)[Strips], const Scales (&scales)[Strips],
                                  const Words4 (&x)[Blocks]) {
    constexpr int kGroups = Shape::kHasSmallGroups ? 2 : 1, kSteps = 2 / kGroups;
    std::uint32_t weights[Strips][2][4];
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) codes.expand(weights[strip], ahead[j][strip]);
    if (first + j + kAhead < at.end) fetch(j, strips, j + kAhead);
    ASSAY_UNROLL
    for (int group = 0; group < kGroups; ++group) {
      ScalesOfLane by[Strips];
      ASSAY_UNROLL
      for (int strip = 0; strip < Strips; ++strip)
        by[strip] = scales[strip].of(place * kGroups + group, at.g);
      ASSAY_UNROLL
      for (int block = 0; block < Blocks; ++block) {
        float inputs[4] = {}, unscaled[Strips][4] = {};
        ASSAY_UNROLL
        for (int step = group * kSteps; step < (group + 1) * kSteps; ++step) {
          const std::uint32_t b[2] = {x[block].word[2 * step], x[block].word[2 * step + 1]};
          if (Shape::kMayHaveMinima && has_minima) Type::multiply(inputs, ones, b);
          ASSAY_UNROLL
          for (int strip = 0; strip < Strips; ++strip)
            Type::multiply(unscaled[strip], weights[strip][step], b);
        }
        ASSAY_UNROLL
        for (int strip = 0; strip < Strips; ++strip)
          scale(c[strip][block], unscaled[strip], inputs, by[strip]);
      }
    }
  }
  template <typename Rows>
  ASSAY_DEVICE void multiply(const Scales (&scales)[Strips], Place (&strips)[Strips], const Rows& in) {
    const std::int32_t start = at.begin & ~(kAhead - 1);
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) strips[strip].move(start);
    ASSAY_NO_UNROLL
    for (std::int32_t first = start; first < at.end; first += kAhead) {
      const std::int32_t place = kAhead == kChunkSpans ? 0 : first & (kChunkSpans - 1);
      if (place == 0 && first > at.begin) make_scales(scales, first);
      ASSAY_UNROLL
      for (int group = 0; group < kAhead; group += kAtOnce) {
        const auto is_there = [&](int j) { return first + j >= at.begin && first + j < at.end; };
        Words4 x[kAtOnce][Blocks];
        ASSAY_UNROLL
        for (int j = 0; j < kAtOnce; ++j)
          if (is_there(group + j)) in.units(x[j], first + group + j);
        ASSAY_UNROLL
        for (int j = 0; j < kAtOnce; ++j)
          if (is_there(group + j)) multiply_span(group + j, first, place + group + j, strips, scales, x[j]);
      }
      ASSAY_UNROLL
      for (int strip = 0; strip < Strips; ++strip) strips[strip].move(kAhead);
    }
  }
};

template <typename Type, int Bits, bool HasBook, int Blocks, int Strips>
ASSAY_KERNEL_OF(kLinearThreads, kGroupedBlocksOfProcessor<Bits, Blocks * Strips>)
ordered_grouped(OrderedArgs a) {
  using Spans = GroupedSpans<Type, Bits, HasBook, Blocks, Strips>;
  if (a.to.lets_next_start) let_next_start();
  const auto at = OrderedPlace<Strips>::template of<MatrixFormat::grouped>(a, 8 * Blocks);
  const std::int64_t bytes = grouped_code_bytes(Bits, a.weight.inputs);
  const auto scales_of = [&](int strip) {
    return typename Spans::Scales(a.weight, at.strip + at.distance(a, strip),
                                  (at.warp * Strips + strip) * Spans::Shape::kStageBytes);
  };
  const auto place_of = [&](int strip) {
    return typename Spans::Place(at.strip_data[strip] + at.strip * bytes, at.lane);
  };
  const auto multiply = [&](const typename Spans::Scales(&scales)[Strips],
                            typename Spans::Place(&&places)[Strips]) {
    ASSAY_UNROLL
    for (int strip = 0; strip < Strips; ++strip) scales[strip].fetch(at.begin / kChunkSpans, at.end, at.lane);
    cp_async_commit();
    Spans spans(a, at, places);
    EndInputs early;
    if (Blocks == 1 && Strips == 1) early.fetch(a, at);
    if (at.begin < at.end) spans.make_scales(scales, at.begin);
    wait_for_previous();
    spans.multiply(scales, places, OrderedRows<Blocks>(a, at));
    cp_async_wait<0>();  // a warp without inputs has waited for none
    barrier();           // sums lie where scales were
    finish_blocks<Blocks, Strips>(a, at, shared<float>(0), spans.c, early);
  };
  if constexpr (Strips == 1)
    multiply({scales_of(0)}, {place_of(0)});
  else
    multiply({scales_of(0), scales_of(1)}, {place_of(0), place_of(1)});
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
