// Products of 4-bit weights over a `Vec`, for the ISA files that include it inside their own anonymous
// namespace, after float32_kernels-inl.h. Not a header for others.
//
// `Vec` has also: book and look_up (16 values, by 4-bit codes) and store_pairs (pairs of bfloat16). `Dot` has
// byte_codebook, look_up_low and look_up_high (bytes by codes), four and add_bytes (sums of their products
// with inputs), and start_of (what the sums of a group start at is the sum of this of the group's codes).
#pragma once

#include "assay/backend/cpu/kernels/simd/float32_kernels-inl.h"

// Where the codes and the scales of a part of a panel begin.
struct CodePanel {
  const std::uint8_t* codes;
  BlockScales scales;
};
ASSAY_INLINE Vec load_scales(const BlockScales& scales, std::int64_t i) {
  return scales.are_bfloat16 ? Vec::load_bfloat16(static_cast<const std::uint16_t*>(scales.data) + i)
                             : Vec::load(static_cast<const float*>(scales.data) + i);
}
ASSAY_INLINE CodePanel code_panel(const ExpandArgs& args, std::int64_t panel, std::int64_t part) {
  const std::int64_t groups = (args.k_padded + args.group - 1) / args.group;
  return {args.codes + panel * args.k_padded / 2 * kPanel + part * Vec::kWidth * 4,
          args.scales.from(panel * groups * kPanel + part * Vec::kWidth)};
}
int group_bits(const ExpandArgs& args) {
  return __builtin_ctzll(static_cast<unsigned long long>(args.group));
}
// The weights of the eight inputs from k on, one after another.
class EightWeights {
 public:
  ASSAY_INLINE EightWeights(const CodePanel& panel, std::int64_t k, int group_bits)
      : codes_(Vec::codes(panel.codes + k / kCodeInputs * kPanel * 4)),
        scale_(load_scales(panel.scales, (k >> group_bits) * kPanel)) {}
  // Groups of fewer than eight inputs: the scale of one of them.
  ASSAY_INLINE void set_scale(const CodePanel& panel, std::int64_t k, int group_bits) {
    scale_ = load_scales(panel.scales, (k >> group_bits) * kPanel);
  }
  ASSAY_INLINE Vec operator()(const Vec::Codebook& codebook, int i) const {
    return Vec::mul(Vec::look_up(codebook, codes_, i), scale_);
  }

 private:
  Vec::Codes codes_;
  Vec scale_;
};

// A part of a panel, of groups of at least eight inputs, which are whole eights: nothing is asked in the
// loop.
template <bool kIsFloat32>
void expand_eights(const ExpandArgs& args, const Vec::Codebook& codebook, const CodePanel& from, void* out) {
  const int bits = group_bits(args);
  const std::uint8_t* codes = from.codes;
  auto* floats = static_cast<float*>(out);
  auto* pairs = static_cast<std::uint16_t*>(out);
  const std::int64_t count = kIsFloat32 ? args.k : args.k_padded, ahead = distance_of<1>(args.fetch);
  for (std::int64_t k = 0; k < count; k += kCodeInputs, codes += kPanel * 4) {
    fetch_ahead(codes, ahead, args.fetch);
    const Vec scale = load_scales(from.scales, (k >> bits) * kPanel);
    const Vec::Codes eight = Vec::codes(codes);
#pragma GCC unroll 4
    for (int i = 0; i < kCodeInputs; i += 2) {
      const Vec even = Vec::mul(Vec::look_up(codebook, eight, i), scale),
                odd = Vec::mul(Vec::look_up(codebook, eight, i + 1), scale);
      if (!kIsFloat32) {
        Vec::store_pairs(even, odd, pairs);
        pairs += 2 * kPanel;
        continue;
      }
      even.store(floats);
      odd.store(floats + kPanel);
      floats += 2 * kPanel;
    }
  }
}

