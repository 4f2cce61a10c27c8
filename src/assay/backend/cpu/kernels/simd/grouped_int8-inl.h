// Products of grouped codes by int8 activations over a `Vec` and a `Dot`, for the ISA files that include it
// inside their own anonymous namespace, after grouped_kernels-inl.h. Not a header for others.
//
// `Vec` has also: masked and merged (some bits of each byte). `Dot` has look_up, of_table and with_sign
// (bytes by codes), plain, add_plain and end_plain (products of bytes without a sign).
#pragma once

#include "assay/backend/cpu/kernels/simd/grouped_scales-inl.h"

// Four inputs, from 4 * `four` on, of each output of a part, whose span begins at `span`.
template <typename Form>
ASSAY_INLINE Dot::Bytes four_bytes_of(const Dot::Bytes& book, const std::byte* span, int four) {
  constexpr int kLow = Form::kLow, kHigh = Form::kHigh, kFours = 8 / kLow;
  const Vec::Codes low = Vec::words(span + four / kFours * kPanel * 4);
  if constexpr (kLow == 8) return Dot::kHasOffset ? Dot::Bytes{low} : Dot::with_sign(low);
  Vec::Codes code = Vec::masked(low, kLow * (four % kFours), (1 << kLow) - 1);
  if constexpr (kHigh > 0) {
    constexpr int kHighFours = 8 / (kHigh > 0 ? kHigh : 1);
    const Vec::Codes high = Vec::words(span + (kLow + four / kHighFours) * kPanel * 4);
    code = Vec::merged(code, high, kHigh * (four % kHighFours) - kLow, ((1 << kHigh) - 1) << kLow);
  }
  return Form::kBytes == ByteKind::codes ? Dot::Bytes{code} : Dot::look_up(book, code);
}

// 32 inputs of some rows times a part of a panel, whose span begins at `span`; `group` is the place of their
// first scales in x, `scale` has those of the weights.
template <typename Form, int Rows, int Columns>
ASSAY_INLINE void add_span(const GroupedRows& x, const std::int8_t* inputs, std::int64_t group,
                           const Dot::Bytes& book, const std::byte* span, const Vec* scale, int column,
                           Vec (&sums)[Rows][Columns]) {
  constexpr int kHalves = Form::kIsHalf ? 2 : 1, kFours = 8 / kHalves;
#pragma GCC unroll 2
  for (int half = 0; half < kHalves; ++half) {
    const std::int64_t own = group + half * x.capacity;
    Dot dots[Rows];
    for (int row = 0; row < Rows; ++row)
      dots[row] = Dot::all((Dot::kHasOffset ? x.starts : x.own_starts)[own + row]);
#pragma GCC unroll 8
    for (int i = 0; i < kFours; ++i) {
      const int four = half * kFours + i;
      const Dot::Bytes bytes = four_bytes_of<Form>(book, span, four);
      for (int row = 0; row < Rows; ++row) {
        const std::int8_t* of_row = inputs + row * kInt8Group + four * 4;
        if constexpr (Form::kHasSign)
          dots[row].add_bytes(Dot::four(of_row), bytes);
        else
          dots[row].add_plain(Dot::plain(of_row), bytes);
      }
    }
    for (int row = 0; row < Rows; ++row) {
      if constexpr (!Form::kHasSign) dots[row].end_plain();
      if constexpr (Form::kHasRest) dots[row].add(x.starts[own + row]);
      sums[row][column] = Vec::fma(dots[row].floats(), Vec::mul(Vec::set(x.scales[own + row]), scale[half]),
                                   sums[row][column]);
    }
  }
}

