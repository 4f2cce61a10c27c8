// Inputs to int8 and products of int8 weights over a `Vec`, for the ISA files that include it inside their
// own anonymous namespace, after float32_kernels-inl.h. Not a header for others.
//
// `Vec` has also: load_bfloat16, highest (of its lanes), store_bytes (kWidth rounded values as int8; or
// four vectors, rounded there and saturated) and to_float16 (rounded there and back). `Dot` sums products of
// groups of four bytes in kWidth 32-bit lanes, by inputs, weights and add. kHasOffset: inputs have to be
// unsigned, and are 128 too large.
#pragma once

#include "assay/backend/cpu/kernels/simd/float32_kernels-inl.h"

// Some inputs, each multiplied by its factor.
ASSAY_INLINE Vec inputs_of(const QuantizeArgs& args, const float* x, std::int64_t i, std::int64_t count) {
  const Vec v = Vec::load_n(x + i, count);
  return args.factors == nullptr ? v : Vec::mul(v, Vec::load_n(args.factors + i, count));
}

constexpr std::int64_t kFourWidths = 4 * Vec::kWidth;

// Calls take(vector, lane of four, its first input, count) for the inputs of a row, four whole vectors at a
// time as far as they go.
template <typename Take>
ASSAY_INLINE void for_inputs(const QuantizeArgs& args, const float* x, const Take& take) {
  const std::int64_t whole = args.k / kFourWidths * kFourWidths;
  std::int64_t i = 0;
  if (args.factors == nullptr) {
    for (; i < whole; i += kFourWidths)
      for (int lane = 0; lane < 4; ++lane) take(Vec::load(x + i + lane * Vec::kWidth), lane);
  }
  for (; i < args.k; i += Vec::kWidth) {
    const std::int64_t left = args.k - i;
    take(inputs_of(args, x, i, left < Vec::kWidth ? left : Vec::kWidth), 0);
  }
}

RowCode code_of_row(const QuantizeArgs& args, const float* x) {
  if (args.fixed_scale > 0) return {args.fixed_scale, 1.0F / args.fixed_scale, args.fixed_zero_point};
  const Vec zero = Vec::set(0.0F);
  Vec low[4] = {zero, zero, zero, zero}, high[4] = {zero, zero, zero, zero};
  for_inputs(
      args, x, [&](Vec v, int lane) __attribute__((always_inline)) {
        low[lane] = Vec::min(v, low[lane]);
        high[lane] = Vec::max(v, high[lane]);
      });
  const Vec lowest = Vec::min(Vec::min(low[0], low[1]), Vec::min(low[2], low[3])),
            highest = Vec::max(Vec::max(high[0], high[1]), Vec::max(high[2], high[3]));
  return row_code(-Vec::sub(zero, lowest).highest(), highest.highest());
}

// Where the code of input i of a row lies.
ASSAY_INLINE std::int8_t* code_at(const QuantizeArgs& args, std::int64_t row, std::int64_t i) {
  return reinterpret_cast<std::int8_t*>(args.codes.data) + i / kInt8Columns * args.codes.strip() * 2 +
         row * kInt8Columns + i % kInt8Columns;
}

void quantize_ranges(const QuantizeArgs& args) {
  const std::int64_t padded = round_up(args.k, kInt8Columns), whole = args.k / kFourWidths * kFourWidths;
  for (std::int64_t row = args.first_row; row < args.first_row + args.rows; ++row) {
    const float* x = args.x + row * args.x_stride;
    const RowCode row_code = code_of_row(args, x);
    args.absmax[row] = 127.0F * row_code.scale;
    if (args.zero_points != nullptr) args.zero_points[row] = row_code.zero_point;
    const Vec inverse = Vec::set(row_code.inverse),
              lowest = Vec::set(static_cast<float>(-128 - row_code.zero_point)),
              highest = Vec::set(static_cast<float>(127 - row_code.zero_point));
    Vec poison[4] = {Vec::set(0.0F), Vec::set(0.0F), Vec::set(0.0F), Vec::set(0.0F)};
    // Not yet rounded: the limits are whole numbers.
    const auto code = [&](Vec v, int lane) __attribute__((always_inline)) {
      poison[lane] = add_poison(poison[lane], v);
      return Vec::min(Vec::max(Vec::mul(v, inverse), lowest), highest);
    };
    std::int64_t i = 0;
    for (; i < whole && args.factors == nullptr; i += kFourWidths) {
      const auto code_of = [&](int lane) __attribute__((always_inline)) {
        return code(Vec::load(x + i + lane * Vec::kWidth), lane);
      };
      Vec::store_bytes(code_at(args, row, i), code_of(0), code_of(1), code_of(2), code_of(3),
                       row_code.zero_point);
    }
    const Vec zero = Vec::set(static_cast<float>(row_code.zero_point));
    for (; i < padded; i += Vec::kWidth) {
      std::int8_t* out = code_at(args, row, i);
      const std::int64_t left = args.k - i < 0 ? 0 : args.k - i, n = left < Vec::kWidth ? left : Vec::kWidth;
      Vec::add(Vec::round(code(inputs_of(args, x, n == 0 ? 0 : i, n), 0)), zero).store_bytes(out);
      for (std::int64_t j = n; j < Vec::kWidth; ++j) out[j] = 0;
    }
    const Vec all = sum_of_four(poison);
    if (is_poisoned(all)) args.absmax[row] = all.total();
  }
}

