// Sixteen floats in a register of AVX-512, for the ISA files that include it inside their own anonymous
// namespace. Not a header for others.
#pragma once

#define ASSAY_IS_512
#if defined(__AVX512VNNI__)
#define ASSAY_VNNI_512
#endif

struct Vec {
  static constexpr int kWidth = 16, kRegisters = 32;
  __m512 v;
  static Vec set(float x) { return {_mm512_set1_ps(x)}; }
  static Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
  // Keeps a value that serves several products in a register: compilers would load it for each of them.
  static Vec kept(Vec x) {
    __asm__("" : "+v"(x.v));
    return x;
  }
  // Sixteen pairs of bfloat16: a bfloat16 is the upper half of a float.
  static void load_pairs(const std::uint16_t* p, Vec& even, Vec& odd) {
    const __m512i bits = _mm512_loadu_si512(p);
    even = {_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16))};
    odd = {_mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xffff0000u))))};
  }
  static __mmask16 mask(std::int64_t n) { return static_cast<__mmask16>((1u << n) - 1u); }
  static Vec load_n(const float* p, std::int64_t n) { return {_mm512_maskz_loadu_ps(mask(n), p)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store_n(float* p, std::int64_t n) const { _mm512_mask_storeu_ps(p, mask(n), v); }
  // Rounded to bfloat16, ties to even.
  __m256i narrow() const {
#if defined(__AVX512BF16__)
    return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v));
#else
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    const __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(
        _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), rounded, quiet));
#endif
  }
  static Vec widen(__m256i bits) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }
  static Vec load_bfloat16(const std::uint16_t* p) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  float highest() const {
    return _mm512_reduce_max_ps(v);
  }
  float total() const {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static Vec load_codes(const std::int8_t* p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
  }
  void store_bytes(std::int8_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
  }
  // Rounded, ties to even, plus `more`, saturated.
  static void store_bytes(std::int8_t* p, Vec a, Vec b, Vec c, Vec d, std::int32_t more) {
    const __m512i plus = _mm512_set1_epi32(more);
    const auto whole = [&](Vec x) { return _mm512_add_epi32(_mm512_cvtps_epi32(x.v), plus); };
    const __m512i bytes = _mm512_packs_epi16(_mm512_packs_epi32(whole(a), whole(b)),
                                             _mm512_packs_epi32(whole(c), whole(d)));  // fours of each lane
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(p, _mm512_permutexvar_epi32(order, bytes));
  }
  Vec to_float16() const {
    return {_mm512_cvtph_ps(_mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT))};
  }
  // Sixteen values, and those of 16 codes: of input i of the eight whose codes lie in 64 bytes.
  using Codebook = __m512;
  using Codes = __m512i;
  static Codebook codebook(const float* values) {
    return _mm512_loadu_ps(values);
  }
  static Codes codes(const std::uint8_t* p) {
    return _mm512_loadu_si512(p);
  }
  static Vec look_up(Codebook codebook, Codes codes, int i) {
    return {
        _mm512_permutexvar_ps(_mm512_srl_epi32(codes, _mm_cvtsi32_si128(i % 4 * 8 + i / 4 * 4)), codebook)};
  }
  // Words of 32 bits.
  static Codes words(const std::byte* p) {
    return _mm512_loadu_si512(p);
  }
  static Codes halves(const std::byte* p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static Codes bytes(const std::byte* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  // `bits` of each from `shift` on; `high` above `bits` of `low`.
  static Codes field(Codes words, int shift, int bits) {
    return _mm512_and_si512(_mm512_srl_epi32(words, _mm_cvtsi32_si128(shift)),
                            _mm512_set1_epi32((1 << bits) - 1));
  }
  static Codes above(Codes low, Codes high, int bits) {
    return _mm512_or_si512(low, _mm512_sll_epi32(high, _mm_cvtsi32_si128(bits)));
  }
  // The bits of `mask` of each byte, after a shift to the right, or to the left where it is negative; and
  // those of `low` with them.
  static Codes shifted(Codes words, int right) {
    return right >= 0 ? _mm512_srli_epi32(words, static_cast<unsigned>(right))
                      : _mm512_slli_epi32(words, static_cast<unsigned>(-right));
  }
  static Codes masked(Codes words, int right, int mask) {
    return _mm512_and_si512(shifted(words, right), _mm512_set1_epi8(static_cast<char>(mask)));
  }
  static Codes merged(Codes low, Codes words, int right, int mask) {
    return _mm512_ternarylogic_epi32(low, shifted(words, right), _mm512_set1_epi8(static_cast<char>(mask)),
                                     0xf8);
  }
  static Vec floats(Codes words) {
    return {_mm512_cvtepi32_ps(words)};
  }
  static Vec float16(Codes words) {
    return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(words))};
  }
  static Vec float16_at(const std::byte* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static Codes bits_of(Codes words, int shift, int bits) {
    return _mm512_and_si512(shifted(words, shift), _mm512_set1_epi32((1 << bits) - 1));
  }
  static Codes bits_above(Codes low, Codes words, int shift, int bits, int up) {
    return _mm512_ternarylogic_epi32(low, shifted(words, shift - up),
                                     _mm512_set1_epi32(((1 << bits) - 1) << up), 0xf8);
  }
  // 2^(word - 127) of words up to 254; 255 is NaN.
  static Vec powers(Codes words) {
    const __m512i usual = _mm512_slli_epi32(words, 23);
    const __m512i low = _mm512_mask_blend_epi32(_mm512_cmpeq_epi32_mask(words, _mm512_setzero_si512()), usual,
                                                _mm512_set1_epi32(0x00400000));
    return {_mm512_castsi512_ps(_mm512_mask_blend_epi32(
        _mm512_cmpeq_epi32_mask(words, _mm512_set1_epi32(255)), low, _mm512_set1_epi32(0x7fc00000)))};
  }
  // By the lowest 4 of the bits from `shift` on.
  static Vec look_up_at(Codebook codebook, Codes words, int shift) {
    return {_mm512_permutexvar_ps(_mm512_srl_epi32(words, _mm_cvtsi32_si128(shift)), codebook)};
  }
  void store_bfloat16(std::uint16_t* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow());
  }
  // Pairs of bfloat16, the even one first.
  static void store_pairs(Vec even, Vec odd, std::uint16_t* p) {
#if defined(__AVX512BF16__)
    const auto in_turn = [](int i) { return (i + 16) << 16 | i; };
    const __m512i order = _mm512_setr_epi32(
        in_turn(0), in_turn(1), in_turn(2), in_turn(3), in_turn(4), in_turn(5), in_turn(6), in_turn(7),
        in_turn(8), in_turn(9), in_turn(10), in_turn(11), in_turn(12), in_turn(13), in_turn(14), in_turn(15));
    _mm512_storeu_si512(
        p, _mm512_permutexvar_epi16(order, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd.v, even.v))));