// Some rows times some panels.
template <typename Form, int Rows, int Panels>
void multiply_grouped_int8(const GroupedInt8Args& args, const Dot::Bytes& the_book, std::int64_t first_row,
                           std::int64_t panel) {
  constexpr int kColumns = Panels * kParts, kHalves = Form::kIsHalf ? 2 : 1;
  const GroupedCodes& w = args.weights;
  const ScaleRun run = w.run;
  const Dot::Bytes book = the_book;
  const WeightFetch fetch = args.fetch;
  const GroupedRows x = args.x.from(first_row);
  const std::int64_t code_bytes = w.code_bytes(), scale_bytes = w.scale_bytes(), k_padded = w.k_padded,
                     strip = x.strip(), capacity = x.capacity;
  const std::byte *codes = w.codes + panel * code_bytes, *scales = w.scales + panel * scale_bytes;
  const std::int8_t* inputs = x.codes;
  fetch_finish(args.to, first_row, Rows, panel * kPanel, Panels * kPanel);
  RunScales by[kColumns];
  Vec sums[Rows][kColumns];
  clear(sums);
  std::int64_t group = 0;
  for (std::int64_t block = 0; block < k_padded; block += kInt8Block) {
    const std::int64_t count = k_padded - block < kInt8Block ? k_padded - block : kInt8Block;
    for (int j = 0; j < kColumns; ++j)
      load_block<Form>(run, scales + j / kParts * scale_bytes, count, j % kParts, by[j]);
    scales += count / run.inputs * run.bytes();
    const std::int64_t first_group = group;
    for (std::int64_t at = 0; at < count;
         at += kInt8Group, codes += Form::kSpanBytes, inputs += strip, group += kHalves)
      for (int j = 0; j < kColumns; ++j) {
        const std::byte* span = codes + j / kParts * code_bytes + j % kParts * Vec::kWidth * 4;
        if (j % kParts == 0)
          for (int line = 0; line < Form::kBits; ++line)
            fetch_ahead(span + line * kPanel * 4, distance_of<Panels>(fetch), fetch);
        add_span<Form>(x, inputs, group * capacity, book, span, by[j].scale + group - first_group, j, sums);
      }
    for (std::int64_t i = first_group; Form::kHasOffset && i < group; ++i)
      for (int j = 0; j < kColumns; ++j)
        for (int row = 0; row < Rows; ++row)
          sums[row][j] =
              Vec::fma(Vec::set(x.sums[i * capacity + row]), by[j].offset[i - first_group], sums[row][j]);
  }
  for (int row = 0; row < Rows; ++row)
    for (int j = 0; j < kColumns; ++j) {
      const std::int64_t output = panel * kPanel + j * Vec::kWidth, left = args.to.n - output;
      if (left > 0)
        finish_vector(args.to, sums[row][j], first_row + row, output,
                      left < Vec::kWidth ? left : Vec::kWidth);
    }
}

// Calls take(GroupedForm of the format) for the formats that there are.
template <typename Take>
void for_grouped_forms(const GroupedInt8Args& args, const Take& take) {
  using enum ByteKind;
  using enum ScaleKind;
  const ScaleRun& run = args.weights.run;
  const bool has_numbers = run.number_bits > 0;
  switch (args.weights.bits) {
    case 2:
      return has_numbers ? take(GroupedForm<2, 0, codes, numbers, true, true>{})
                         : take(GroupedForm<2, 0, codes, factors, false, false>{});
    case 3:
      return take(GroupedForm<2, 1, codes, numbers, false, true>{});
    case 4:
      if (args.values.has_table)
        return has_numbers           ? take(GroupedForm<4, 0, wide_table, numbers, false, false>{})
               : args.values.is_wide ? take(GroupedForm<4, 0, wide_table, factors, false, false>{})
                                     : take(GroupedForm<4, 0, table, powers, false, false>{});
      return has_numbers      ? take(GroupedForm<4, 0, codes, numbers, true, false>{})
             : run.has_minima ? take(GroupedForm<4, 0, codes, factors, true, false>{})
                              : take(GroupedForm<4, 0, codes, factors, false, false>{});
    case 5:
      return has_numbers      ? take(GroupedForm<4, 1, codes, numbers, true, false>{})
             : run.has_minima ? take(GroupedForm<4, 1, codes, factors, true, false>{})
                              : take(GroupedForm<4, 1, codes, factors, false, false>{});
    case 6:
      return take(GroupedForm<4, 2, codes, numbers, false, true>{});
    default:
      return take(GroupedForm<8, 0, codes, factors, false, false>{});
  }
}