// The same of any group and number of inputs.
void expand_any(const ExpandArgs& args, const Vec::Codebook& codebook, const CodePanel& from, void* out) {
  const int bits = group_bits(args);
  const bool is_float32 = args.packing == Packing::float32;
  auto* floats = static_cast<float*>(out);
  auto* pairs = static_cast<std::uint16_t*>(out);
  for (std::int64_t k = 0; k < (is_float32 ? args.k : args.k_padded); k += kCodeInputs) {
    EightWeights weights(from, k, bits);
#pragma GCC unroll 4
    for (int i = 0; i < kCodeInputs; i += 2) {
      if (bits < 3) weights.set_scale(from, k + i, bits);
      const Vec even = weights(codebook, i);
      if (bits == 0) weights.set_scale(from, k + i + 1, bits);
      const Vec odd = weights(codebook, i + 1);
      if (!is_float32) {
        Vec::store_pairs(even, odd, pairs + (k + i) * kPanel);
        continue;
      }
      if (k + i < args.k) even.store(floats + (k + i) * kPanel);
      if (k + i + 1 < args.k) odd.store(floats + (k + i + 1) * kPanel);
    }
  }
}

void expand(const ExpandArgs& args) noexcept {
  const Vec::Codebook codebook = Vec::codebook(args.codebook);
  const bool is_float32 = args.packing == Packing::float32,
             are_eights = group_bits(args) >= 3 && (!is_float32 || args.k % kCodeInputs == 0);
  for (std::int64_t panel = 0; panel < args.panels; ++panel)
    for (std::int64_t part = 0; part < kParts; ++part) {
      const CodePanel from = code_panel(args, panel, part);
      const std::int64_t at = is_float32 ? (panel * args.k * kPanel + part * Vec::kWidth) * 4
                                         : (panel * args.k_padded * kPanel + part * Vec::kWidth * 2) * 2;
      void* out = static_cast<std::byte*>(args.out) + at;
      if (!are_eights)
        expand_any(args, codebook, from, out);
      else if (is_float32)
        expand_eights<true>(args, codebook, from, out);
      else
        expand_eights<false>(args, codebook, from, out);
    }
}

// Adds the products of whole eights of inputs to sums: groups of at least eight.
template <int Rows, int Columns>
ASSAY_INLINE void add_eights(const ExpandArgs& weights, const Vec::Codebook& codebook, const CodePanel& first,
                             const float* x, std::int64_t x_stride, Vec (&sums)[Rows][Columns]) {
  const std::int64_t groups = (weights.k_padded + weights.group - 1) / weights.group,
                     panel_bytes = weights.k_padded / kCodeInputs * kPanel * 4,
                     whole = weights.k / kCodeInputs * kCodeInputs;
  const std::uint8_t* codes = first.codes;
  const WeightFetch& fetch = weights.fetch;
  for (std::int64_t group = 0; group * weights.group < whole; ++group) {
    Vec scales[Columns];
    for (int j = 0; j < Columns; ++j)
      scales[j] =
          load_scales(first.scales, (j / kParts * groups + group) * kPanel + j % kParts * Vec::kWidth);
    const std::int64_t left = whole - group * weights.group,
                       count = left < weights.group ? left : weights.group;
    for (std::int64_t k = 0; k < count; k += kCodeInputs, codes += kPanel * 4, x += kCodeInputs)
      for (int j = 0; j < Columns; ++j) {
        const std::uint8_t* of_panel = codes + j / kParts * panel_bytes + j % kParts * Vec::kWidth * 4;
        if (j % kParts == 0) fetch_ahead(of_panel, distance_of<Columns / kParts>(fetch), fetch);
        const Vec::Codes eight = Vec::codes(of_panel);
#pragma GCC unroll 8
        for (int i = 0; i < kCodeInputs; ++i) {
          const Vec w = Vec::mul(Vec::look_up(codebook, eight, i), scales[j]);
          for (int row = 0; row < Rows; ++row)
            sums[row][j] = Vec::fma(Vec::set(x[row * x_stride + i]), w, sums[row][j]);
        }
      }
  }
}