// Symmetric codes. kHasThreshold: an input is rounded to float16, and one of threshold or more counts for
// nothing.
template <bool kHasThreshold>
void quantize_magnitudes(const QuantizeArgs& args) {
  const std::int64_t padded = round_up(args.k, kInt8Columns), whole = args.k / kFourWidths * kFourWidths;
  const Vec threshold = Vec::set(args.threshold), zero = Vec::set(0.0F);
  const bool counts_all = args.threshold == __builtin_huge_valf();
  const auto magnitude_of = [&](Vec v) __attribute__((always_inline)) {
    return Vec::max(v, Vec::sub(zero, v));
  };
  const auto counted = [&](Vec v) __attribute__((always_inline)) {
    if (!kHasThreshold) return v;
    v = v.to_float16();
    return Vec::select_less(magnitude_of(v), threshold, v, zero);
  };
  for (std::int64_t row = args.first_row; row < args.first_row + args.rows; ++row) {
    const float* x = args.x + row * args.x_stride;
    Vec largest[4] = {zero, zero, zero, zero}, poison[4] = {zero, zero, zero, zero};
    for_inputs(
        args, x, [&](Vec v, int lane) __attribute__((always_inline)) {
          largest[lane] = Vec::max(magnitude_of(counted(v)), largest[lane]);
          poison[lane] = add_poison(poison[lane], counts_all ? v.to_float16() : v);
        });
    const Vec poison_of_row = sum_of_four(poison);
    if (is_poisoned(poison_of_row)) {
      args.absmax[row] = poison_of_row.total();
      for (std::int64_t i = 0; i < padded; i += Vec::kWidth) zero.store_bytes(code_at(args, row, i));
      continue;
    }
    const float absmax =
        Vec::max(Vec::max(largest[0], largest[1]), Vec::max(largest[2], largest[3])).highest();
    args.absmax[row] = absmax;
    const Vec scale = Vec::set(absmax > 0 ? 127.0F / absmax : 0.0F);
    const auto code = [&](Vec v) __attribute__((always_inline)) {
      return Vec::mul(counted(v), scale);
    };
    std::int64_t i = 0;
    for (; i < whole && args.factors == nullptr; i += kFourWidths) {
      const float* four = x + i;
      Vec::store_bytes(code_at(args, row, i), code(Vec::load(four)), code(Vec::load(four + Vec::kWidth)),
                       code(Vec::load(four + 2 * Vec::kWidth)), code(Vec::load(four + 3 * Vec::kWidth)), 0);
    }
    for (; i < padded; i += Vec::kWidth) {
      const std::int64_t left = args.k - i, n = left < Vec::kWidth ? left : Vec::kWidth;
      if (left > 0)
        Vec::round(code(inputs_of(args, x, i, n))).store_bytes(code_at(args, row, i));
      else
        zero.store_bytes(code_at(args, row, i));
    }
    for (std::int64_t k = 0; args.is_outlier != nullptr && k < args.k; ++k)
      if (args.is_outlier[k] != 0) *code_at(args, row, k) = 0;
  }
}

void quantize(const QuantizeArgs& args) noexcept {
  if (args.fixed_scale > 0 || args.zero_points != nullptr) return quantize_ranges(args);
  return args.threshold > 0 ? quantize_magnitudes<true>(args) : quantize_magnitudes<false>(args);
}

