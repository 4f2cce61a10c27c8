// Products of grouped codes (common/grouped_layout.h) over a `Vec`, for the ISA files that include it inside
// their own anonymous namespace, after four_bit_kernels-inl.h and with grouped_codes.h. Not a header for
// others.
//
// A weight is value * scale + offset, each rounded to float32, in `expand_grouped` and in `linear_grouped`:
// both add the same products along k, so that a row has the same bits in a batch of any size. `Vec` has also:
// words, halves and bytes (of memory, widened to 32 bits), field, above, floats, float16 and powers (of such
// words).
#pragma once

inline constexpr int kMostGroups = 16;  // that a run has

// The scales and offsets of a run, of one part of a panel.
struct RunScales {
  Vec scale[kMostGroups], offset[kMostGroups];
};
// The bits of a run's strings from a multiple of 32 on.
ASSAY_INLINE Vec::Codes run_words(const ScaleRun& run, const std::byte* at, std::int32_t bit,
                                  std::int64_t part) {
  const std::int64_t word = bit / 32, left = run.bits / 8 - word * 4, first = part * Vec::kWidth;
  at += word * kPanel * 4;
  return left >= 4   ? Vec::words(at + first * 4)
         : left == 2 ? Vec::halves(at + first * 2)
                     : Vec::bytes(at + first);
}
ASSAY_INLINE Vec run_factor(const ScaleRun& run, const std::byte* at, std::int32_t bit, std::int64_t part) {
  return Vec::float16(Vec::field(run_words(run, at, bit, part), bit % 32, 16));
}
ASSAY_INLINE Vec run_number(const ScaleRun& run, const std::byte* at, std::int32_t low_at,
                            std::int32_t high_at, int group, std::int64_t part) {
  const int width = run.number_bits == 8 ? 8 : 4;
  const std::int32_t low = low_at + group * width, high = high_at + group * 2;
  Vec::Codes number = Vec::field(run_words(run, at, low, part), low % 32, width);
  if (run.number_bits == 6)
    number = Vec::above(number, Vec::field(run_words(run, at, high, part), high % 32, 2), 4);
  return Vec::floats(number);
}
template <bool kHasOffset>
void load_run(const ScaleRun& run, const std::byte* at, std::int64_t part, RunScales& out) {
  if (run.is_e8m0) {
    out.scale[0] = Vec::powers(run_words(run, at, 0, part));
    return;
  }
  const Vec factor = run_factor(run, at, run.factor_at, part);
  const Vec below = kHasOffset ? run_factor(run, at, run.minimum_factor_at, part) : factor;
  if (run.number_bits == 0) {
    out.scale[0] = factor;
    out.offset[0] = below;
    return;
  }
  const Vec zero = Vec::set(static_cast<float>(run.zero)), minus = Vec::set(-1.0F);
  for (int group = 0; group < run.groups; ++group) {
    out.scale[group] = Vec::mul(factor, Vec::sub(run_number(run, at, 0, run.highs_at, group, part), zero));
    if (kHasOffset)
      out.offset[group] = Vec::mul(
          Vec::mul(below, run_number(run, at, run.minima_at, run.minimum_highs_at, group, part)), minus);
  }
}