// Rows times some panels: one chain of multiply-adds along k for each output, as linear has it.
template <int Rows, int Panels>
void multiply_four_bit(const FourBitArgs& args, const Vec::Codebook& codebook, std::int64_t first_row,
                       std::int64_t panel) {
  constexpr int kColumns = Panels * kParts;
  const ExpandArgs& weights = args.weights;
  const int bits = group_bits(weights);
  fetch_finish(args.to, first_row, Rows, panel * kPanel, Panels * kPanel);
  Vec sums[Rows][kColumns];
  clear(sums);
  const std::int64_t x_stride = args.to.x_stride;
  const float* x = args.to.x + first_row * x_stride;
  const std::int64_t whole = bits < 3 ? 0 : weights.k / kCodeInputs * kCodeInputs;
  if (whole > 0) add_eights(weights, codebook, code_panel(weights, panel, 0), x, x_stride, sums);
  // One by one what is left of eight, and all of smaller groups.
  for (std::int64_t k = whole; k < weights.k; k += kCodeInputs)
    for (int j = 0; j < kColumns; ++j) {
      const CodePanel from = code_panel(weights, panel + j / kParts, j % kParts);
      EightWeights eight(from, k, bits);
#pragma GCC unroll 8
      for (int i = 0; i < kCodeInputs; ++i) {
        if (k + i >= weights.k) break;
        if (bits < 3) eight.set_scale(from, k + i, bits);
        const Vec w = eight(codebook, i);
        for (int row = 0; row < Rows; ++row)
          sums[row][j] = Vec::fma(Vec::set(x[row * x_stride + k + i]), w, sums[row][j]);
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

// The same of inputs in int8. Sums of bytes for each group, then one multiply-add.
template <int Rows, int Panels>
void multiply_int8_activations(const Int8ActivationsArgs& args, Dot::Bytes codebook, std::int64_t first_row,
                               std::int64_t panel) {
  constexpr int kColumns = Panels * kParts;
  const ExpandArgs& weights = args.weights;
  const std::int64_t groups = (weights.k_padded + weights.group - 1) / weights.group;
  const std::int64_t panel_bytes = weights.k_padded / kCodeInputs * kPanel * 4, scales = groups * kPanel;
  const std::uint8_t *codes = weights.codes + panel * panel_bytes, *end = codes + panel_bytes;
  const WeightFetch fetch = weights.fetch;
  const std::int64_t in_piece =
      (weights.group < kInt8Columns ? weights.group : kInt8Columns) / kCodeInputs * kPanel * 4;
  fetch_finish(args.to, first_row, Rows, panel * kPanel, Panels * kPanel);
  Vec sums[Rows][kColumns];
  clear(sums);
  std::int64_t k = 0;
  for (std::int64_t group = 0; group < groups; ++group) {
    const BlockScales scale_of = weights.scales.from(panel * scales + group * kPanel);
    for (int i = 0; i < Panels; ++i)
      fetch_ahead(
          scale_of.from(i * scales).data,
          bytes_ahead<Panels>(fetch, (groups - group) * kPanel * scale_of.bytes(), scales * scale_of.bytes()),
          fetch);
    Dot dots[Rows][kColumns];
    for (int row = 0; row < Rows; ++row)
      for (int j = 0; j < kColumns; ++j)
        dots[row][j] = Dot::all(args.x.starts[group * args.x.capacity + first_row + row]);
    // It takes a strip at a time: inputs lie together in it.
    for (const std::int64_t end_of_group = k + weights.group; k < end_of_group && codes != end;) {
      const std::int8_t* x = args.x.codes + args.x.offset(first_row, k);
      const std::int64_t left = end - codes, bytes = left < in_piece ? left : in_piece;
      k += bytes / (kPanel * 4) * kCodeInputs;
      for (const std::uint8_t* stop = codes + bytes; codes != stop; codes += kPanel * 4, x += kCodeInputs) {
        // Twice as far as of bytes that are multiplied as they are (Zen 4, GPT-2 124M: AVX2 0.95 of the time,
        // AVX-512 0.99).
        const std::int64_t ahead = bytes_ahead<Panels, (Panels + 1) / 2>(fetch, end - codes, panel_bytes);
        for (int j = 0; j < kColumns; ++j) {
          const std::uint8_t* eight = codes + j / kParts * panel_bytes + j % kParts * Vec::kWidth * 4;
          if (j % kParts == 0)
            Rows > 2 ? fetch_next(eight + Panels * panel_bytes) : fetch_ahead(eight, ahead, fetch);
          const Vec::Codes some = Vec::codes(eight);
          const Dot::Bytes low = Dot::look_up_low(codebook, some), high = Dot::look_up_high(codebook, some);
          for (int row = 0; row < Rows; ++row) {
            const std::int8_t* inputs = x + row * kInt8Columns;
            dots[row][j].add_bytes(Dot::four(inputs), low);
            dots[row][j].add_bytes(Dot::four(inputs + 4), high);
          }
        }
      }
    }
    for (int row = 0; row < Rows; ++row) {
      const Vec scale = Vec::set(args.x.scales[group * args.x.capacity + first_row + row]);
      for (int j = 0; j < kColumns; ++j) {
        const Vec of_panel = load_scales(scale_of, j / kParts * scales + j % kParts * Vec::kWidth);
        sums[row][j] = Vec::fma(dots[row][j].floats(), Vec::mul(scale, of_panel), sums[row][j]);
      }
    }
  }
  for (int row = 0; row < Rows; ++row)
    for (int j = 0; j < kColumns; ++j) {
      const std::int64_t output = panel * kPanel + j * Vec::kWidth, left = args.to.n - output;
      if (left > 0)
        finish_vector(args.to, sums[row][j], first_row + row, output,
                      left < Vec::kWidth ? left : Vec::kWidth);
    }
}

constexpr int kCodePanels = Vec::kRegisters == 32 ? kGroup : 2;  // side by side, of one or two rows

template <int Value>
struct Number {
  static constexpr int value = Value;
};
// Calls multiply(rows, panels, first row, first panel), both numbers known when compiled, for Rows rows or
// fewer, times Panels panels or one.
template <int Rows, int Panels, typename Multiply>
void for_rows(std::int64_t rows, bool is_group, const Multiply& multiply, std::int64_t row,
              std::int64_t panel) {
  if constexpr (Rows > 1)
    if (rows < Rows) return for_rows<Rows - 1, Panels>(rows, is_group, multiply, row, panel);
  is_group ? multiply(Number<Rows>{}, Number<Panels>{}, row, panel)
           : multiply(Number<Rows>{}, Number<1>{}, row, panel);
}
// All rows, Rows at most at a time, about as many each time; Panels panels side by side.
template <int Rows, int Panels, typename Multiply>
void for_few_rows(const LinearArgs& to, const Multiply& multiply) {
  const std::int64_t last = to.first_panel + to.panels, blocks = (to.rows + Rows - 1) / Rows;
  for (std::int64_t panel = to.first_panel; panel < last;) {
    const bool is_group = last - panel >= Panels;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t row = to.rows * block / blocks, end = to.rows * (block + 1) / blocks;
      for_rows<Rows, Panels>(end - row, is_group, multiply, row, panel);
    }
    panel += is_group ? Panels : 1;
  }
}

// Rows whose sums fit the registers beside those of four panels, and of two where each has two sums.
constexpr int kFewFourBitRows = Vec::kRegisters == 32 ? 6 : 2, kFewCodedRows = kFewFourBitRows;

void linear_four_bit(const FourBitArgs& args) noexcept {
  const Vec::Codebook codebook = Vec::codebook(args.weights.codebook);
  for_few_rows<kFewFourBitRows, kCodePanels>(
      args.to, [&](auto rows, auto panels, std::int64_t row, std::int64_t panel) {
        multiply_four_bit<decltype(rows)::value, decltype(panels)::value>(args, codebook, row, panel);
      });
}

#if defined(ASSAY_HAS_BYTE_BLOCKS)
// For more rows the codes become bytes once for all; of fewer, once for each six.
constexpr std::int64_t kMaxCodedRows = 96;
#include "assay/backend/cpu/kernels/simd/byte_blocks512-inl.h"
#elif defined(ASSAY_HAS_SIGNED_BLOCKS)
#include "assay/backend/cpu/kernels/simd/coded_blocks-inl.h"
#endif

// On AVX-512 a panel alone is one stream, which runs on into the next panel's (measured on Zen 5).
constexpr int kPanelsOfOneRow = Vec::kRegisters == 32 ? 1 : kGroup;

void linear_coded_inputs(const Int8ActivationsArgs& args) noexcept {
#if defined(ASSAY_HAS_BYTE_BLOCKS)
  if (args.to.rows > kMaxCodedRows && args.weights.group % kInt8Columns == 0)
    return linear_coded_blocks(args);
#elif defined(ASSAY_HAS_SIGNED_BLOCKS)
  if (args.to.rows >= kMinCodedBlockRows) return linear_coded_blocks(args);
#endif
  const Dot::Bytes codebook = Dot::byte_codebook(args.codebook);
  const auto multiply = [&](auto rows, auto panels, std::int64_t row, std::int64_t panel) {
    multiply_int8_activations<decltype(rows)::value, decltype(panels)::value>(args, codebook, row, panel);
  };
  if (args.to.rows == 1)
    for_few_rows<1, kPanelsOfOneRow>(args.to, multiply);
  else if (args.to.rows == 2)
    for_few_rows<2, kCodePanels>(args.to, multiply);
  else
    for_few_rows<kFewCodedRows, 2>(args.to, multiply);
}

// Some inputs of a row, from floats or from tiles; nothing beyond k.
ASSAY_INLINE Vec inputs_of(const QuantizeGroupsArgs& args, std::int64_t row, std::int64_t i) {
  const std::int64_t left = args.k - i;
  if (left <= 0) return Vec::set(0.0F);
  if (args.x != nullptr)
    return Vec::load_n(args.x + row * args.x_stride + i, left < Vec::kWidth ? left : Vec::kWidth);
  return Vec::load_bfloat16(args.x_tiles.data + args.x_tiles.offset(row, i));  // zeros beyond k
}

// A group of `count` inputs, `input(i)` those from the i-th on.
template <typename Input>
ASSAY_INLINE void quantize_group(const QuantizeGroupsArgs& args, std::int64_t row, std::int64_t group,
                                 std::int64_t count, const Input& input, Vec& poison) {
  const CodedRows& out = args.out;
  const Vec zero = Vec::set(0.0F);
  Vec largest = zero;
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < count; i += Vec::kWidth) {
    const Vec v = input(i);
    largest = Vec::max(Vec::max(v, Vec::sub(zero, v)), largest);
    poison = add_poison(poison, v);
  }
  const float absmax = largest.highest();
  const Vec scale = Vec::set(absmax > 0 ? 127.0F / absmax : 0.0F);
  Vec sums = zero;  // sums of whole numbers below 2^24: exact
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < count; i += Vec::kWidth) {
    // NaN becomes the lowest code.
    const Vec code = Vec::max(Vec::round(Vec::mul(input(i), scale)), Vec::set(-127.0F));
    sums = Vec::add(sums, Dot::start_of(code));
    code.store_bytes(out.codes + out.offset(row, group * args.group + i));
  }
  out.scales[group * out.capacity + row] = absmax * (1.0F / 127.0F) * args.unit;
  out.starts[group * out.capacity + row] = static_cast<std::int32_t>(sums.total());
}

