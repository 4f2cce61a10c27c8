// Activations beside grouped codes to int8, over a `Vec` and a `Dot`, for the ISA files that include it
// inside their own anonymous namespace, by grouped_int8-inl.h. Not a header for others.
#pragma once

// -center times the sums of the inputs 0 and 1 of each four, and of 2 and 3, as 16 bits each.
[[maybe_unused]] std::int32_t pair_starts(const std::int8_t* codes, std::int64_t inputs,
                                          std::int32_t center) {
  const auto pairs = [&](std::int64_t at) {
    return _mm_maddubs_epi16(_mm_set1_epi8(1), _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + at)));
  };
  __m128i sums = pairs(0);
  if (inputs > 16) sums = _mm_add_epi16(sums, pairs(16));
  sums = _mm_add_epi16(sums, _mm_shuffle_epi32(sums, 0x4e));
  sums = _mm_add_epi16(sums, _mm_shuffle_epi32(sums, 0xb1));
  return _mm_cvtsi128_si32(_mm_mullo_epi16(sums, _mm_set1_epi16(static_cast<std::int16_t>(-center))));
}

constexpr int kGroupVectors = static_cast<int>(kInt8Group) / Vec::kWidth;

// 32 inputs of a row, zeros beyond k.
ASSAY_INLINE void load_group(const QuantizeGroupedArgs& args, std::int64_t row, std::int64_t first,
                             Vec (&inputs)[kGroupVectors]) {
#pragma GCC unroll 4
  for (int i = 0; i < kGroupVectors; ++i) {
    const std::int64_t at = first + i * Vec::kWidth, left = args.k - at;
    if (left <= 0)
      inputs[i] = Vec::set(0.0F);
    else if (args.x != nullptr)
      inputs[i] = Vec::load_n(args.x + row * args.x_stride + at, left < Vec::kWidth ? left : Vec::kWidth);
    else
      inputs[i] = Vec::load_bfloat16(args.x_tiles.data + args.x_tiles.offset(row, at));
  }
}

ASSAY_INLINE Vec largest_of_group(const Vec (&inputs)[kGroupVectors], Vec& poison) {
  const Vec zero = Vec::set(0.0F);
  Vec largest = zero;
#pragma GCC unroll 4
  for (int i = 0; i < kGroupVectors; ++i) {
    largest = Vec::max(Vec::max(inputs[i], Vec::sub(zero, inputs[i])), largest);
    poison = add_poison(poison, inputs[i]);
  }
  return largest;
}

// Codes of 32 inputs, stored at `out` too; NaN becomes the lowest.
ASSAY_INLINE void code_group(const Vec (&inputs)[kGroupVectors], float inverse, std::int8_t* out,
                             Vec (&codes)[kGroupVectors]) {
#pragma GCC unroll 4
  for (int i = 0; i < kGroupVectors; ++i) {
    codes[i] = Vec::max(Vec::round(Vec::mul(inputs[i], Vec::set(inverse))), Vec::set(-127.0F));
    codes[i].store_bytes(out + i * Vec::kWidth);
  }
}

// What a row keeps of a group, or of half of one, whose codes have this sum; `flipped` is the sum of
// Dot::start_of of them.
ASSAY_INLINE void put_group(const QuantizeGroupedArgs& args, std::int64_t row, std::int64_t first,
                            float scale, float total, float flipped) {
  const GroupedRows& out = args.out;
  const std::int64_t at = first / args.group * out.capacity + row;
  const auto whole = static_cast<std::int32_t>(total);
  out.scales[at] = scale;
  out.sums[at] = total * scale;
  out.starts[at] = -args.values.zero * whole;
  if constexpr (!Dot::kHasOffset) {
    const std::int32_t center = args.values.center;
    out.own_starts[at] = args.values.is_wide
                             ? static_cast<std::int32_t>(flipped)
                             : pair_starts(out.codes + out.offset(row, first), args.group, center);
    if (!args.values.is_wide) out.starts[at] += center * whole;
  }
}