// Where the instruction wants inputs that are 128 too large, such a copy of the rows, strips of 64 inputs, is
// made once for all panels of a call: a broadcast from memory then takes no other instruction with it, and
// weights are multiplied as they lie in memory.
constexpr bool kStagesInt8Rows = Dot::kHasOffset && Vec::kRegisters == 32;
constexpr std::int64_t kStagedBytes = kStagesInt8Rows ? 14 * 16384 : 64;

// In a register, where they serve several products: compilers would load them for each.
template <typename Bytes>
ASSAY_INLINE Bytes kept(Bytes bytes) {
  if constexpr (kStagesInt8Rows) __asm__("" : "+v"(bytes));
  return bytes;
}
template <bool kIsStaged, typename AnyDot = Dot>
ASSAY_INLINE typename AnyDot::Inputs inputs_of_few(const std::int8_t* four) {
  if constexpr (kIsStaged)
    return kept(AnyDot::four(four));
  else
    return kept(Dot::inputs(four));
}

// Sums of a few rows times some panels: [row][panel * 16], exact. `x` is as quantized, or staged.
template <int Rows, int Panels, bool kIsStaged>
void multiply_int8(const std::int8_t* x, std::int64_t strip, const std::int8_t* w, std::int64_t padded,
                   const std::int32_t* starts, std::int32_t* sums, const WeightFetch& of_weights) {
  constexpr bool kFetchesNext = kIsStaged && Panels == 2;
  Dot dots[Rows][Panels * kParts];
  for (int row = 0; row < Rows; ++row)
    for (Dot& dot : dots[row]) dot = Dot::all(starts[row]);
  const WeightFetch fetch = of_weights;
  for (const std::int8_t* end = w + padded * kPanel; w != end; x += strip) {
    const std::int64_t ahead = bytes_ahead<Panels>(fetch, end - w, padded * kPanel);
    for (std::int64_t k = 0; k < kInt8Columns; k += 4, w += kPanel * 4) {
      Dot::Weights weights[Panels * kParts];
      for (int j = 0; j < Panels * kParts; ++j) {
        const std::int8_t* four = w + j / kParts * padded * kPanel + j % kParts * Vec::kWidth * 4;
        if (j % kParts == 0)
          kFetchesNext ? fetch_next(four + Panels * padded * kPanel) : fetch_ahead(four, ahead, fetch);
        weights[j] = Rows > 1 ? kept(Dot::weights(four)) : Dot::weights(four);
      }
      for (int row = 0; row < Rows; ++row) {
        const Dot::Inputs inputs = inputs_of_few<kIsStaged>(x + row * kInt8Columns + k);
        for (int j = 0; j < Panels * kParts; ++j) dots[row][j].add(inputs, weights[j]);
      }
    }
  }
  for (int row = 0; row < Rows; ++row)
    for (int j = 0; j < Panels * kParts; ++j)
      dots[row][j].store(sums + (row * Panels * kParts + j) * Vec::kWidth);
}

// As many rows as have their sums in registers beside four panels; beside two where rows are staged.
constexpr int kFourPanelInt8Rows = kStagesInt8Rows ? 6 : 4, kFewInt8Rows = kStagesInt8Rows ? 14 : 4;
constexpr int int8_panels_at_once(std::int64_t rows) {
  if (Vec::kRegisters == 32) return rows <= kFourPanelInt8Rows ? kGroup : 2;
  return rows == 1 ? kGroup : rows == 2 ? 2 : 1;
}

// Rows or fewer, of which no fewer than Fewest.
template <int Rows, int Fewest, int Panels, bool kIsStaged>
void multiply_int8_rows(std::int64_t rows, const std::int8_t* x, std::int64_t strip, const std::int8_t* w,
                        std::int64_t padded, const std::int32_t* starts, std::int32_t* sums,
                        const WeightFetch& fetch) {
  if constexpr (Rows > Fewest)
    if (rows < Rows)
      return multiply_int8_rows<Rows - 1, Fewest, Panels, kIsStaged>(rows, x, strip, w, padded, starts, sums,
                                                                     fetch);
  multiply_int8<Rows, Panels, kIsStaged>(x, strip, w, padded, starts, sums, fetch);
}