#else
    const __m512i low = _mm512_cvtepu16_epi32(even.narrow()), high = _mm512_cvtepu16_epi32(odd.narrow());
    _mm512_storeu_si512(p, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
#endif
  }
  static Vec fma(Vec a, Vec b, Vec c) {
    return {_mm512_fmadd_ps(a.v, b.v, c.v)};
  }
  static Vec add(Vec a, Vec b) {
    return {_mm512_add_ps(a.v, b.v)};
  }
  static Vec sub(Vec a, Vec b) {
    return {_mm512_sub_ps(a.v, b.v)};
  }
  static Vec mul(Vec a, Vec b) {
    return {_mm512_mul_ps(a.v, b.v)};
  }
  static Vec div(Vec a, Vec b) {
    return {_mm512_div_ps(a.v, b.v)};
  }
  static Vec max(Vec a, Vec b) {
    return {_mm512_max_ps(a.v, b.v)};
  }
  static Vec min(Vec a, Vec b) {
    return {_mm512_min_ps(a.v, b.v)};
  }
  static Vec sqrt(Vec a) {
    return {_mm512_sqrt_ps(a.v)};
  }
  static Vec round(Vec a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  static Vec scale_by_power(Vec p, Vec n) {
    return {_mm512_scalef_ps(p.v, n.v)};
  }
  // By what is above the next whole number below, a polynomial over [0, 1] fitted to the least relative error
  // with 1 at 0, and an instruction that takes that whole number itself. A result below the smallest normal
  // number would take it twenty times as long.
  static Vec power_of_two(Vec x) {
    x = max(set(-126.0F), x);
    const Vec r{_mm512_reduce_ps(x.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
    Vec p = set(1.34266969e-2F);
    p = fma(p, r, set(5.22424541e-2F));
    p = fma(p, r, set(2.41280213e-1F));
    p = fma(p, r, set(6.93044841e-1F));
    p = fma(p, r, set(1.0F));
    return {_mm512_scalef_ps(p.v, x.v)};
  }
  // To about half a unit in the last place, of x from 1 to 8e37: an estimate of 14 bits and a step of
  // Newton's.
  static Vec reciprocal(Vec x) {
    const __m512 y = _mm512_rcp14_ps(x.v);
    return {_mm512_mul_ps(y, _mm512_fnmadd_ps(x.v, y, _mm512_set1_ps(2.0F)))};
  }
  // To 6e-5.
  static Vec estimate_reciprocal(Vec x) {
    return {_mm512_rcp14_ps(x.v)};
  }
  static Vec select_less(Vec a, Vec b, Vec x, Vec y) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
  }
};

// Sums of products of four bytes each, in 16 lanes.
struct Dot {
  // Bytes of a register, each one of 16 values by its code.
  struct Bytes {
    __m512i v;
    void store(std::int8_t* p) const { _mm512_storeu_si512(p, v); }
  };
  static Bytes look_up(Bytes codebook, __m512i codes) { return {_mm512_shuffle_epi8(codebook.v, codes)}; }
  static Bytes of_table(const std::uint8_t* table) {
    return {_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)))};
  }
  static Bytes with_sign(__m512i bytes) { return {_mm512_xor_si512(bytes, _mm512_set1_epi8(-128))}; }
  static Bytes look_up_low(Bytes codebook, __m512i codes) {
    return {_mm512_shuffle_epi8(codebook.v, _mm512_and_si512(codes, _mm512_set1_epi8(15)))};
  }
  static Bytes look_up_high(Bytes codebook, __m512i codes) {
    return look_up_low(codebook, _mm512_srli_epi16(codes, 4));
  }
