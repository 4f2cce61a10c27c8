// Eight floats in a register of AVX2, and sums of products of bytes, for the ISA files that include it inside
// their own anonymous namespace. Not a header for others.
#pragma once

// AVX-VNNI; or the instruction of AVX-512 on 256 bits, by which tests run the same kernels where that alone
// is there.
#if defined(__AVXVNNI__) || defined(ASSAY_VNNI_OF_AVX512)
#define ASSAY_VNNI_256
#endif

alignas(64) constexpr std::int32_t kMasks[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

struct Vec {
  static constexpr int kWidth = 8, kRegisters = 16;
  __m256 v;
  static Vec set(float x) { return {_mm256_set1_ps(x)}; }
  static Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
  // Keeps a value that serves several products in a register: compilers would load it for each of them.
  static Vec kept(Vec x) {
    __asm__("" : "+x"(x.v));
    return x;
  }
  // Eight pairs of bfloat16: a bfloat16 is the upper half of a float.
  static void load_pairs(const std::uint16_t* p, Vec& even, Vec& odd) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    even = {_mm256_castsi256_ps(_mm256_slli_epi32(bits, 16))};
    odd = {_mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(static_cast<int>(0xffff0000u))))};
  }
  static __m256i mask(std::int64_t n) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMasks + 8 - n));
  }
  static Vec load_n(const float* p, std::int64_t n) { return {_mm256_maskload_ps(p, mask(n))}; }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
  void store_n(float* p, std::int64_t n) const { _mm256_maskstore_ps(p, mask(n), v); }
  static Vec load_bfloat16(const std::uint16_t* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
  }
  float highest() const {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
  float total() const {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static Vec load_codes(const std::int8_t* p) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))))};
  }
  void store_bytes(std::int8_t* p) const {
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(v), _mm256_setzero_si256());
    const __m256i bytes = _mm256_packs_epi16(words, words);
    const std::int32_t low = _mm256_extract_epi32(bytes, 0), high = _mm256_extract_epi32(bytes, 4);
    __builtin_memcpy(p, &low, 4);
    __builtin_memcpy(p + 4, &high, 4);
  }
  // Rounded, ties to even, plus `more`, saturated.
  static void store_bytes(std::int8_t* p, Vec a, Vec b, Vec c, Vec d, std::int32_t more) {
    const __m256i plus = _mm256_set1_epi32(more);
    const auto whole = [&](Vec x) { return _mm256_add_epi32(_mm256_cvtps_epi32(x.v), plus); };
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(whole(a), whole(b)),
                                             _mm256_packs_epi32(whole(c), whole(d)));  // fours of each lane
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permutevar8x32_epi32(bytes, order));
  }
  Vec to_float16() const { return {_mm256_cvtph_ps(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT))}; }
  // Sixteen values, and those of 8 codes: of input i of the eight whose codes lie in 32 bytes.
  struct Codebook {
    __m256 low, high;
  };
  using Codes = __m256i;
  static Codebook codebook(const float* values) {
    return {_mm256_loadu_ps(values), _mm256_loadu_ps(values + 8)};
  }
  static Codes codes(const std::uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static Vec look_up(const Codebook& codebook, Codes codes, int i) {
    const __m256i index = _mm256_srl_epi32(codes, _mm_cvtsi32_si128(i % 4 * 8 + i / 4 * 4));
    const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(index, 28));  // bit 3 is then the sign
    return {_mm256_blendv_ps(_mm256_permutevar8x32_ps(codebook.low, index),
                             _mm256_permutevar8x32_ps(codebook.high, index), upper)};
  }
  // Words of 32 bits, as the vectors of AVX-512 have them.
  static Codes words(const std::byte* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static Codes halves(const std::byte* p) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static Codes bytes(const std::byte* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static Codes field(Codes words, int shift, int bits) {
    return _mm256_and_si256(_mm256_srl_epi32(words, _mm_cvtsi32_si128(shift)),
                            _mm256_set1_epi32((1 << bits) - 1));
  }
  static Codes above(Codes low, Codes high, int bits) {
    return _mm256_or_si256(low, _mm256_sll_epi32(high, _mm_cvtsi32_si128(bits)));
  }
  static Vec floats(Codes words) { return {_mm256_cvtepi32_ps(words)}; }
  static Vec float16(Codes words) {
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), 0x08);
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(packed))};
  }
  static Vec float16_at(const std::byte* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  static Codes bits_of(Codes words, int shift, int bits) {
    return _mm256_and_si256(_mm256_srli_epi32(words, shift), _mm256_set1_epi32((1 << bits) - 1));
  }
  static Codes bits_above(Codes low, Codes words, int shift, int bits, int up) {
    const __m256i moved =
        shift >= up ? _mm256_srli_epi32(words, shift - up) : _mm256_slli_epi32(words, up - shift);
    return _mm256_or_si256(low, _mm256_and_si256(moved, _mm256_set1_epi32(((1 << bits) - 1) << up)));
  }
  static Vec powers(Codes words) {
    const __m256 usual = _mm256_castsi256_ps(_mm256_slli_epi32(words, 23)),
                 least = _mm256_castsi256_ps(_mm256_set1_epi32(0x00400000)),
                 none = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    const __m256i is_least = _mm256_cmpeq_epi32(words, _mm256_setzero_si256()),
                  is_none = _mm256_cmpeq_epi32(words, _mm256_set1_epi32(255));
    return {_mm256_blendv_ps(_mm256_blendv_ps(usual, least, _mm256_castsi256_ps(is_least)), none,
                             _mm256_castsi256_ps(is_none))};
  }
  // The bits of `mask` of each byte, after a shift to the right, or to the left where it is negative; and
  // those of `low` with them.
  static Codes masked(Codes words, int right, int mask) {
    const __m256i shifted = right >= 0 ? _mm256_srli_epi32(words, right) : _mm256_slli_epi32(words, -right);
    return _mm256_and_si256(shifted, _mm256_set1_epi8(static_cast<char>(mask)));
  }
  static Codes merged(Codes low, Codes words, int right, int mask) {
    return _mm256_or_si256(low, masked(words, right, mask));
  }
  static Vec look_up_at(const Codebook& codebook, Codes words, int shift) {
    const __m256i index = _mm256_srl_epi32(words, _mm_cvtsi32_si128(shift));
    const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(index, 28));  // bit 3 is then the sign
    return {_mm256_blendv_ps(_mm256_permutevar8x32_ps(codebook.low, index),
                             _mm256_permutevar8x32_ps(codebook.high, index), upper)};
  }
  // Pairs of bfloat16, the even one first.
  static __m256i narrow(Vec x) {
    const __m256i bits = _mm256_castps_si256(x.v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
    return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(_mm256_cmp_ps(x.v, x.v, _CMP_UNORD_Q)));
  }
  void store_bfloat16(std::uint16_t* p) const {
    const __m256i bits = narrow(*this);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1)));
  }
  static void store_pairs(Vec even, Vec odd, std::uint16_t* p) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm256_or_si256(narrow(even), _mm256_slli_epi32(narrow(odd), 16)));
  }
  static Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
  static Vec add(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
  static Vec sub(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
  static Vec mul(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
  static Vec div(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
  static Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }
  static Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.v, b.v)}; }
  static Vec sqrt(Vec a) { return {_mm256_sqrt_ps(a.v)}; }
  static Vec round(Vec a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  // The lowest bits of n + 127 + 1.5 * 2^23 are the power's exponent. A product: NaN stays NaN whatever its
  // bits.
  static Vec scale_by_power(Vec p, Vec n) {
    const Vec shifted = add(n, set(12583039.0F));
    return mul(p, {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(shifted.v), 23))});
  }
  // By rounding and a polynomial over [-1/2, 1/2], fitted to the least relative error with 1 at 0. From 126
  // on 2^126, from -126 down 2^-126.
  static Vec power_of_two(Vec x) {
    const Vec bounded = max(set(-126.0F), min(set(126.0F), x)), n = round(bounded);
    const Vec r = sub(bounded, n);
    Vec p = set(9.58285e-3F);
    p = fma(p, r, set(5.590643e-2F));
    p = fma(p, r, set(2.4024099e-1F));
    p = fma(p, r, set(6.9312419e-1F));
    p = fma(p, r, set(1.0F));
    return scale_by_power(p, n);
  }
  static Vec reciprocal(Vec x) { return div(set(1.0F), x); }
  static Vec estimate_reciprocal(Vec x) { return reciprocal(x); }
  static Vec select_less(Vec a, Vec b, Vec x, Vec y) {
    return {_mm256_blendv_ps(y.v, x.v, _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ))};
  }
};

