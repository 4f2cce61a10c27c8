// Products of quantized weights over a `Vec`, for the ISA files that include it inside their own anonymous
// namespace, after float32_kernels.h. Not a header for others.
//
// `Vec` has also: store_bytes (kWidth rounded values as int8), to_float16 (rounded there and back), book and
// look_up (16 values, by 4-bit codes), store_pairs (pairs of bfloat16). `Dot` sums products of groups of four
// bytes in kWidth 32-bit lanes.

// Some inputs, each multiplied by its factor.
ASSAY_INLINE Vec inputs_of(const QuantizeArgs& args, const float* x, std::int64_t i, std::int64_t count) {
  const Vec v = Vec::load_n(x + i, count);
  return args.factors == nullptr ? v : Vec::mul(v, Vec::load_n(args.factors + i, count));
}

RowCode code_of_row(const QuantizeArgs& args, const float* x) {
  if (args.fixed_scale > 0) return {args.fixed_scale, 1.0F / args.fixed_scale, args.fixed_zero_point};
  Vec low = Vec::set(0.0F), high = low;
  for (std::int64_t i = 0; i < args.k; i += Vec::kWidth) {
    const std::int64_t left = args.k - i;
    const Vec v = inputs_of(args, x, i, left < Vec::kWidth ? left : Vec::kWidth);
    low = Vec::min(v, low);
    high = Vec::max(v, high);
  }
  return row_code(-max_lanes(Vec::sub(Vec::set(0.0F), low)), max_lanes(high));
}

void quantize_ranges(const QuantizeArgs& args) {
  const std::int64_t padded = round_up(args.k, kInt8Columns);
  auto* codes = reinterpret_cast<std::int8_t*>(args.codes.data);
  const Vec lowest = Vec::set(-128.0F), highest = Vec::set(127.0F);
  for (std::int64_t row = args.first_row; row < args.first_row + args.rows; ++row) {
    const float* x = args.x + row * args.x_stride;
    const RowCode row_code = code_of_row(args, x);
    args.absmax[row] = 127.0F * row_code.scale;
    if (args.zero_points != nullptr) args.zero_points[row] = row_code.zero_point;
    const Vec inverse = Vec::set(row_code.inverse), zero = Vec::set(static_cast<float>(row_code.zero_point));
    for (std::int64_t i = 0; i < padded; i += Vec::kWidth) {
      std::int8_t* out =
          codes + i / kInt8Columns * args.codes.strip() * 2 + row * kInt8Columns + i % kInt8Columns;
      const std::int64_t left = args.k - i < 0 ? 0 : args.k - i, n = left < Vec::kWidth ? left : Vec::kWidth;
      const Vec code = Vec::add(Vec::round(Vec::mul(inputs_of(args, x, n == 0 ? 0 : i, n), inverse)), zero);
      Vec::min(Vec::max(code, lowest), highest).store_bytes(out);
      for (std::int64_t j = n; j < Vec::kWidth; ++j) out[j] = 0;
    }
  }
}

void quantize(const QuantizeArgs& args) noexcept {
  if (args.fixed_scale > 0 || args.zero_points != nullptr) return quantize_ranges(args);
  const std::int64_t padded = round_up(args.k, kInt8Columns);
  auto* codes = reinterpret_cast<std::int8_t*>(args.codes.data);
  const bool has_threshold = args.threshold > 0;
  const Vec threshold = Vec::set(has_threshold ? args.threshold : __builtin_huge_valf()),
            zero = Vec::set(0.0F);
  for (std::int64_t row = args.first_row; row < args.first_row + args.rows; ++row) {
    const float* x = args.x + row * args.x_stride;
    // What counts: its value, or zero where it is an outlier.
    const auto value = [&](std::int64_t i, Vec& magnitude) {
      const std::int64_t left = args.k - i, n = left < Vec::kWidth ? left : Vec::kWidth;
      Vec v = inputs_of(args, x, i, n);
      if (has_threshold) v = v.to_float16();
      magnitude = Vec::max(v, Vec::sub(zero, v));
      if (!has_threshold) return v;
      v = Vec::select_less(magnitude, threshold, v, zero);
      magnitude = Vec::select_less(magnitude, threshold, magnitude, zero);
      return v;
    };
    Vec largest = zero, magnitude = zero;
    for (std::int64_t i = 0; i < args.k; i += Vec::kWidth) {
      value(i, magnitude);
      largest = Vec::max(magnitude, largest);
    }
    const float absmax = max_lanes(largest);
    args.absmax[row] = absmax;
    const Vec scale = Vec::set(absmax > 0 ? 127.0F / absmax : 0.0F);
    for (std::int64_t i = 0; i < padded; i += Vec::kWidth) {
      std::int8_t* out =
          codes + i / kInt8Columns * args.codes.strip() * 2 + row * kInt8Columns + i % kInt8Columns;
      if (i < args.k)
        Vec::round(Vec::mul(value(i, magnitude), scale)).store_bytes(out);
      else
        zero.store_bytes(out);
      if (args.is_outlier == nullptr) continue;
      for (std::int64_t j = 0; j < Vec::kWidth && i + j < args.k; ++j)
        if (args.is_outlier[i + j] != 0) out[j] = 0;
    }
  }
}