#if defined(ASSAY_VNNI_512)
  static constexpr bool kHasOffset = true;  // inputs are 128 too large: they have to be unsigned
  using Weights = __m512i;
  using Inputs = __m512i;
  static Weights weights(const std::int8_t* p) {
    return _mm512_loadu_si512(p);
  }
  static Inputs inputs(const std::int8_t* x) {
    std::uint32_t bytes = 0;
    __builtin_memcpy(&bytes, x, 4);
    return _mm512_set1_epi32(static_cast<std::int32_t>(bytes ^ 0x80808080u));
  }
  void add(Inputs x, Weights w) {
    v = _mm512_dpbusd_epi32(v, x, w);
  }
  // Values by codes are 128 too large instead, so that inputs come straight from memory; sums start at what
  // makes up for it.
  static Bytes byte_codebook(const std::int8_t* values) {
    return {
        _mm512_xor_si512(_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values))),
                         _mm512_set1_epi8(-128))};
  }
  static Vec start_of(Vec codes) {
    return Vec::mul(codes, Vec::set(-128.0F));
  }
  // For many rows it is the weights, in a copy of them that all rows share.
  static void copy_for_block(std::int8_t* to, const std::int8_t* weights, std::int64_t bytes) {
    for (std::int64_t i = 0; i < bytes; i += 64)
      _mm512_store_si512(to + i, _mm512_xor_si512(_mm512_loadu_si512(weights + i), _mm512_set1_epi8(-128)));
  }
  using Four = __m512i;
  static Four four(const std::int8_t* x) {
    std::int32_t bytes = 0;
    __builtin_memcpy(&bytes, x, 4);
    return _mm512_set1_epi32(bytes);
  }
  void add_bytes(Four x, Bytes w) {
    v = _mm512_dpbusd_epi32(v, w.v, x);
  }
  using Plain = __m512i;
  static Plain plain(const std::int8_t* x) {
    return four(x);
  }
  void add_plain(Plain x, Bytes w) {
    v = _mm512_dpbusd_epi32(v, w.v, x);
  }
  void end_plain() {}