// What the columns of outliers add to the outputs of a vector.
ASSAY_INLINE Vec outlier_part(const Int8Args& args, std::int64_t row, std::int64_t output) {
  const LinearArgs& to = args.to;
  const std::int64_t padded = round_up(to.k, kInt8Columns);
  const auto* w = static_cast<const std::int8_t*>(to.w) + output / kPanel * padded * kPanel;
  Vec sum = Vec::set(0.0F);
  const Vec unit = Vec::mul(Vec::load(args.w_absmax + output), Vec::set(1.0F / 127.0F));
  for (std::int64_t i = 0; i < args.outlier_count; ++i) {
    const std::int64_t k = args.outliers[i];
    alignas(64) float codes[Vec::kWidth];
    for (int j = 0; j < Vec::kWidth; ++j)
      codes[j] = static_cast<float>(w[int8_offset(k, output % kPanel + j)]);
    sum = Vec::add(sum, Vec::mul(Vec::set(to.x[row * to.x_stride + k]), Vec::mul(Vec::load(codes), unit)));
  }
  return sum;
}

// The values that sums of codes stand for.
ASSAY_INLINE Vec int8_value(const Int8Args& args, Vec sums, std::int64_t row, std::int64_t output) {
  const Vec scale = Vec::mul(Vec::set(args.x_absmax[row] * kInt8Unit), Vec::load(args.w_absmax + output));
  const Vec value = Vec::mul(sums, scale);
  return args.outlier_count > 0 ? Vec::add(value, outlier_part(args, row, output)) : value;
}

// Inputs that are 128 too large have a zero point of 128, which is subtracted from the sums.
constexpr std::int32_t kInputOffset = Dot::kHasOffset ? 128 : 0;

// Sums of inputs that are `offset` too large: [rows][columns], rows `stride` apart.
struct Int8Sums {
  std::int32_t* sums;
  std::int64_t first_row, rows, output, columns, stride;
  std::int32_t offset;
};

// They become values in place.
ASSAY_INLINE void int8_values(const Int8Args& args, const Int8Sums& block) {
  for (std::int64_t i = 0; i < block.rows; ++i)
    for (std::int64_t j = 0; j < block.columns; j += Vec::kWidth) {
      const std::int64_t row = block.first_row + i;
      std::int32_t* sums = block.sums + i * block.stride + j;
      const Dot zero = Dot::all(block.offset + (args.x_zero == nullptr ? 0 : args.x_zero[row]));
      const Dot exact = Dot::load(sums).less(zero, Dot::load(args.w_sums + block.output + j));
      int8_value(args, exact.floats(), row, block.output + j).store(reinterpret_cast<float*>(sums));
    }
}

void finish_int8(const Int8Args& args, const Int8Sums& block) {
  const std::int64_t left = args.to.n - block.output, columns = block.columns, stride = block.stride;
  const float *absmax = args.x_absmax + block.first_row, *w_absmax = args.w_absmax + block.output;
  const std::int32_t *zeros = args.x_zero == nullptr ? nullptr : args.x_zero + block.first_row,
                     *w_sums = args.w_sums + block.output, *sums = block.sums;
  const std::int32_t offset = block.offset;
  // As int8_values has them, without a stay in memory.
  const auto values = [=](std::int64_t row) __attribute__((always_inline)) {
    const Dot zero = Dot::all(offset + (zeros == nullptr ? 0 : zeros[row]));
    const Vec unit = Vec::set(absmax[row] * kInt8Unit);
    const std::int32_t* of_row = sums + row * stride;
    return [=](std::int64_t j) __attribute__((always_inline)) {
      const Dot exact = Dot::load(of_row + j).less(zero, Dot::load(w_sums + j));
      return Vec::mul(exact.floats(), Vec::mul(unit, Vec::load(w_absmax + j)));
    };
  };
  if (args.outlier_count == 0 && left >= columns &&
      finish_whole(args.to, block.first_row, block.rows, block.output, columns, values))
    return;
  int8_values(args, block);
  epilogue(args.to, reinterpret_cast<const float*>(sums), stride, block.first_row, block.rows, block.output,
           left < columns ? left : columns);
}