// Sums of up to kRowsAtOnce rows times some panels: [row][panel * 16], exact.
template <int Rows, int Panels>
void multiply_int8(const std::int8_t* x, std::int64_t strip, const std::int8_t* w, std::int64_t padded,
                   std::int32_t* sums) {
  Dot dots[Rows][Panels * kParts];
  for (auto& row : dots)
    for (Dot& dot : row) dot = Dot::zero();
  for (std::int64_t k = 0; k < padded; k += 4) {
    Dot::Weights weights[Panels * kParts];
    for (int j = 0; j < Panels * kParts; ++j)
      weights[j] = Dot::weights(w + j / kParts * padded * kPanel + k * kPanel + j % kParts * Vec::kWidth * 4);
    for (int row = 0; row < Rows; ++row) {
      std::int32_t four = 0;
      __builtin_memcpy(&four, x + k / kInt8Columns * strip + row * kInt8Columns + k % kInt8Columns, 4);
      const Dot::Inputs inputs = Dot::inputs(four);
      for (int j = 0; j < Panels * kParts; ++j) dots[row][j].add(inputs, weights[j]);
    }
  }
  for (int row = 0; row < Rows; ++row)
    for (int j = 0; j < Panels * kParts; ++j)
      dots[row][j].store(sums + (row * Panels * kParts + j) * Vec::kWidth);
}

template <int Panels>
void multiply_int8_rows(std::int64_t rows, const std::int8_t* x, std::int64_t strip, const std::int8_t* w,
                        std::int64_t padded, std::int32_t* sums) {
  switch (rows) {
    case 1:
      return multiply_int8<1, Panels>(x, strip, w, padded, sums);
    case 2:
      return multiply_int8<2, Panels>(x, strip, w, padded, sums);
    case 3:
      return multiply_int8<3, Panels>(x, strip, w, padded, sums);
    default:
      return multiply_int8<4, Panels>(x, strip, w, padded, sums);
  }
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
      codes[j] = static_cast<float>(w[k / 4 * 4 * kPanel + (output % kPanel + j) * 4 + k % 4]);
    sum = Vec::add(sum, Vec::mul(Vec::set(to.x[row * to.x_stride + k]), Vec::mul(Vec::load(codes), unit)));
  }
  return sum;
}

// What sums of codes are worth.
ASSAY_INLINE Vec int8_value(const Int8Args& args, Vec sums, std::int64_t row, std::int64_t output) {
  const Vec scale = Vec::mul(Vec::set(args.x_absmax[row]), Vec::load(args.w_absmax + output));
  const Vec value = Vec::mul(Vec::mul(sums, scale), Vec::set(kInt8Unit));
  return args.outlier_count > 0 ? Vec::add(value, outlier_part(args, row, output)) : value;
}

// Exact sums of a vector of outputs of a row to y.
ASSAY_INLINE void finish_int8(const Int8Args& args, const std::int32_t* sums, std::int64_t row,
                              std::int64_t output) {
  const Vec value = int8_value(args, Dot::to_float(sums), row, output);
  const std::int64_t left = args.to.n - output;
  finish_vector(args.to, value, row, output, left < Vec::kWidth ? left : Vec::kWidth);
}

constexpr std::int64_t kInt8Rows = 4;
// Panels side by side: their sums fit the registers beside 4 rows.
constexpr std::int64_t kInt8Panels = Vec::kRegisters == 32 ? kGroup : 1;

void linear_int8(const Int8Args& args) noexcept {
  const LinearArgs& to = args.to;
  const std::int64_t padded = round_up(to.k, kInt8Columns), strip = to.x_tiles.strip() * 2;
  const auto* codes = reinterpret_cast<const std::int8_t*>(to.x_tiles.data);
  const std::int64_t last = to.first_panel + to.panels;
  for (std::int64_t panel = to.first_panel; panel < last;) {
    const std::int64_t panels = last - panel >= kInt8Panels ? kInt8Panels : 1;
    const auto* w = static_cast<const std::int8_t*>(to.w) + panel * padded * kPanel;
    for (std::int64_t row = 0; row < to.rows; row += kInt8Rows) {
      alignas(64) std::int32_t sums[kInt8Rows * kInt8Panels * kPanel];
      const std::int64_t rows = to.rows - row < kInt8Rows ? to.rows - row : kInt8Rows;
      const std::int8_t* x = codes + row * kInt8Columns;
      if (panels == kInt8Panels)
        multiply_int8_rows<kInt8Panels>(rows, x, strip, w, padded, sums);
      else
        multiply_int8_rows<1>(rows, x, strip, w, padded, sums);
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int32_t zero =
            (Dot::kHasOffset ? 128 : 0) + (args.x_zero == nullptr ? 0 : args.x_zero[row + i]);
        for (std::int64_t j = 0; j < panels * kPanel && panel * kPanel + j < to.n; j += Vec::kWidth) {
          alignas(64) std::int32_t exact[Vec::kWidth];
          for (int lane = 0; lane < Vec::kWidth; ++lane)
            exact[lane] =
                sums[i * panels * kPanel + j + lane] - zero * args.w_sums[panel * kPanel + j + lane];
          finish_int8(args, exact, row + i, panel * kPanel + j);
        }
      }
    }
    panel += panels;
  }
}