// Sums of products of four bytes each, in 8 lanes.
struct Dot {
  __m256i v;
  // Bytes of a register, each one of 16 values by its code.
  struct Bytes {
    __m256i v;
    void store(std::int8_t* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  };
  static Bytes look_up(Bytes codebook, __m256i codes) { return {_mm256_shuffle_epi8(codebook.v, codes)}; }
  static Bytes of_table(const std::uint8_t* table) {
    return {_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)))};
  }
  static Bytes with_sign(__m256i bytes) { return {_mm256_xor_si256(bytes, _mm256_set1_epi8(-128))}; }
  static Bytes look_up_low(Bytes codebook, __m256i codes) {
    return {_mm256_shuffle_epi8(codebook.v, _mm256_and_si256(codes, _mm256_set1_epi8(15)))};
  }
  static Bytes look_up_high(Bytes codebook, __m256i codes) {
    return look_up_low(codebook, _mm256_srli_epi16(codes, 4));
  }
  static __m256i four_bytes(const std::int8_t* x) {
    std::int32_t bytes = 0;
    __builtin_memcpy(&bytes, x, 4);
    return _mm256_set1_epi32(bytes);
  }
  static __m256i load_bytes(const std::int8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static __m256i book_of(const std::int8_t* values) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values)));
  }