Dot::Bytes grouped_book(const ByteValues& values) {
  const Dot::Bytes book = Dot::of_table(values.table);
  return values.is_wide && !Dot::kHasOffset ? Dot::with_sign(book.v) : book;
}

// The bytes and the scales of `inputs` inputs of a panel from k on, while the codes that come next are
// fetched: [inputs / 4][16][4], and those of each part.
template <typename Form>
ASSAY_INLINE void expand_grouped_bytes(const GroupedCodes& w, const Dot::Bytes& book, std::int64_t panel,
                                       std::int64_t k, std::int64_t inputs, std::int8_t* out, RunScales* by) {
  const std::byte* codes = w.codes + panel * w.code_bytes() + k / kSpan * Form::kSpanBytes;
  const std::byte* scales = w.scales + panel * w.scale_bytes() + k / w.run.inputs * w.run.bytes();
  for (std::int64_t part = 0; part < kParts; ++part) load_block<Form>(w.run, scales, inputs, part, by[part]);
  // The same panel's, or those of the next call's panel at this place.
  const bool is_last = k + inputs >= w.k_padded;
  const std::int64_t of_scales = inputs / w.run.inputs * w.run.bytes(),
                     ahead = is_last ? kCodedPanels * w.code_bytes() - k / kSpan * Form::kSpanBytes
                                     : inputs / kSpan * Form::kSpanBytes;
  const std::byte* next_scales =
      is_last ? w.scales + (panel + kCodedPanels) * w.scale_bytes() : scales + of_scales;
  for (std::int64_t i = 0; i < of_scales; i += 64) fetch_next(next_scales + i);
  for (std::int64_t i = 0; i < inputs; i += kSpan, codes += Form::kSpanBytes, out += kSpan * kPanel) {
    for (int line = 0; line < Form::kBits; ++line) fetch_next(codes + ahead + line * kPanel * 4);
#pragma GCC unroll 8
    for (int four = 0; four < 8; ++four)
      for (int part = 0; part < kParts; ++part)
        four_bytes_of<Form>(book, codes + part * Vec::kWidth * 4, four)
            .store(out + four * kPanel * 4 + part * Vec::kWidth * 4);
  }
}

// From so many rows on, codes become bytes once for all of them; below, on AVX-512 with VNNI, once for each
// two panels of up to four rows, or for each panel of up to eight (measured on Zen 5).
constexpr bool kHasRowsOfPanels = Vec::kRegisters == 32 && Dot::kHasOffset;
constexpr std::int64_t kMinGroupedBlockRows = kHasRowsOfPanels ? 13 : 3;
#if defined(ASSAY_HAS_BYTE_BLOCKS)
#include "assay/backend/cpu/kernels/simd/grouped_blocks512-inl.h"
#elif defined(ASSAY_HAS_SIGNED_BLOCKS)
#include "assay/backend/cpu/kernels/simd/grouped_blocks-inl.h"
#else
// An ISA file whose products of bytes are those of another.
template <typename Form>
void linear_grouped_blocks(const GroupedInt8Args&, const Dot::Bytes&) {}
#endif

void linear_grouped_int8(const GroupedInt8Args& args) noexcept {
  const Dot::Bytes book = grouped_book(args.values);
  for_grouped_forms(args, [&]<typename Form>(Form) {
    if (args.to.rows >= kMinGroupedBlockRows) return linear_grouped_blocks<Form>(args, book);
    const auto multiply = [&](auto rows, auto panels, std::int64_t row, std::int64_t panel) {
      multiply_grouped_int8<Form, decltype(rows)::value, decltype(panels)::value>(args, book, row, panel);
    };
    // A panel alone is one stream of codes and one of scales, which run on into the next panel's.
    if (args.to.rows == 1) return for_few_rows<1, 1>(args.to, multiply);
    if constexpr (kHasRowsOfPanels)
      args.to.rows > (Form::kIsHalf ? 2 : 4) ? for_few_rows<8, 1>(args.to, multiply)
                                             : for_few_rows<4, 2>(args.to, multiply);
    else
      for_few_rows<2, 2>(args.to, multiply);
  });
}

#include "assay/backend/cpu/kernels/simd/grouped_quantize-inl.h"