// Eight floats of which op is that of the vector's.
template <typename Op>
ASSAY_INLINE __m256 folded(Vec x, [[maybe_unused]] const Op& op) {
#if defined(ASSAY_IS_512)
  return op(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
#else
  return x.v;
#endif
}
// op of the eight floats of each vector, where op is that of two vectors: eight sums at once.
template <typename Op>
ASSAY_INLINE __m256 of_eight(const __m256 (&v)[8], const Op& op) {
  __m256 fours[2];
  for (int i = 0; i < 2; ++i) {
    const __m256 *a = v + 4 * i, ab = op(_mm256_unpacklo_ps(a[0], a[1]), _mm256_unpackhi_ps(a[0], a[1])),
                 cd = op(_mm256_unpacklo_ps(a[2], a[3]), _mm256_unpackhi_ps(a[2], a[3]));
    fours[i] = op(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
  }
  return op(_mm256_permute2f128_ps(fours[0], fours[1], 0x20),
            _mm256_permute2f128_ps(fours[0], fours[1], 0x31));
}

// Rows side by side are streams that lie too far apart for the processor to fetch them alone.
ASSAY_INLINE void fetch_inputs(const QuantizeGroupedArgs& args, std::int64_t row, std::int64_t first) {
  constexpr std::int64_t kAhead = 4 * kInt8Group;
  if (args.x != nullptr)
    fetch_row(args.x + row * args.x_stride + first + kAhead, kInt8Group);
  else
    fetch_row(args.x_tiles.data + args.x_tiles.offset(row, first + kAhead), kInt8Group / 2);
}

// What eight rows keep of a group, whose halves' codes have these sums, where sums start at `starts` alone.
ASSAY_INLINE void put_rows(const QuantizeGroupedArgs& args, std::int64_t row, std::int64_t first,
                           __m256 scales, __m256 low, __m256 high) {
  const GroupedRows& out = args.out;
  const auto put = [&](std::int64_t at, __m256 totals) {
    _mm256_storeu_ps(out.scales + at, scales);
    _mm256_storeu_ps(out.sums + at, _mm256_mul_ps(totals, scales));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.starts + at),
                        _mm256_mullo_epi32(_mm256_cvtps_epi32(totals), _mm256_set1_epi32(-args.values.zero)));
  };
  if (args.group == kInt8Group) return put(first / kInt8Group * out.capacity + row, _mm256_add_ps(low, high));
  const std::int64_t at = first / kInt8Group * 2 * out.capacity + row;
  put(at, low);
  put(at + out.capacity, high);
}

// Eight groups at once: those of eight rows at one place, or eight of a row one after the other. A largest
// number and a sum of one alone would take more instructions than all its codes.
template <bool AreRows>
ASSAY_INLINE void quantize_eight_groups(const QuantizeGroupedArgs& args, std::int64_t first_row,
                                        std::int64_t first_input, Vec (&poison)[8]) {
  constexpr auto kMax = [](__m256 a, __m256 b) { return _mm256_max_ps(a, b); };
  constexpr auto kAdd = [](__m256 a, __m256 b) { return _mm256_add_ps(a, b); };
  const auto row = [&](int i) { return first_row + (AreRows ? i : 0); };
  const auto first = [&](int i) { return first_input + (AreRows ? 0 : i * kInt8Group); };
  alignas(64) float inverses[8], scales[8], totals[2][8], flips[2][8] = {};
  alignas(64) float held[8][kInt8Group];
  __m256 eight[8];
  for (int i = 0; i < 8; ++i) {
    Vec inputs[kGroupVectors];
    if constexpr (AreRows) fetch_inputs(args, row(i), first_input);
    load_group(args, row(i), first(i), inputs);
    eight[i] = folded(largest_of_group(inputs, poison[AreRows ? i : 0]), kMax);
    for (int j = 0; j < kGroupVectors; ++j) inputs[j].store(held[i] + j * Vec::kWidth);
  }
  const __m256 absmax = of_eight(eight, kMax),
               is_some = _mm256_cmp_ps(absmax, _mm256_set1_ps(1e-35F), _CMP_GE_OQ);
  _mm256_store_ps(inverses, _mm256_and_ps(is_some, _mm256_div_ps(_mm256_set1_ps(127.0F), absmax)));
  _mm256_store_ps(scales,
                  _mm256_and_ps(is_some, _mm256_mul_ps(_mm256_mul_ps(absmax, _mm256_set1_ps(1.0F / 127.0F)),
                                                       _mm256_set1_ps(args.values.unit))));
  const bool is_half = args.group < kInt8Group;
  __m256 sums[2][8], flipped[2][8];
  for (int i = 0; i < 8; ++i) {
    Vec inputs[kGroupVectors], codes[kGroupVectors];
    for (int j = 0; j < kGroupVectors; ++j) inputs[j] = Vec::load(held[i] + j * Vec::kWidth);
    code_group(inputs, inverses[i], args.out.codes + args.out.offset(row(i), first(i)), codes);
    for (int half = 0; half < 2; ++half) {
      constexpr int kOfHalf = kGroupVectors / 2;
      Vec sum = codes[half * kOfHalf], flip = Dot::start_of(sum);
      for (int j = 1; j < kOfHalf; ++j) {
        sum = Vec::add(sum, codes[half * kOfHalf + j]);
        flip = Vec::add(flip, Dot::start_of(codes[half * kOfHalf + j]));
      }
      sums[half][i] = folded(sum, kAdd);
      if constexpr (!Dot::kHasOffset) flipped[half][i] = folded(flip, kAdd);
    }
  }
  if constexpr (AreRows && Dot::kHasOffset)
    return put_rows(args, first_row, first_input, _mm256_load_ps(scales), of_eight(sums[0], kAdd),
                    of_eight(sums[1], kAdd));
  for (int half = 0; half < 2; ++half) {
    _mm256_store_ps(totals[half], of_eight(sums[half], kAdd));
    if constexpr (!Dot::kHasOffset) _mm256_store_ps(flips[half], of_eight(flipped[half], kAdd));
  }
  for (int i = 0; i < 8; ++i) {
    if (!is_half) {
      put_group(args, row(i), first(i), scales[i], totals[0][i] + totals[1][i], flips[0][i] + flips[1][i]);
      continue;
    }
    for (int half = 0; half < 2; ++half)
      put_group(args, row(i), first(i) + half * 16, scales[i], totals[half][i], flips[half][i]);
  }
}

