// The products of attention over a bfloat16 cache by vdpbf16ps, included by attention_kernels.h. Not a header
// for others. Queries are rounded to bfloat16, and so are the weights of values; their sum is of what they
// were.
#include "assay/backend/cpu/avx512bf16/pair_products.h"

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
    multiply({staged.data, staged.strip}, {b.data, b.panel_stride}, staged.strips, true, c);
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
