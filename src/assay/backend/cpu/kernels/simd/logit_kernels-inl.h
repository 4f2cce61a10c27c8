// Sums over slices of logits, for the ISA files that include it inside their own anonymous namespace.
#pragma once

// Sums in double, in as many lanes as Vec has.
struct DoubleSums {
#if defined(ASSAY_IS_512)
  __m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();
  static __m512d low_of(Vec x) {
    return _mm512_cvtps_pd(_mm512_castps512_ps256(x.v));
  }
  static __m512d high_of(Vec x) {
    return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x.v, 1));
  }
  ASSAY_INLINE void add(Vec x) {
    low = _mm512_add_pd(low, low_of(x));
    high = _mm512_add_pd(high, high_of(x));
  }
  // p * (x - y), where the difference is exact.
  ASSAY_INLINE void add_weighed(Vec p, Vec x, Vec y) {
    low = _mm512_fmadd_pd(low_of(p), _mm512_sub_pd(low_of(x), low_of(y)), low);
    high = _mm512_fmadd_pd(high_of(p), _mm512_sub_pd(high_of(x), high_of(y)), high);
  }
  ASSAY_INLINE void add(const DoubleSums& other) {
    low = _mm512_add_pd(low, other.low);
    high = _mm512_add_pd(high, other.high);
  }
  double total() const {
    return _mm512_reduce_add_pd(_mm512_add_pd(low, high));
  }
#else
  __m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
  static __m256d low_of(Vec x) {
    return _mm256_cvtps_pd(_mm256_castps256_ps128(x.v));
  }
  static __m256d high_of(Vec x) {
    return _mm256_cvtps_pd(_mm256_extractf128_ps(x.v, 1));
  }
  ASSAY_INLINE void add(Vec x) {
    low = _mm256_add_pd(low, low_of(x));
    high = _mm256_add_pd(high, high_of(x));
  }
  ASSAY_INLINE void add_weighed(Vec p, Vec x, Vec y) {
    low = _mm256_fmadd_pd(low_of(p), _mm256_sub_pd(low_of(x), low_of(y)), low);
    high = _mm256_fmadd_pd(high_of(p), _mm256_sub_pd(high_of(x), high_of(y)), high);
  }
  ASSAY_INLINE void add(const DoubleSums& other) {
    low = _mm256_add_pd(low, other.low);
    high = _mm256_add_pd(high, other.high);
  }
  double total() const {
    double lanes[4];
    _mm256_storeu_pd(lanes, _mm256_add_pd(low, high));
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  }
#endif
};

// The end of a slice, in a register whose other lanes repeat its first number.
ASSAY_INLINE Vec load_end(const float* x, std::int64_t count) {
  alignas(64) float lanes[Vec::kWidth];
  for (std::int64_t i = 0; i < Vec::kWidth; ++i) lanes[i] = x[i < count ? i : 0];
  return Vec::load(lanes);
}

SliceSums sum_logits(const float* x, std::int64_t n, float* powers) noexcept {
  constexpr std::int64_t kWidth = Vec::kWidth;
  const std::int64_t pairs = n / (2 * kWidth) * (2 * kWidth);
  // A product with 0 is NaN where a logit is not finite, and so is what it is added to.
  const Vec zero = Vec::set(0.0F);
  Vec highest[2] = {Vec::set(x[0]), Vec::set(x[0])}, zeros[2] = {zero, zero};
  for (std::int64_t i = 0; i < pairs; i += 2 * kWidth)
    for (int j = 0; j < 2; ++j) {
      const Vec v = Vec::load(x + i + j * kWidth);
      highest[j] = Vec::max(highest[j], v);
      zeros[j] = Vec::fma(v, zero, zeros[j]);
    }
  for (std::int64_t i = pairs; i < n; i += kWidth) {
    const Vec v = load_end(x + i, n - i < kWidth ? n - i : kWidth);
    highest[0] = Vec::max(highest[0], v);
    zeros[0] = Vec::fma(v, zero, zeros[0]);
  }
  SliceSums sums;
  sums.max = Vec::max(highest[0], highest[1]).highest();
  sums.is_finite = Vec::add(zeros[0], zeros[1]).total() == 0.0F;
  const Vec top = Vec::set(sums.max);
  DoubleSums both[2];
  for (std::int64_t i = 0; i < pairs; i += 2 * kWidth)
    for (int j = 0; j < 2; ++j) {
      const Vec power = exponential(Vec::sub(Vec::load(x + i + j * kWidth), top));
      power.store(powers + i + j * kWidth);
      both[j].add(power);
    }
  both[0].add(both[1]);
  sums.sum = both[0].total();
  for (std::int64_t i = pairs; i < n; i += kWidth) {
    const std::int64_t count = n - i < kWidth ? n - i : kWidth;
    exponential(Vec::sub(load_end(x + i, count), top)).store_n(powers + i, count);
    for (std::int64_t j = i; j < i + count; ++j) sums.sum += static_cast<double>(powers[j]);
  }
  return sums;
}

double weigh_logits(const float* powers, const float* x, const float* y, std::int64_t n) noexcept {
  constexpr std::int64_t kWidth = Vec::kWidth;
  const std::int64_t pairs = n / (2 * kWidth) * (2 * kWidth);
  DoubleSums both[2];
  for (std::int64_t i = 0; i < pairs; i += 2 * kWidth)
    for (int j = 0; j < 2; ++j) {
      const std::int64_t at = i + j * kWidth;
      both[j].add_weighed(Vec::load(powers + at), Vec::load(x + at), Vec::load(y + at));
    }
  both[0].add(both[1]);
  double sum = both[0].total();
  for (std::int64_t i = pairs; i < n; ++i)
    sum += static_cast<double>(powers[i]) * (static_cast<double>(x[i]) - static_cast<double>(y[i]));
  return sum;
}

constexpr LogitReducer kLogitReducer{sum_logits, weigh_logits};