// What codes of up to 4 bits without a plane of high ones stand for is looked up: bits of the next code may
// stand above a code, so that shorter tables repeat. Other codes are whole numbers from `first` on.
struct GroupedValues {
  Vec::Codebook book;
  Vec first;
};
ASSAY_INLINE GroupedValues grouped_values(const GroupedCodes& codes) {
  float book[16];
  const int count = codes.bits < 4 ? 1 << codes.bits : 16;
  for (int i = 0; i < 16; ++i) book[i] = codes.values[i % count];
  return {Vec::codebook(book), Vec::set(codes.values[0])};
}
template <int Width>
ASSAY_INLINE int shift_in_plane(int i) {
  return i % 4 * 8 + Width * (i % (32 / Width) / 4);
}
// Input i of a span whose part of a panel begins at `span`.
template <int Low, int High>
ASSAY_INLINE Vec grouped_value(const GroupedValues& values, const std::byte* span, int i) {
  const Vec::Codes low = Vec::words(span + i / (32 / Low) * kPanel * 4);
  const int shift = shift_in_plane<Low>(i);
  if constexpr (Low <= 4 && High == 0) {
    return Vec::look_up_at(values.book, low, shift);
  } else {
    Vec::Codes code = Vec::field(low, shift, Low);
    if constexpr (High > 0) {
      const Vec::Codes high = Vec::words(span + (Low + i / (32 / High)) * kPanel * 4);
      code = Vec::above(code, Vec::field(high, shift_in_plane<High>(i), High), Low);
    }
    return Vec::add(Vec::floats(code), values.first);
  }
}
template <bool kHasOffset>
ASSAY_INLINE Vec scaled_by(const Vec& value, const Vec& scale, const Vec& offset) {
  const Vec scaled = Vec::mul(value, scale);
  return kHasOffset ? Vec::add(scaled, offset) : scaled;
}

template <int Low, int High, bool kHasOffset>
void expand_grouped_panel(const ExpandGroupedArgs& args, std::int64_t panel, std::int64_t part) {
  const GroupedCodes& w = args.weights;
  const GroupedValues values = grouped_values(w);
  const bool is_float32 = args.packing == Packing::float32;
  const std::byte *codes = w.codes + panel * w.code_bytes() + part * Vec::kWidth * 4,
                  *scales = w.scales + panel * w.scale_bytes();
  auto* floats = static_cast<float*>(args.out) + panel * w.k * kPanel + part * Vec::kWidth;
  auto* pairs = static_cast<std::uint16_t*>(args.out) + panel * w.k_padded * kPanel + part * Vec::kWidth * 2;
  const int group = w.run.inputs / w.run.groups;
  RunScales by;
  for (std::int64_t first = 0; first < w.k_padded; first += w.run.inputs, scales += w.run.bits / 8 * kPanel) {
    load_run<kHasOffset>(w.run, scales, part, by);
    for (int at = 0; at < w.run.inputs && first + at < w.k_padded;
         at += 32, codes += (Low + High) * kPanel * 4) {
      const std::int64_t k = first + at;
#pragma GCC unroll 16
      for (int i = 0; i < 32; i += 2) {
        const int g = (at + i / 16 * 16) / group;
        Vec even = scaled_by<kHasOffset>(grouped_value<Low, High>(values, codes, i), by.scale[g],
                                         by.offset[kHasOffset ? g : 0]);
        Vec odd = scaled_by<kHasOffset>(grouped_value<Low, High>(values, codes, i + 1), by.scale[g],
                                        by.offset[kHasOffset ? g : 0]);
        if (k + i >= w.k) even = Vec::set(0.0F);
        if (k + i + 1 >= w.k) odd = Vec::set(0.0F);
        if (!is_float32) {
          Vec::store_pairs(even, odd, pairs + (k + i) * kPanel);
          continue;
        }
        if (k + i < w.k) even.store(floats + (k + i) * kPanel);
        if (k + i + 1 < w.k) odd.store(floats + (k + i + 1) * kPanel);
      }
    }
  }
}