// 32 inputs of a row alone.
ASSAY_INLINE void quantize_one_group(const QuantizeGroupedArgs& args, std::int64_t row, std::int64_t first,
                                     Vec& poison) {
  Vec inputs[kGroupVectors], codes[kGroupVectors];
  load_group(args, row, first, inputs);
  const float absmax = largest_of_group(inputs, poison).highest();
  const bool is_some = absmax >= 1e-35F;
  const float scale = is_some ? absmax * (1.0F / 127.0F) * args.values.unit : 0.0F;
  code_group(inputs, is_some ? 127.0F / absmax : 0.0F, args.out.codes + args.out.offset(row, first), codes);
  const int of_group = static_cast<int>(args.group) / Vec::kWidth;
  for (int from = 0; from < kGroupVectors; from += of_group) {
    Vec sum = Vec::set(0.0F), flipped = Vec::set(0.0F);  // whole numbers below 2^24: exact
    for (int i = from; i < from + of_group; ++i) {
      sum = Vec::add(sum, codes[i]);
      if constexpr (!Dot::kHasOffset) flipped = Vec::add(flipped, Dot::start_of(codes[i]));
    }
    put_group(args, row, first + from * Vec::kWidth, scale, sum.total(), flipped.total());
  }
}

void poison_row(const QuantizeGroupedArgs& args, std::int64_t row, Vec poison) {
  if (!is_poisoned(poison)) return;
  const GroupedRows& out = args.out;
  for (std::int64_t group = 0; group < args.k_padded / args.group; ++group)
    out.scales[group * out.capacity + row] = out.sums[group * out.capacity + row] = poison.total();
}

void quantize_grouped(const QuantizeGroupedArgs& args) noexcept {
  const std::int64_t end = args.first_row + args.rows;
  std::int64_t row = args.first_row;
  for (; row + 8 <= end; row += 8) {
    Vec poison[8];
    for (Vec& of_row : poison) of_row = Vec::set(0.0F);
    for (std::int64_t first = 0; first < args.k_padded; first += kInt8Group)
      quantize_eight_groups<true>(args, row, first, poison);
    for (int i = 0; i < 8; ++i) poison_row(args, row + i, poison[i]);
  }
  for (; row < end; ++row) {
    Vec poison[8];
    poison[0] = Vec::set(0.0F);
    std::int64_t first = 0;
    for (; first + 8 * kInt8Group <= args.k_padded; first += 8 * kInt8Group)
      quantize_eight_groups<false>(args, row, first, poison);
    for (; first < args.k_padded; first += kInt8Group) quantize_one_group(args, row, first, poison[0]);
    poison_row(args, row, poison[0]);
  }
}