// Where the codes and the scales of a part of a panel begin.
struct CodePanel {
  const std::uint8_t* codes;
  const float* scales;
};
CodePanel code_panel(const ExpandArgs& args, std::int64_t panel, std::int64_t part) {
  const std::int64_t groups = (args.k_padded + args.group - 1) / args.group;
  return {args.codes + panel * args.k_padded / 2 * kPanel + part * Vec::kWidth,
          args.scales + panel * groups * kPanel + part * Vec::kWidth};
}
// Weights of an even input and the next.
ASSAY_INLINE void weights_of(const Vec::Book& book, const CodePanel& panel, std::int64_t k, int group_bits,
                             Vec& even, Vec& odd) {
  const std::uint8_t* pair = panel.codes + k / 2 * kPanel;
  const float* scale = panel.scales + (k >> group_bits) * kPanel;
  even = Vec::mul(Vec::look_up(book, pair, 0), Vec::load(scale));
  odd = Vec::mul(Vec::look_up(book, pair, 4), Vec::load(group_bits == 0 ? scale + kPanel : scale));
}

void expand(const ExpandArgs& args) noexcept {
  const Vec::Book book = Vec::book(args.book);
  const int group_bits = __builtin_ctzll(static_cast<unsigned long long>(args.group));
  for (std::int64_t panel = 0; panel < args.panels; ++panel)
    for (std::int64_t part = 0; part < kParts; ++part) {
      const CodePanel from = code_panel(args, panel, part);
      Vec even, odd;
      if (args.packing == Packing::float32) {
        float* out = static_cast<float*>(args.out) + panel * args.k * kPanel + part * Vec::kWidth;
        for (std::int64_t k = 0; k < args.k; k += 2) {
          weights_of(book, from, k, group_bits, even, odd);
          even.store(out + k * kPanel);
          if (k + 1 < args.k) odd.store(out + (k + 1) * kPanel);
        }
      } else {
        auto* out =
            static_cast<std::uint16_t*>(args.out) + panel * args.k_padded * kPanel + part * Vec::kWidth * 2;
        for (std::int64_t k = 0; k < args.k_padded; k += 2) {
          weights_of(book, from, k, group_bits, even, odd);
          Vec::store_pairs(even, odd, out + k * kPanel);
        }
      }
    }
}

// Rows times some panels: one chain of multiply-adds along k for each output, as linear has it.
template <int Rows, int Panels>
void multiply_four_bit(const FourBitArgs& args, const Vec::Book& book, std::int64_t first_row,
                       std::int64_t panel) {
  constexpr int kColumns = Panels * kParts;
  const ExpandArgs& weights = args.weights;
  const int group_bits = __builtin_ctzll(static_cast<unsigned long long>(weights.group));
  CodePanel from[kColumns];
  for (int j = 0; j < kColumns; ++j) from[j] = code_panel(weights, panel + j / kParts, j % kParts);
  Vec sums[Rows][kColumns];
  clear(sums);
  const float* x = args.to.x + first_row * args.to.x_stride;
  for (std::int64_t k = 0; k < weights.k; k += 2)
    for (int j = 0; j < kColumns; ++j) {
      Vec even, odd;
      weights_of(book, from[j], k, group_bits, even, odd);
      for (int row = 0; row < Rows; ++row) {
        const float* inputs = x + row * args.to.x_stride + k;
        sums[row][j] = Vec::fma(Vec::set(inputs[0]), even, sums[row][j]);
        if (k + 1 < weights.k) sums[row][j] = Vec::fma(Vec::set(inputs[1]), odd, sums[row][j]);
      }
    }
  const std::int64_t column = panel * kPanel;
  for (int row = 0; row < Rows; ++row)
    for (int j = 0; j < kColumns; ++j) {
      const std::int64_t output = column + j * Vec::kWidth, left = args.to.n - output;
      if (left > 0)
        finish_vector(args.to, sums[row][j], first_row + row, output,
                      left < Vec::kWidth ? left : Vec::kWidth);
    }
}

void linear_four_bit(const FourBitArgs& args) noexcept {
  constexpr int kPanels = Vec::kRegisters == 32 ? kGroup : 2;
  const Vec::Book book = Vec::book(args.weights.book);
  const std::int64_t last = args.to.first_panel + args.to.panels;
  for (std::int64_t panel = args.to.first_panel; panel < last;) {
    const bool is_group = last - panel >= kPanels;
    if (args.to.rows == 1 && is_group)
      multiply_four_bit<1, kPanels>(args, book, 0, panel);
    else if (args.to.rows == 1)
      multiply_four_bit<1, 1>(args, book, 0, panel);
    else if (is_group)
      multiply_four_bit<2, kPanels>(args, book, 0, panel);
    else
      multiply_four_bit<2, 1>(args, book, 0, panel);
    panel += is_group ? kPanels : 1;
  }
}