// A row times some panels.
template <int Low, int High, bool kHasOffset, int Panels>
void multiply_grouped(const LinearGroupedArgs& args, std::int64_t row, std::int64_t panel) {
  constexpr int kColumns = Panels * kParts;
  const GroupedCodes& w = args.weights;
  const GroupedValues values = grouped_values(w);
  const std::int64_t code_bytes = w.code_bytes(), scale_bytes = w.scale_bytes();
  const std::byte *codes = w.codes + panel * code_bytes, *scales = w.scales + panel * scale_bytes;
  const float* x = args.to.x + row * args.to.x_stride;
  const int group = w.run.inputs / w.run.groups;
  fetch_finish(args.to, row, 1, panel * kPanel, Panels * kPanel);
  RunScales by[kColumns];
  Vec sums[1][kColumns];
  clear(sums);
  float last[32] = {};  // inputs of a span that is not whole
  for (std::int64_t first = 0; first < w.k; first += w.run.inputs, scales += w.run.bits / 8 * kPanel) {
    for (int j = 0; j < kColumns; ++j)
      load_run<kHasOffset>(w.run, scales + j / kParts * scale_bytes, j % kParts, by[j]);
    for (int at = 0; at < w.run.inputs && first + at < w.k; at += 32, codes += (Low + High) * kPanel * 4) {
      const float* inputs = x + first + at;
      if (const std::int64_t left = w.k - first - at; left < 32) {
        for (std::int64_t i = 0; i < left; ++i) last[i] = inputs[i];
        inputs = last;
      }
      for (int j = 0; j < kColumns; ++j) {
        const std::byte* span = codes + j / kParts * code_bytes + j % kParts * Vec::kWidth * 4;
        if (j % kParts == 0)
          for (int line = 0; line < Low + High; ++line)
            fetch_ahead(reinterpret_cast<const std::uint8_t*>(span + line * kPanel * 4),
                        distance_of<Panels>(args.fetch), args.fetch);
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half) {
          const int g = (at + half * 16) / group;
          const Vec scale = by[j].scale[g], offset = by[j].offset[kHasOffset ? g : 0];
#pragma GCC unroll 16
          for (int i = 16 * half; i < 16 * half + 16; ++i)
            sums[0][j] = Vec::fma(
                Vec::set(inputs[i]),
                scaled_by<kHasOffset>(grouped_value<Low, High>(values, span, i), scale, offset), sums[0][j]);
        }
      }
    }
  }
  for (int j = 0; j < kColumns; ++j) {
    const std::int64_t output = panel * kPanel + j * Vec::kWidth, left = args.to.n - output;
    if (left > 0) finish_vector(args.to, sums[0][j], row, output, left < Vec::kWidth ? left : Vec::kWidth);
  }
}

// Calls take.operator()<low bits, high bits, whether there are minima>().
template <bool kHasOffset, typename Take>
void for_planes(int bits, const Take& take) {
  switch (bits) {
    case 2:
      return take.template operator()<2, 0, kHasOffset>();
    case 3:
      return take.template operator()<2, 1, kHasOffset>();
    case 4:
      return take.template operator()<4, 0, kHasOffset>();
    case 5:
      return take.template operator()<4, 1, kHasOffset>();
    case 6:
      return take.template operator()<4, 2, kHasOffset>();
    default:
      return take.template operator()<8, 0, kHasOffset>();
  }
}
template <typename Take>
void for_grouped(const GroupedCodes& codes, const Take& take) {
  codes.run.has_minima ? for_planes<true>(codes.bits, take) : for_planes<false>(codes.bits, take);
}

void expand_grouped(const ExpandGroupedArgs& args) noexcept {
  for_grouped(args.weights, [&]<int Low, int High, bool kHasOffset>() {
    for (std::int64_t panel = 0; panel < args.panels; ++panel)
      for (std::int64_t part = 0; part < kParts; ++part)
        expand_grouped_panel<Low, High, kHasOffset>(args, panel, part);
  });
}

void linear_grouped(const LinearGroupedArgs& args) noexcept {
  for_grouped(args.weights, [&]<int Low, int High, bool kHasOffset>() {
    // One panel where there are minima, two else: measured on Zen 5, 1.1 and 1.3 times as fast as the other
    // way.
    for_few_rows<1, kHasOffset ? 1 : 2>(
        args.to, [&](auto /*rows*/, auto panels, std::int64_t row, std::int64_t panel) {
          multiply_grouped<Low, High, kHasOffset, decltype(panels)::value>(args, row, panel);
        });
  });
}