#else
  static constexpr bool kHasOffset = false;
  using Weights = __m512i;
  // As in AVX2: x * w = |x| * (w ^ flip) + (x < 0 ? |x| : 0).
  struct Inputs {
    __m512i magnitudes, flips;
  };
  static Inputs signed_inputs(__m512i codes) {
    return {_mm512_abs_epi8(codes), _mm512_movm_epi8(_mm512_movepi8_mask(codes))};
  }
  static Weights weights(const std::int8_t* p) {
    return _mm512_loadu_si512(p);
  }
  static Inputs inputs(const std::int8_t* x) {
    std::int32_t bytes = 0;
    __builtin_memcpy(&bytes, x, 4);
    return signed_inputs(_mm512_set1_epi32(bytes));
  }
  void add(const Inputs& x, Weights w) {
    const __m512i pairs = _mm512_maddubs_epi16(x.magnitudes, _mm512_xor_si512(w, x.flips));
    v = _mm512_add_epi32(v, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
  static Bytes byte_codebook(const std::int8_t* values) {
    return {_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values)))};
  }
  static Vec start_of(Vec codes) {
    return Vec::max(Vec::sub(Vec::set(0.0F), codes), Vec::set(0.0F));
  }
  using Four = Inputs;
  static Four four(const std::int8_t* x) {
    return inputs(x);
  }
  void add_bytes(const Four& x, Bytes w) {
    add(x, w.v);
  }
  // By bytes without a sign: sums of a group in 16 bits, which wrap, and at the end fit (ByteValues::center).
  using Plain = __m512i;
  static Plain plain(const std::int8_t* x) {
    std::int32_t bytes = 0;
    __builtin_memcpy(&bytes, x, 4);
    return _mm512_set1_epi32(bytes);
  }
  void add_plain(Plain x, Bytes w) {
    v = _mm512_add_epi16(v, _mm512_maddubs_epi16(w.v, x));
  }
  void end_plain() {
    v = _mm512_madd_epi16(v, _mm512_set1_epi16(1));
  }
  static constexpr std::int64_t kBytes = 64;
  static void set_near(const std::int8_t* codes, std::uint8_t* magnitudes, std::uint8_t* flips) {
    const Inputs x = signed_inputs(_mm512_loadu_si512(codes));
    _mm512_store_si512(magnitudes, x.magnitudes);
    _mm512_store_si512(flips, x.flips);
  }
  static std::int32_t start_of_codes(const std::int8_t* x, std::int64_t strip, std::int64_t count) {
    __m512i sum = _mm512_setzero_si512();
    for (std::int64_t i = 0; i < count; i += 64, x += strip) {
      const Inputs some = signed_inputs(_mm512_loadu_si512(x));
      const __m512i negative = _mm512_and_si512(some.magnitudes, some.flips);
      sum = _mm512_add_epi64(sum, _mm512_sad_epu8(negative, _mm512_setzero_si512()));
    }
    return static_cast<std::int32_t>(_mm512_reduce_add_epi64(sum));
  }
#endif
  __m512i v;
  static Dot zero() {
    return {_mm512_setzero_si512()};
  }
  void store(std::int32_t* p) const {
    _mm512_storeu_si512(p, v);
  }
  Vec floats() const {
    return {_mm512_cvtepi32_ps(v)};
  }
  static Dot all(std::int32_t x) {
    return {_mm512_set1_epi32(x)};
  }
  static Dot load(const std::int32_t* p) {
    return {_mm512_loadu_si512(p)};
  }
  void add(std::int32_t x) {
    v = _mm512_add_epi32(v, _mm512_set1_epi32(x));
  }
  // Less the products of two.
  Dot less(Dot a, Dot b) const {
    return {_mm512_sub_epi32(v, _mm512_mullo_epi32(a.v, b.v))};
  }
};

// The first `count` (at most 16) values to tiles, as one bfloat16 or as the sum of several.
ASSAY_INLINE void store_tiles(const Tiles& tiles, std::int64_t row, std::int64_t column, Vec value,
                              std::int64_t count) {
  if (tiles.planes == 1 && column % kPanel == 0) {
    _mm256_mask_storeu_epi16(tiles.data + tiles.offset(row, column), Vec::mask(count), value.narrow());
    return;
  }
  for (int plane = 0; plane < tiles.planes; ++plane) {
    const __m256i bits = value.narrow();
    std::uint16_t* out = tiles.plane(plane);
    if (column % kPanel == 0) {
      _mm256_mask_storeu_epi16(out + tiles.offset(row, column), Vec::mask(count), bits);
    } else {  // heads whose width is no multiple of 16
      alignas(32) std::uint16_t lanes[kPanel];
      _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), bits);
      for (std::int64_t i = 0; i < count; ++i) out[tiles.offset(row, column + i)] = lanes[i];
    }
    value = Vec::sub(value, Vec::widen(bits));
  }
}
