// The products of attention over a bfloat16 or int8 cache by vdpbf16ps, included by attention_kernels-inl.h.
// Not a header for others. Queries are rounded to bfloat16, and so are the weights of values; their sum is of
// what they were.
#pragma once

#include "assay/backend/cpu/kernels/avx512bf16/pair_products-inl.h"

// Some rows as strips of 32 columns, [k / 32][Rows][32], zeros beyond k.
template <int Rows>
struct StagedRows {
  alignas(64) std::uint16_t data[Rows * kMaxHeadDim];
  std::int64_t strips, strip;
  StagedRows(std::int64_t rows, const float* a, std::int64_t a_stride, std::int64_t k)
      : strips((k + kTileColumns - 1) / kTileColumns), strip(rows * kTileColumns) {
    for (std::int64_t i = 0; i < strips; ++i) {
      const std::int64_t left = k - i * kTileColumns, low = left < kPanel ? left : kPanel,
                         high = left - low < kPanel ? left - low : kPanel;
      for (std::int64_t row = 0; row < rows; ++row) {
        const float* from = a + row * a_stride + i * kTileColumns;
        _mm512_store_si512(
            data + i * strip + row * kTileColumns,
            reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(Vec::load_n(from + (high > 0 ? kPanel : 0), high).v,
                                                          Vec::load_n(from, low).v)));
      }
    }
  }
};

template <>
struct FewRowProducts<Pairs> {
  static constexpr std::int64_t kRows = kFewPairRows;
  static constexpr bool kReadsBeyond = true;
  static void multiply_rows(std::int64_t rows, std::int64_t panels, const float* a, std::int64_t a_stride,
                            const Pairs& b, std::int64_t k, float* c) {
    const StagedRows<kRows> staged(rows, a, a_stride, k);
    const MultiplyFew multiply = panels == 4   ? multiply_few_of<4>(rows)
                                 : panels == 3 ? multiply_few_of<3>(rows)
                                 : panels == 2 ? multiply_few_of<2>(rows)
                                               : multiply_few_of<1>(rows);
    multiply({staged.data, staged.strip}, {b.data, b.panel_stride, b.fetch}, staged.strips, true, c);
  }
};

template <>
struct ManyRowProducts<Pairs> {
  static constexpr std::int64_t kRows = TwoPanels::kRows;
  static constexpr bool kReadsBeyond = true;
  static void multiply_rows(std::int64_t rows, std::int64_t panels, const float* a, std::int64_t a_stride,
                            const Pairs& b, std::int64_t k, float* c) {
    const StagedRows<kRows> staged(rows, a, a_stride, k);
    for (std::int64_t i = 0; i < panels; i += 2)
      spread_two_panels(rows, {.a = staged.data,
                               .a_strip = staged.strip * 2,
                               .b = b.data + i * b.panel_stride,
                               .b_next = b.panel_stride * 2,
                               .strips = staged.strips,
                               .is_first = true,
                               .c = c + i * kPanel,
                               .ahead = nullptr,
                               .step = 0});
  }
};

// Some panels of int8 codes as pairs of bfloat16, which holds each code exactly: once for all rows that pass.
class WidenedCodes {
 public:
  WidenedCodes(const Codes& b, std::int64_t panels, std::int64_t k)
      : next_(round_up(k, kTileColumns) * kPanel) {
    for (std::int64_t i = 0; i < panels; ++i) {
      const std::int8_t* from = b.data + i * b.panel_stride;
      std::uint16_t* to = data_ + i * next_;
      for (std::int64_t row = 0; row < k; row += 2, from += 2 * b.k_stride, to += 2 * kPanel)
        widen_pair(from, row + 1 < k ? b.k_stride : -1, to);
      for (; to < data_ + (i + 1) * next_; to += 2 * kPanel) _mm512_store_si512(to, _mm512_setzero_si512());
    }
  }
  Pairs pairs(const WeightFetch* fetch) const { return {data_, next_, fetch}; }

 private:
  // Two rows of 16 codes, of which the second, `stride` behind the first, is zero where that is negative.
  static void widen_pair(const std::int8_t* from, std::int64_t stride, std::uint16_t* to) {
    const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)),
                  second = stride < 0 ? _mm_setzero_si128()
                                      : _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + stride));
    const __m512 low = floats_of(_mm_unpacklo_epi8(first, second)),
                 high = floats_of(_mm_unpackhi_epi8(first, second));
    _mm512_store_si512(to, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
  }
  static __m512 floats_of(__m128i codes) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes)); }

  std::int64_t next_;
  alignas(64) std::uint16_t data_[kGroup * kPanel * kMaxHeadDim];
};

template <>
struct FewRowProducts<Codes> {
  static constexpr std::int64_t kRows = kFewPairRows;
  static constexpr bool kReadsBeyond = false;
  static void multiply_rows(std::int64_t rows, std::int64_t panels, const float* a, std::int64_t a_stride,
                            const Codes& b, std::int64_t k, float* c) {
    const WidenedCodes widened(b, panels, k);
    FewRowProducts<Pairs>::multiply_rows(rows, panels, a, a_stride, widened.pairs(b.fetch), k, c);
  }
};

template <>
struct ManyRowProducts<Codes> {
  static constexpr std::int64_t kRows = kAttendRows;  // so that codes are widened once for a task
  static constexpr bool kReadsBeyond = false;
  static void multiply_rows(std::int64_t rows, std::int64_t panels, const float* a, std::int64_t a_stride,
                            const Codes& b, std::int64_t k, float* c) {
    const WidenedCodes widened(b, panels, k);
    constexpr std::int64_t kMax = ManyRowProducts<Pairs>::kRows;
    const std::int64_t calls = (rows + kMax - 1) / kMax, at_once = (rows + calls - 1) / calls;
    for (std::int64_t row = 0; row < rows; row += at_once)
      ManyRowProducts<Pairs>::multiply_rows(rows - row < at_once ? rows - row : at_once, panels,
                                            a + row * a_stride, a_stride, widened.pairs(b.fetch), k,
                                            c + row * kSumColumns);
  }
};

template <>
struct HeadProducts<Codes> {
  static constexpr std::int64_t kRows = 16;
  static constexpr bool kReadsBeyond = false;
  static void multiply_rows(std::int64_t rows, std::int64_t panels, const float* a, std::int64_t a_stride,
                            const Codes& b, std::int64_t k, float* c) {
    if (rows >= kMinTwoPanelRows && panels % 2 == 0)
      return ManyRowProducts<Codes>::multiply_rows(rows, panels, a, a_stride, b, k, c);
    const WidenedCodes widened(b, panels, k);
    for (std::int64_t row = 0; row < rows; row += kFewPairRows)
      FewRowProducts<Pairs>::multiply_rows(rows - row < kFewPairRows ? rows - row : kFewPairRows, panels,
                                           a + row * a_stride, a_stride, widened.pairs(b.fetch), k,
                                           c + row * kSumColumns);
  }
};
