// Products of grouped codes by int8 activations over a `Vec` and a `Dot`, for the ISA files that include it
// inside their own anonymous namespace, after grouped_kernels-inl.h. Not a header for others.
//
// `Vec` has also: masked and merged (some bits of each byte). `Dot` has look_up, of_table and with_sign
// (bytes by codes), plain and add_plain (products of bytes without a sign).
#pragma once

// How codes become bytes: they are the bytes, they are looked up, or they have all 8 bits and get a sign
// where there is no VNNI.
enum class ByteKind { codes, table, wide_table };

// The scales and offsets of `inputs` inputs, a block of 256 or its rest, whose first run lies at `at`.
template <bool kHasOffset>
ASSAY_INLINE void load_block(const ScaleRun& run, const std::byte* at, std::int64_t inputs, std::int64_t part,
                             RunScales& out) {
  if (run.number_bits > 0) {
    load_run<kHasOffset>(run, at, part, out);
    return;
  }
  const std::int64_t groups = inputs / kInt8Group, of_run = run.inputs / kInt8Group;
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::byte* own = at + group / of_run * run.bytes();
    out.scale[group] =
        run.is_e8m0 ? Vec::powers(run_words(run, own, 0, part)) : run_factor(run, own, run.factor_at, part);
    if (kHasOffset) out.offset[group] = run_factor(run, own, run.minimum_factor_at, part);
  }
}

// Four inputs, from 4 * `four` on, of each output of a part, whose span begins at `span`.
template <int Low, int High, ByteKind kKind>
ASSAY_INLINE Dot::Bytes four_bytes_of(const Dot::Bytes& book, const std::byte* span, int four) {
  constexpr int kFours = 8 / Low;
  const Vec::Codes low = Vec::words(span + four / kFours * kPanel * 4);
  if constexpr (Low == 8) return Dot::kHasOffset ? Dot::Bytes{low} : Dot::with_sign(low);
  Vec::Codes code = Vec::masked(low, Low * (four % kFours), (1 << Low) - 1);
  if constexpr (High > 0) {
    constexpr int kHighFours = 8 / (High > 0 ? High : 1);
    const Vec::Codes high = Vec::words(span + (Low + four / kHighFours) * kPanel * 4);
    code = Vec::merged(code, high, High * (four % kHighFours) - Low, ((1 << High) - 1) << Low);
  }
  return kKind == ByteKind::codes ? Dot::Bytes{code} : Dot::look_up(book, code);
}

// 32 inputs of some rows times a part of a panel, whose span begins at `span`; `group` is the place of their
// first scales in x, `scale` has those of the weights.
template <int Low, int High, ByteKind kKind, bool kIsHalf, int Rows, int Columns>
ASSAY_INLINE void add_span(const GroupedRows& x, const std::int8_t* inputs, std::int64_t group,
                           const Dot::Bytes& book, const std::byte* span, const Vec* scale, int column,
                           Vec (&sums)[Rows][Columns]) {
  constexpr int kHalves = kIsHalf ? 2 : 1, kFours = 8 / kHalves;
  constexpr bool kHasSign = !Dot::kHasOffset && (Low == 8 || kKind == ByteKind::wide_table);
#pragma GCC unroll 2
  for (int half = 0; half < kHalves; ++half) {
    const std::int64_t own = group + half * x.capacity;
    Dot dots[Rows];
    for (int row = 0; row < Rows; ++row)
      dots[row] = Dot::all((kHasSign ? x.signed_starts : x.starts)[own + row]);
#pragma GCC unroll 8
    for (int i = 0; i < kFours; ++i) {
      const int four = half * kFours + i;
      const Dot::Bytes bytes = four_bytes_of<Low, High, kKind>(book, span, four);
      for (int row = 0; row < Rows; ++row) {
        const std::int8_t* of_row = inputs + row * kInt8Group + four * 4;
        if constexpr (kHasSign)
          dots[row].add_bytes(Dot::four(of_row), bytes);
        else
          dots[row].add_plain(Dot::plain(of_row), bytes);
      }
    }
    for (int row = 0; row < Rows; ++row)
      sums[row][column] = Vec::fma(dots[row].floats(), Vec::mul(Vec::set(x.scales[own + row]), scale[half]),
                                   sums[row][column]);
  }
}