#if defined(ASSAY_VNNI_256)
  static __m256i dpbusd(__m256i sum, __m256i bytes, __m256i codes) {
#if defined(ASSAY_VNNI_OF_AVX512)
    return _mm256_dpbusd_epi32(sum, bytes, codes);
#else
    return _mm256_dpbusd_avx_epi32(sum, bytes, codes);
#endif
  }
  static constexpr bool kHasOffset = true;  // inputs are 128 too large: they have to be unsigned
  using Weights = __m256i;
  using Inputs = __m256i;
  static Weights weights(const std::int8_t* p) {
    return load_bytes(p);
  }
  static Inputs inputs(const std::int8_t* x) {
    std::uint32_t bytes = 0;
    __builtin_memcpy(&bytes, x, 4);
    return _mm256_set1_epi32(static_cast<std::int32_t>(bytes ^ 0x80808080u));
  }
  void add(Inputs x, Weights w) {
    v = dpbusd(v, x, w);
  }
  // Values by codes are 128 too large instead, so that inputs come straight from memory; sums start at what
  // makes up for it.
  static Bytes byte_codebook(const std::int8_t* values) {
    return {_mm256_xor_si256(book_of(values), _mm256_set1_epi8(-128))};
  }
  static Vec start_of(Vec codes) {
    return Vec::mul(codes, Vec::set(-128.0F));
  }
  using Four = __m256i;
  static Four four(const std::int8_t* x) {
    return four_bytes(x);
  }
  void add_bytes(Four x, Bytes w) {
    v = dpbusd(v, w.v, x);
  }
  using Plain = __m256i;
  static Plain plain(const std::int8_t* x) {
    return four_bytes(x);
  }
  void add_plain(Plain x, Bytes w) {
    v = dpbusd(v, w.v, x);
  }
  void end_plain() {}
  // For many rows it is the weights, in a copy of them that all rows share.
  static void copy_for_block(std::int8_t* to, const std::int8_t* weights, std::int64_t bytes) {
    for (std::int64_t i = 0; i < bytes; i += 32)
      _mm256_store_si256(reinterpret_cast<__m256i*>(to + i),
                         _mm256_xor_si256(load_bytes(weights + i), _mm256_set1_epi8(-128)));
  }
  static std::int32_t start_of_codes(const std::int8_t* x, std::int64_t strip, std::int64_t count) {
    Dot sum = zero();
    for (std::int64_t i = 0; i < count; i += 64, x += strip)
      for (std::int64_t half = 0; half < 64; half += 32)
        sum.v = dpbusd(sum.v, _mm256_set1_epi8(1), load_bytes(x + half));
    alignas(32) std::int32_t lanes[8];
    sum.store(lanes);
    std::int32_t total = 0;
    for (const std::int32_t lane : lanes) total += lane;
    return -128 * total;
  }
  static constexpr std::int64_t kBytes = 32;
  static void set_near(const std::int8_t* codes, std::uint8_t* near, std::uint8_t*) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(near), load_bytes(codes));
  }