void quantize_groups(const QuantizeGroupsArgs& args) noexcept {
  constexpr std::int64_t kUsualGroup = 64;
  const std::int64_t groups = (args.k_padded + args.group - 1) / args.group;
  const CodedRows& out = args.out;
  for (std::int64_t row = args.first_row; row < args.first_row + args.rows; ++row) {
    Vec poison = Vec::set(0.0F);
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t first = group * args.group, left = args.k_padded - first;
      if (args.group == kUsualGroup && first + kUsualGroup <= args.k) {
        Vec inputs[kUsualGroup / Vec::kWidth];
#pragma GCC unroll 8
        for (std::int64_t i = 0; i < kUsualGroup; i += Vec::kWidth)
          inputs[i / Vec::kWidth] =
              args.x != nullptr ? Vec::load(args.x + row * args.x_stride + first + i)
                                : Vec::load_bfloat16(args.x_tiles.data + args.x_tiles.offset(row, first + i));
        quantize_group(
            args, row, group, kUsualGroup, [&](std::int64_t i) { return inputs[i / Vec::kWidth]; }, poison);
        continue;
      }
      quantize_group(
          args, row, group, left < args.group ? left : args.group,
          [&](std::int64_t i) { return inputs_of(args, row, first + i); }, poison);
    }
    for (std::int64_t i = args.k_padded; i % kInt8Columns != 0; i += Vec::kWidth)
      Vec::set(0.0F).store_bytes(out.codes + out.offset(row, i));
    for (std::int64_t group = 0; is_poisoned(poison) && group < groups; ++group)
      out.scales[group * out.capacity + row] = poison.total();
  }
}
