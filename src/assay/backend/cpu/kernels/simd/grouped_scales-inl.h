// Scales of grouped codes (common/grouped_layout.h) in the layouts that there are, known when compiled, for
// the ISA files that include it inside their own anonymous namespace, after grouped_kernels-inl.h. Not a
// header for others.
//
// `Vec` has also: float16_at (of memory), bits_of (a field at a place known when compiled), bits_above (the
// same, put above some bits of others).
#pragma once

// How codes become bytes: they are the bytes, they are looked up, or they have all 8 bits and get a sign
// where there is no VNNI.
enum class ByteKind { codes, table, wide_table };
// What the scales of the weights are: float16 factors, powers of two, or the numbers of super-blocks.
enum class ScaleKind { factors, powers, numbers };

// A format, as the kernels are compiled for it.
template <int LowBits, int HighBits, ByteKind Bytes, ScaleKind Scales, bool HasOffset, bool IsHalf>
struct GroupedForm {
  static constexpr int kLow = LowBits, kHigh = HighBits, kBits = LowBits + HighBits;
  static constexpr ByteKind kBytes = Bytes;
  static constexpr ScaleKind kScales = Scales;
  static constexpr bool kHasOffset = HasOffset, kIsHalf = IsHalf;  // groups of 16 inputs, not of 32
  static constexpr bool kHasSign = !Dot::kHasOffset && (kLow == 8 || kBytes == ByteKind::wide_table);
  // Where 16 bits hold sums of (code - 16) * x and not of code * x: 16 times the sum of x is added.
  static constexpr bool kHasRest = !Dot::kHasOffset && kBits == 5 && HasOffset;
  // The layout of super-blocks, which that of the weights is wherever there are numbers.
  static constexpr ScaleRun kRun = run_of_super_block(kBits, kInt8Block, IsHalf ? 16 : 8,
                                                      kBits == 2   ? 4
                                                      : kBits == 6 ? 8
                                                                   : 6,
                                                      HasOffset);
  static constexpr std::int64_t kGroup = IsHalf ? 16 : kInt8Group;
  static constexpr std::int64_t kSpanBytes = kBits * kPanel * 4;
};

template <const ScaleRun& kRun, int kWords>
ASSAY_INLINE Vec number_of_words(const Vec::Codes (&words)[kWords], std::int32_t low_at, std::int32_t high_at,
                                 int group) {
  const std::int32_t low = low_at + group * kRun.low_bits(), high = high_at + group * 2;
  Vec::Codes number = Vec::bits_of(words[low / 32], low % 32, kRun.low_bits());
  if constexpr (kRun.number_bits == 6) number = Vec::bits_above(number, words[high / 32], high % 32, 2, 4);
  return Vec::floats(number);
}
// The scales and offsets of a super-block: those of load_run.
template <typename Form>
ASSAY_INLINE void load_numbers(const std::byte* at, std::int64_t part, RunScales& out) {
  static constexpr const ScaleRun& kRun = Form::kRun;
  constexpr int kWords = (kRun.bits + 31) / 32;
  Vec::Codes words[kWords];
#pragma GCC unroll 8
  for (int i = 0; i < kWords; ++i) words[i] = run_words(kRun, at, 32 * i, part);
  const Vec factor = Vec::float16(Vec::bits_of(words[kRun.factor_at / 32], kRun.factor_at % 32, 16));
#pragma GCC unroll 16
  for (int group = 0; group < kRun.groups; ++group) {
    Vec number = number_of_words<kRun>(words, 0, kRun.highs_at, group);
    if constexpr (kRun.zero != 0) number = Vec::sub(number, Vec::set(static_cast<float>(kRun.zero)));
    out.scale[group] = Vec::mul(factor, number);
  }
  if constexpr (Form::kHasOffset) {
    constexpr int kAt = kRun.minimum_factor_at;
    const Vec below = Vec::mul(Vec::float16(Vec::bits_of(words[kAt / 32], kAt % 32, 16)), Vec::set(-1.0F));
#pragma GCC unroll 16
    for (int group = 0; group < kRun.groups; ++group)
      out.offset[group] =
          Vec::mul(below, number_of_words<kRun>(words, kRun.minima_at, kRun.minimum_highs_at, group));
  }
}

// The scales and offsets of `inputs` inputs, a block of 256 or its rest, whose first run lies at `at`.
template <typename Form>
ASSAY_INLINE void load_block(const ScaleRun& run, const std::byte* at, std::int64_t inputs, std::int64_t part,
                             RunScales& out) {
  if constexpr (Form::kScales == ScaleKind::numbers) return load_numbers<Form>(at, part, out);
  constexpr bool kArePowers = Form::kScales == ScaleKind::powers;
  constexpr std::int64_t kBytes = kArePowers ? 1 : Form::kHasOffset ? 4 : 2;
  at += part * Vec::kWidth * kBytes;
  const std::int64_t groups = inputs / kInt8Group, of_run = run.inputs / kInt8Group;
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::byte* own = at + group / of_run * kBytes * kPanel;
    if constexpr (Form::kHasOffset) {
      const Vec::Codes both = Vec::words(own);
      out.scale[group] = Vec::float16(Vec::bits_of(both, 0, 16));
      out.offset[group] = Vec::float16(Vec::bits_of(both, 16, 16));
    } else {
      out.scale[group] = kArePowers ? Vec::powers(Vec::bytes(own)) : Vec::float16_at(own);
    }
  }
}