// Panels [first, last) of few rows.
template <bool kIsStaged>
void linear_int8_panels(const Int8Args& args, std::int64_t first_row, std::int64_t rows, const std::int8_t* x,
                        std::int64_t strip, const std::int32_t* starts, std::int64_t first,
                        std::int64_t last) {
  constexpr int kMax = kIsStaged ? kFewInt8Rows : 4, kMaxOfFour = kIsStaged ? kFourPanelInt8Rows : 4;
  const LinearArgs& to = args.to;
  const std::int64_t padded = round_up(to.k, kInt8Columns);
  alignas(64) std::int32_t sums[kMax * kGroup * kPanel];
  const std::int64_t side_by_side = int8_panels_at_once(rows);
  for (std::int64_t panel = first; panel < last;) {
    const std::int64_t panels = last - panel >= side_by_side ? side_by_side : 1;
    const auto* w = static_cast<const std::int8_t*>(to.w) + panel * padded * kPanel;
    fetch_finish(to, first_row, rows, panel * kPanel, panels * kPanel);
    fetch_row(args.w_absmax + panel * kPanel, panels * kPanel);
    fetch_row(args.w_sums + panel * kPanel, panels * kPanel);
    if (panels == kGroup)
      multiply_int8_rows<kMaxOfFour, 1, kGroup, kIsStaged>(rows, x, strip, w, padded, starts, sums, to.fetch);
    else if (panels == 2)
      multiply_int8_rows<kMax, 1, 2, kIsStaged>(rows, x, strip, w, padded, starts, sums, to.fetch);
    else
      multiply_int8_rows<kMax, 1, 1, kIsStaged>(rows, x, strip, w, padded, starts, sums, to.fetch);
    finish_int8(args, {.sums = sums,
                       .first_row = first_row,
                       .rows = rows,
                       .output = panel * kPanel,
                       .columns = panels * kPanel,
                       .stride = panels * kPanel,
                       .offset = kInputOffset});
    panel += panels;
  }
}

#if !defined(ASSAY_VNNI_512)
// What the sums of a row start at, where inputs are as quantized and not made unsigned by an offset.
std::int32_t start_of_row(const Int8Args& args, std::int64_t row) {
  const auto* codes = reinterpret_cast<const std::int8_t*>(args.to.x_tiles.data);
  return Dot::start_of_codes(codes + row * kInt8Columns, args.to.x_tiles.strip() * 2,
                             round_up(args.to.k, kInt8Columns));
}
#endif

void linear_int8_few_rows(const Int8Args& args, std::int64_t first, std::int64_t last) {
  const LinearArgs& to = args.to;
  const auto* codes = reinterpret_cast<const std::int8_t*>(to.x_tiles.data);
  for (std::int64_t row = 0; row < to.rows; row += 4) {
    const std::int64_t rows = to.rows - row < 4 ? to.rows - row : 4;
    std::int32_t starts[4] = {};
#if !defined(ASSAY_VNNI_512)
    for (std::int64_t i = 0; !Dot::kHasOffset && i < rows; ++i) starts[i] = start_of_row(args, row + i);
#endif
    linear_int8_panels<false>(args, row, rows, codes + row * kInt8Columns, to.x_tiles.strip() * 2, starts,
                              first, last);
  }
}

#if defined(ASSAY_VNNI_512)
// All rows, as many at a time as are staged together.
void linear_int8_many_rows(const Int8Args& args) {
  const LinearArgs& to = args.to;
  const std::int64_t padded = round_up(to.k, kInt8Columns), strip = to.x_tiles.strip() * 2,
                     last = to.first_panel + to.panels;
  const auto* codes = reinterpret_cast<const std::int8_t*>(to.x_tiles.data);
  const std::int64_t fit = kStagedBytes / padded, most = fit < kFewInt8Rows ? fit : kFewInt8Rows;
  if (most == 0) return linear_int8_few_rows(args, to.first_panel, last);
  alignas(64) std::int8_t staged[kStagedBytes];
  // About as many each time.
  const std::int64_t blocks = (to.rows + most - 1) / most;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t row = to.rows * block / blocks, rows = to.rows * (block + 1) / blocks - row;
    for (std::int64_t k = 0; k < padded; k += kInt8Columns)
      Dot::copy_for_block(staged + k * rows, codes + k / kInt8Columns * strip + row * kInt8Columns,
                          rows * kInt8Columns);
    constexpr std::int32_t kNoStarts[kFewInt8Rows] = {};
    linear_int8_panels<true>(args, row, rows, staged, rows * kInt8Columns, kNoStarts, to.first_panel, last);
  }
}
constexpr std::int64_t kMinManyRows = 1;
#else
#include "assay/backend/cpu/kernels/simd/int8_blocks-inl.h"
constexpr std::int64_t kMinManyRows = kMinInt8BlockRows;
#endif

void linear_int8(const Int8Args& args) noexcept {
  const LinearArgs& to = args.to;
  if (to.rows >= kMinManyRows) return linear_int8_many_rows(args);
  linear_int8_few_rows(args, to.first_panel, to.first_panel + to.panels);
}