#else
  static constexpr bool kHasOffset = false;
  using Weights = __m256i;
  // x * w = |x| * (w ^ flip) + (x < 0 ? |x| : 0): sums start at the latter. Two products of the former, at
  // most 128 * 128, fit 16 bits.
  struct Inputs {
    __m256i magnitudes, flips;
  };
  static Inputs signed_inputs(__m256i codes) {
    return {_mm256_abs_epi8(codes), _mm256_cmpgt_epi8(_mm256_setzero_si256(), codes)};
  }
  static Weights weights(const std::int8_t* p) {
    return load_bytes(p);
  }
  static Inputs inputs(const std::int8_t* x) {
    return signed_inputs(four_bytes(x));
  }
  void add(const Inputs& x, Weights w) {
    const __m256i pairs = _mm256_maddubs_epi16(x.magnitudes, _mm256_xor_si256(w, x.flips));
    v = _mm256_add_epi32(v, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static Bytes byte_codebook(const std::int8_t* values) {
    return {book_of(values)};
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
  using Plain = __m256i;
  static Plain plain(const std::int8_t* x) {
    return four_bytes(x);
  }
  void add_plain(Plain x, Bytes w) {
    v = _mm256_add_epi16(v, _mm256_maddubs_epi16(w.v, x));
  }
  void end_plain() {
    v = _mm256_madd_epi16(v, _mm256_set1_epi16(1));
  }
  static constexpr std::int64_t kBytes = 32;
  static void set_near(const std::int8_t* codes, std::uint8_t* magnitudes, std::uint8_t* flips) {
    const Inputs x = signed_inputs(load_bytes(codes));
    _mm256_store_si256(reinterpret_cast<__m256i*>(magnitudes), x.magnitudes);
    _mm256_store_si256(reinterpret_cast<__m256i*>(flips), x.flips);
  }
  static std::int32_t start_of_codes(const std::int8_t* x, std::int64_t strip, std::int64_t count) {
    __m256i sum = _mm256_setzero_si256();
    for (std::int64_t i = 0; i < count; i += 64, x += strip)
      for (std::int64_t half = 0; half < 64; half += kBytes) {
        const Inputs some = signed_inputs(load_bytes(x + half));
        const __m256i negative = _mm256_and_si256(some.magnitudes, some.flips);
        sum = _mm256_add_epi64(sum, _mm256_sad_epu8(negative, _mm256_setzero_si256()));
      }
    alignas(32) std::int64_t lanes[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sum);
    return static_cast<std::int32_t>(lanes[0] + lanes[1] + lanes[2] + lanes[3]);
  }
#endif
  static Dot zero() {
    return {_mm256_setzero_si256()};
  }
  void store(std::int32_t* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
  }
  Vec floats() const {
    return {_mm256_cvtepi32_ps(v)};
  }
  static Dot all(std::int32_t x) {
    return {_mm256_set1_epi32(x)};
  }
  static Dot load(const std::int32_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
  }
  void add(std::int32_t x) {
    v = _mm256_add_epi32(v, _mm256_set1_epi32(x));
  }
  // Less the products of two.
  Dot less(Dot a, Dot b) const {
    return {_mm256_sub_epi32(v, _mm256_mullo_epi32(a.v, b.v))};
  }
};

// This tier has no products on tiles, so nobody asks for them.
void store_tiles(const Tiles&, std::int64_t, std::int64_t, Vec, std::int64_t) {}