// Some rows times some panels.
template <int Low, int High, ByteKind kKind, bool kHasOffset, bool kIsHalf, int Rows, int Panels>
void multiply_grouped_int8(const GroupedInt8Args& args, const Dot::Bytes& the_book, std::int64_t first_row,
                           std::int64_t panel) {
  constexpr int kColumns = Panels * kParts, kHalves = kIsHalf ? 2 : 1;
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
      load_block<kHasOffset>(run, scales + j / kParts * scale_bytes, count, j % kParts, by[j]);
    scales += count / run.inputs * run.bytes();
    const std::int64_t first_group = group;
    for (std::int64_t at = 0; at < count;
         at += kInt8Group, codes += (Low + High) * kPanel * 4, inputs += strip, group += kHalves)
      for (int j = 0; j < kColumns; ++j) {
        const std::byte* span = codes + j / kParts * code_bytes + j % kParts * Vec::kWidth * 4;
        if (j % kParts == 0)
          for (int line = 0; line < Low + High; ++line)
            fetch_ahead(span + line * kPanel * 4, distance_of<Panels>(fetch), fetch);
        add_span<Low, High, kKind, kIsHalf>(x, inputs, group * capacity, book, span,
                                            by[j].scale + group - first_group, j, sums);
      }
    for (std::int64_t i = first_group; kHasOffset && i < group; ++i)
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

// Calls take.operator()<low bits, high bits, kind, whether there are minima, whether groups have 16 inputs>()
// for the formats that there are.
template <typename Take>
void for_byte_kinds(const GroupedInt8Args& args, const Take& take) {
  using enum ByteKind;
  const ScaleRun& run = args.weights.run;
  const bool is_half = run.group() < kInt8Group;
  switch (args.weights.bits) {
    case 2:
      return is_half ? take.template operator()<2, 0, codes, true, true>()
                     : take.template operator()<2, 0, codes, false, false>();
    case 3:
      return take.template operator()<2, 1, codes, false, true>();
    case 4:
      if (args.values.has_table)
        return args.values.is_wide ? take.template operator()<4, 0, wide_table, false, false>()
                                   : take.template operator()<4, 0, table, false, false>();
      return run.has_minima ? take.template operator()<4, 0, codes, true, false>()
                            : take.template operator()<4, 0, codes, false, false>();
    case 5:
      return run.has_minima ? take.template operator()<4, 1, codes, true, false>()
                            : take.template operator()<4, 1, codes, false, false>();
    case 6:
      return take.template operator()<4, 2, codes, false, true>();
    default:
      return take.template operator()<8, 0, codes, false, false>();
  }
}

// Rows whose sums of bytes and of floats fit the registers.
constexpr int kFewGroupedRows = Vec::kRegisters == 32 ? 8 : 2;

Dot::Bytes grouped_book(const ByteValues& values) {
  const Dot::Bytes book = Dot::of_table(values.table);
  return values.is_wide && !Dot::kHasOffset ? Dot::with_sign(book.v) : book;
}

#if defined(ASSAY_HAS_BYTE_BLOCKS)
// From here on the codes become bytes once for all rows.
constexpr std::int64_t kMinGroupedBlockRows = 17;
#include "assay/backend/cpu/kernels/simd/grouped_blocks512-inl.h"
#endif

void linear_grouped_int8(const GroupedInt8Args& args) noexcept {
  const Dot::Bytes book = grouped_book(args.values);
  for_byte_kinds(args, [&]<int Low, int High, ByteKind kKind, bool kHasOffset, bool kIsHalf>() {
#if defined(ASSAY_HAS_BYTE_BLOCKS)
    const std::int64_t last = args.to.first_panel + args.to.panels;
    if (args.to.rows >= kMinGroupedBlockRows) {
      for (std::int64_t panel = args.to.first_panel; panel < last; panel += kCodedPanels)
        linear_grouped_panels<Low, High, kKind, kHasOffset, kIsHalf>(
            args, book, panel, last - panel < kCodedPanels ? last - panel : kCodedPanels);
      return;
    }
#endif
    const auto multiply = [&](auto rows, auto panels, std::int64_t row, std::int64_t panel) {
      multiply_grouped_int8<Low, High, kKind, kHasOffset, kIsHalf, decltype(rows)::value,
                            decltype(panels)::value>(args, book, row, panel);
    };
    if (args.to.rows == 1)
      for_few_rows<1, kCodePanels>(args.to, multiply);
    else
      for_few_rows<kFewGroupedRows, 2>(args.to, multiply);
  });
}

// 32 inputs of a row, cut into groups.
ASSAY_INLINE void quantize_grouped_inputs(const QuantizeGroupedArgs& args, std::int64_t row,
                                          std::int64_t first, Vec& poison) {
  constexpr int kVectors = static_cast<int>(kInt8Group) / Vec::kWidth;
  const GroupedRows& out = args.out;
  const Vec zero = Vec::set(0.0F);
  Vec inputs[kVectors], largest = zero;
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) {
    const std::int64_t at = first + i * Vec::kWidth, left = args.k - at;
    if (left <= 0)
      inputs[i] = zero;
    else if (args.x != nullptr)
      inputs[i] = Vec::load_n(args.x + row * args.x_stride + at, left < Vec::kWidth ? left : Vec::kWidth);
    else
      inputs[i] = Vec::load_bfloat16(args.x_tiles.data + args.x_tiles.offset(row, at));  // zeros beyond k
    largest = Vec::max(Vec::max(inputs[i], Vec::sub(zero, inputs[i])), largest);
    poison = add_poison(poison, inputs[i]);
  }
  const float absmax = largest.highest();
  const bool is_some = absmax >= 1e-35F;
  const Vec inverse = Vec::set(is_some ? 127.0F / absmax : 0.0F);
  const float scale = is_some ? absmax * (1.0F / 127.0F) * args.values.unit : 0.0F;
  Vec sums[kVectors], of_sign[kVectors];  // sums of whole numbers below 2^24: exact
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) {
    // NaN becomes the lowest code.
    sums[i] = Vec::max(Vec::round(Vec::mul(inputs[i], inverse)), Vec::set(-127.0F));
    of_sign[i] = Dot::kHasOffset ? zero : Dot::start_of(sums[i]);
    sums[i].store_bytes(out.codes + out.offset(row, first + i * Vec::kWidth));
  }
  const int of_group = static_cast<int>(args.group) / Vec::kWidth;
  for (int from = 0; from < kVectors; from += of_group) {
    Vec sum = zero, with_sign = zero;
    for (int i = from; i < from + of_group; ++i) {
      sum = Vec::add(sum, sums[i]);
      with_sign = Vec::add(with_sign, of_sign[i]);
    }
    const float total = sum.total();
    const std::int64_t at = (first + from * Vec::kWidth) / args.group * out.capacity + row;
    out.scales[at] = scale;
    out.sums[at] = total * scale;
    out.starts[at] = -args.values.zero * static_cast<std::int32_t>(total);
    // Bytes with a sign are less by 128 where they are wide, and else the same.
    out.signed_starts[at] =
        static_cast<std::int32_t>(with_sign.total()) + (args.values.is_wide ? 0 : out.starts[at]);
  }
}

void quantize_grouped(const QuantizeGroupedArgs& args) noexcept {
  const GroupedRows& out = args.out;
  for (std::int64_t row = args.first_row; row < args.first_row + args.rows; ++row) {
    Vec poison = Vec::set(0.0F);
    for (std::int64_t first = 0; first < args.k_padded; first += kInt8Group)
      quantize_grouped_inputs(args, row, first, poison);
    for (std::int64_t group = 0; is_poisoned(poison) && group < args.k_padded / args.group; ++group)
      out.scales[group * out.capacity + row] = out.sums[group * out.capacity + row] = poison.total();
  }
}
