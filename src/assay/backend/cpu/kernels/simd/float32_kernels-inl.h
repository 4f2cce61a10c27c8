// The float32 kernels but attention, written once over a vector type `Vec` that the including ISA file
// defines in its own anonymous namespace (as it does with everything here: two ISA files must never share a
// function). Not a header for others.
//
// `Vec` has kWidth floats, kRegisters registers, and:
// load, keep, store, load_n, store_n (the first n floats, zero beyond), load_pairs, load_codes (of int8),
// store_bytes (rounded to int8), set, fma, add, sub, mul, div, max, min (their second operand where one is
// NaN), round, scale_by_power (p times two to a whole power from -126 to 127), reciprocal and
// estimate_reciprocal (of numbers from 1 on), select_less (a < b ? x : y), highest and total (of its lanes,
// halves added to halves); and power_of_two: 2^x to 3e-6, far below what bfloat16 keeps of it, and 1 at 0;
// below -126 it is 2^-126, beyond 126 at least 2^126. NaN goes in and comes out.
#pragma once

constexpr int kParts = kPanel / Vec::kWidth;  // vectors per panel

// Fetches a stream of weights that one row passes once: the processor alone does not keep up with memory.
template <int Streams>
ASSAY_INLINE std::int64_t distance_of(const WeightFetch& fetch) {
  const std::int64_t distance = fetch.distance * kGroup / Streams;
  return distance < fetch.most ? distance : fetch.most;
}
ASSAY_INLINE void fetch_ahead(const void* p, std::int64_t bytes, const WeightFetch& fetch) {
  const char* at = static_cast<const char*>(p) + bytes;
  if (fetch.is_to_second_level)
    __builtin_prefetch(at, 0, 2);
  else
    __builtin_prefetch(at, 0, 3);
}
// Fetches weights that several rows pass, which takes longer: what the next panels hold at the same place,
// into the second-level cache.
ASSAY_INLINE void fetch_next(const void* p) {
  __builtin_prefetch(p, 0, 2);
}
// n floats, or other numbers of four bytes, into the nearest cache.
ASSAY_INLINE void fetch_row(const void* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n * 4; i += 64) __builtin_prefetch(static_cast<const char*>(x) + i, 0, 3);
}
// What few rows of outputs are finished with, while their sums are computed: a step has passed more weights
// since than caches hold.
ASSAY_INLINE void fetch_finish(const LinearArgs& to, std::int64_t row, std::int64_t rows, std::int64_t column,
                               std::int64_t columns) {
  if (to.bias != nullptr) fetch_row(to.bias + column, columns);
  for (std::int64_t i = row; to.adds && i < row + rows; ++i)
    fetch_row(to.y + i * to.y_stride + column, columns);
}
// How far ahead where `left` of the bytes of a panel are still to come. Of panels that are read side by side:
// behind the end of one lies its neighbour, which is being read, and what will be needed is behind all.
template <int Panels, int Streams = Panels>
ASSAY_INLINE std::int64_t bytes_ahead(const WeightFetch& fetch, std::int64_t left, std::int64_t panel_bytes) {
  const std::int64_t distance = distance_of<Streams>(fetch);
  return left > distance ? distance : distance + (Panels - 1) * panel_bytes;
}
// Whether some numbers are all finite: others times zero are NaN, and a sum with NaN stays NaN.
ASSAY_INLINE Vec add_poison(Vec poison, Vec v) {
  return Vec::fma(v, Vec::set(0.0F), poison);
}
ASSAY_INLINE bool is_poisoned(Vec poison) {
  const float sum = poison.total();
  return sum != sum;
}
ASSAY_INLINE Vec sum_of_four(const Vec (&lanes)[4]) {
  return Vec::add(Vec::add(lanes[0], lanes[1]), Vec::add(lanes[2], lanes[3]));
}
// The sum of n floats.
bool is_any_poisoned(const float* x, std::int64_t n) {
  Vec poison[4] = {Vec::set(0.0F), Vec::set(0.0F), Vec::set(0.0F), Vec::set(0.0F)};
  std::int64_t i = 0;
  for (; i + 4 * Vec::kWidth <= n; i += 4 * Vec::kWidth)
    for (int lane = 0; lane < 4; ++lane)
      poison[lane] = add_poison(poison[lane], Vec::load(x + i + lane * Vec::kWidth));
  for (; i < n; i += Vec::kWidth)
    poison[0] = add_poison(poison[0], Vec::load_n(x + i, n - i < Vec::kWidth ? n - i : Vec::kWidth));
  return is_poisoned(sum_of_four(poison));
}

template <int Rows, int Columns>
void clear(Vec (&sums)[Rows][Columns]) {
  for (auto& row : sums)
    for (Vec& sum : row) sum = Vec::set(0.0F);
}
template <int Rows, int Columns>
void store_sums(const Vec (&sums)[Rows][Columns], float* c, std::int64_t c_stride) {
  for (int row = 0; row < Rows; ++row)
    for (int j = 0; j < Columns; ++j) sums[row][j].store(c + row * c_stride + j * Vec::kWidth);
}
template <int Rows, int Columns>
ASSAY_INLINE void add_products(const float* a, std::int64_t a_stride, const Vec (&weights)[Columns],
                               Vec (&sums)[Rows][Columns]) {
  for (int row = 0; row < Rows; ++row) {
    Vec x = Vec::set(a[row * a_stride]);
    if (Rows > 1) x = Vec::kept(x);
    for (int j = 0; j < Columns; ++j) sums[row][j] = Vec::fma(x, weights[j], sums[row][j]);
  }
}

// Where a block of panels lies: floats or int8 codes [k][..16..] at k_stride, or pairs of bfloat16
// [k / 2][16][2].
struct Floats {
  const float* data;
  std::int64_t k_stride, panel_stride;
  const WeightFetch* fetch;
  Floats panel(std::int64_t i) const { return {data + i * panel_stride, k_stride, panel_stride, fetch}; }
};
struct Codes {
  const std::int8_t* data;
  std::int64_t k_stride, panel_stride;
  const WeightFetch* fetch;
  Codes panel(std::int64_t i) const { return {data + i * panel_stride, k_stride, panel_stride, fetch}; }
};
struct Pairs {
  const std::uint16_t* data;
  std::int64_t panel_stride;
  const WeightFetch* fetch;
  Pairs panel(std::int64_t i) const { return {data + i * panel_stride, panel_stride, fetch}; }
};

ASSAY_INLINE Vec load_values(const float* from) {
  return Vec::load(from);
}
ASSAY_INLINE Vec load_values(const std::int8_t* from) {
  return Vec::load_codes(from);
}

// C[Rows, 16 * Panels] = A[Rows, k] * B. One chain of fused multiply-adds along k for each output. Everything
// that the loop needs is in local variables: compilers put what they cannot follow into memory, and a store
// for each vector of weights takes two thirds of the speed.
template <int Rows, int Panels, typename Values>
void multiply_block(const float* a, std::int64_t a_stride, const Values& b, std::int64_t k_count, float* c,
                    std::int64_t c_stride) {
  Vec sums[Rows][Panels * kParts];
  clear(sums);
  const std::int64_t k_stride = b.k_stride, panel_stride = b.panel_stride,
                     step = k_stride * static_cast<std::int64_t>(sizeof(*b.data)), bytes = k_count * step;
  const auto* data = b.data;
  const WeightFetch fetch = *b.fetch;
  for (std::int64_t left = bytes; left > 0; left -= step, data += k_stride, ++a) {
    const std::int64_t ahead = bytes_ahead<Panels>(fetch, left, bytes);
    Vec weights[Panels * kParts];
    for (int j = 0; j < Panels * kParts; ++j) {
      const auto* from = data + j / kParts * panel_stride + j % kParts * Vec::kWidth;
      if (j % kParts == 0) fetch_ahead(from, ahead, fetch);
      weights[j] = load_values(from);
      if (Rows > 1) weights[j] = Vec::kept(weights[j]);
    }
    add_products(a, a_stride, weights, sums);
  }
  store_sums(sums, c, c_stride);
}

template <int Rows, int Panels>
void multiply_block(const float* a, std::int64_t a_stride, const Pairs& b, std::int64_t k_count, float* c,
                    std::int64_t c_stride) {
  Vec sums[Rows][Panels * kParts];
  clear(sums);
  const std::int64_t panel_stride = b.panel_stride, bytes = panel_stride * 2;
  const std::uint16_t* data = b.data;
  const WeightFetch fetch = *b.fetch;
  for (std::int64_t k = 0; k < k_count; k += 2, data += kPanel * 2) {
    const std::int64_t ahead = bytes_ahead<Panels>(fetch, bytes - k * kPanel * 2, bytes);
    Vec even[Panels * kParts], odd[Panels * kParts];
    for (int j = 0; j < Panels * kParts; ++j) {
      const std::uint16_t* from = data + j / kParts * panel_stride + j % kParts * Vec::kWidth * 2;
      if (j % kParts == 0) fetch_ahead(from, ahead, fetch);
      Vec::load_pairs(from, even[j], odd[j]);
    }
    add_products(a + k, a_stride, even, sums);
    if (k + 1 < k_count) add_products(a + k + 1, a_stride, odd, sums);
  }
  store_sums(sums, c, c_stride);
}

template <int Panels, typename Weights>
void multiply_rows(std::int64_t rows, const float* a, std::int64_t a_stride, const Weights& b, std::int64_t k,
                   float* c, std::int64_t c_stride) {
  switch (rows) {
    case 1:
      return multiply_block<1, Panels>(a, a_stride, b, k, c, c_stride);
    case 2:
      return multiply_block<2, Panels>(a, a_stride, b, k, c, c_stride);
    case 3:
      return multiply_block<3, Panels>(a, a_stride, b, k, c, c_stride);
    case 4:
      return multiply_block<4, Panels>(a, a_stride, b, k, c, c_stride);
    case 5:
      return multiply_block<5, Panels>(a, a_stride, b, k, c, c_stride);
    default:
      return multiply_block<6, Panels>(a, a_stride, b, k, c, c_stride);
  }
}

constexpr std::int64_t kRowsAtOnce = 6;

// Panels that fit the registers beside `rows` rows of sums.
constexpr int panels_at_once(std::int64_t rows) {
  if (Vec::kRegisters == 32) return kGroup;       // 6 rows x 4 panels = 24 sums + 4 weights + 1
  return rows == 1 ? kGroup : rows == 2 ? 2 : 1;  // 6 rows x 2 vectors = 12 sums + 2 weights + 1, of 16
}

// The same for up to 6 rows and any number of panels.
template <typename Weights>
void multiply(std::int64_t rows, std::int64_t panels, const float* a, std::int64_t a_stride, const Weights& b,
              std::int64_t k, float* c, std::int64_t c_stride) {
  const int step = panels_at_once(rows);
  std::int64_t panel = 0;
  for (; step == kGroup && panel + kGroup <= panels; panel += kGroup)
    multiply_rows<kGroup>(rows, a, a_stride, b.panel(panel), k, c + panel * kPanel, c_stride);
  for (; step >= 2 && panel + 2 <= panels; panel += 2)
    multiply_rows<2>(rows, a, a_stride, b.panel(panel), k, c + panel * kPanel, c_stride);
  for (; panel < panels; ++panel)
    multiply_rows<1>(rows, a, a_stride, b.panel(panel), k, c + panel * kPanel, c_stride);
}

// exp(x) to about 1 unit in the last place, for x from -87.3 to 88.37 (others count as the nearer limit):
// Cody and Waite's reduction and the polynomial of Cephes' expf (Moshier). NaN goes in and comes out: the
// limits give their second operand then.
ASSAY_INLINE Vec bounded_exponential(Vec x) {
  const Vec clamped = Vec::max(Vec::set(-87.3F), Vec::min(Vec::set(88.37F), x));
  // Adding this much rounds to whole numbers.
  const Vec rounder = Vec::set(12582912.0F);
  const Vec shifted = Vec::fma(clamped, Vec::set(1.44269504088896341F), rounder);
  const Vec n = Vec::sub(shifted, rounder);
  Vec r = Vec::fma(n, Vec::set(-0.693359375F), clamped);
  r = Vec::fma(n, Vec::set(2.12194440e-4F), r);
  Vec p = Vec::set(1.9875691500e-4F);
  p = Vec::fma(p, r, Vec::set(1.3981999507e-3F));
  p = Vec::fma(p, r, Vec::set(8.3334519073e-3F));
  p = Vec::fma(p, r, Vec::set(4.1665795894e-2F));
  p = Vec::fma(p, r, Vec::set(1.6666665459e-1F));
  p = Vec::fma(p, r, Vec::set(5.0000001201e-1F));
  p = Vec::add(Vec::fma(Vec::mul(r, r), p, r), Vec::set(1.0F));
  return Vec::scale_by_power(p, n);
}

// The same of any x: below -87.3 the result is exactly zero, which masked scores rely on.
ASSAY_INLINE Vec exponential(Vec x) {
  return Vec::select_less(x, Vec::set(-87.3F), Vec::set(0.0F), bounded_exponential(x));
}

// 1 / (1 + exp(-x)).
ASSAY_INLINE Vec sigmoid_of_negative(Vec minus_x) {
  return Vec::reciprocal(Vec::add(Vec::set(1.0F), bounded_exponential(minus_x)));
}
ASSAY_INLINE Vec sigmoid(Vec x) {
  return sigmoid_of_negative(Vec::sub(Vec::set(0.0F), x));
}

// Abramowitz and Stegun 7.1.26: |error| <= 1.5e-7.
Vec error_function(Vec x) {
  const Vec one = Vec::set(1.0F), magnitude = Vec::max(x, Vec::sub(Vec::set(0.0F), x));
  const Vec t = Vec::div(one, Vec::fma(magnitude, Vec::set(0.3275911F), one));
  Vec p = Vec::set(1.061405429F);
  p = Vec::fma(p, t, Vec::set(-1.453152027F));
  p = Vec::fma(p, t, Vec::set(1.421413741F));
  p = Vec::fma(p, t, Vec::set(-0.284496736F));
  p = Vec::fma(p, t, Vec::set(0.254829592F));
  const Vec tail = Vec::mul(Vec::mul(p, t), exponential(Vec::sub(Vec::set(0.0F), Vec::mul(x, x))));
  const Vec positive = Vec::sub(one, tail);
  return Vec::select_less(x, Vec::set(0.0F), Vec::sub(Vec::set(0.0F), positive), positive);
}

// GELU by tanh to 1e-4, for outputs that are rounded to bfloat16 or to bytes next: x / (1 + 2^t), where
// t = -2 log2(e) sqrt(2/pi) (x + 0.044715 x^3).
ASSAY_INLINE Vec rounded_gelu(Vec x) {
  constexpr float kUnit = -2.3022082F;
  const Vec t = Vec::mul(x, Vec::fma(Vec::mul(x, x), Vec::set(0.044715F * kUnit), Vec::set(kUnit)));
  return Vec::mul(x, Vec::estimate_reciprocal(Vec::add(Vec::set(1.0F), Vec::power_of_two(t))));
}

ASSAY_INLINE Vec activate(Activation activation, Vec x, bool is_rounded) {
  if (is_rounded && activation == Activation::gelu_tanh) return rounded_gelu(x);
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return Vec::select_less(x, Vec::set(0.0F), Vec::set(0.0F), x);
    case Activation::relu2: {
      const Vec positive = Vec::select_less(x, Vec::set(0.0F), Vec::set(0.0F), x);
      return Vec::mul(positive, positive);
    }
    case Activation::silu:
      return Vec::mul(x, sigmoid(x));
    case Activation::tanh:
      return Vec::sub(Vec::mul(Vec::set(2.0F), sigmoid(Vec::mul(Vec::set(2.0F), x))), Vec::set(1.0F));
    // 0.5 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): one exponential, no
    // cancellation.
    case Activation::gelu_tanh: {
      const Vec inner = Vec::fma(Vec::mul(Vec::mul(x, x), x), Vec::set(0.044715F), x);
      return Vec::mul(x, sigmoid_of_negative(Vec::mul(inner, Vec::set(-1.5957691216057308F))));
    }
    case Activation::gelu_erf: {
      const Vec half = Vec::mul(Vec::set(0.5F), x);
      return Vec::fma(half, error_function(Vec::mul(x, Vec::set(0.70710678118654752F))), half);
    }
    case Activation::gelu_quick:
      return Vec::mul(x, sigmoid_of_negative(Vec::mul(x, Vec::set(-1.702F))));
  }
  return x;
}

// One vector of outputs: sums to activation(sums + bias), or +=, at a row and a column; `count` may be less
// than a vector.
ASSAY_INLINE void finish_vector(const LinearArgs& args, Vec value, std::int64_t row, std::int64_t column,
                                std::int64_t count) {
  if (args.bias != nullptr) value = Vec::add(value, Vec::load_n(args.bias + column, count));
  value = activate(args.activation, value, args.is_rounded);
  if (args.y != nullptr) {
    float* y = args.y + row * args.y_stride + column;
    if (args.adds) value = Vec::add(Vec::load_n(y, count), value);
    value.store_n(y, count);
  }
  if (args.y_tiles.data != nullptr) store_tiles(args.y_tiles, row, column, value, count);
}

// y[rows, columns] from values(row)(column), which lack bias and activation; whole vectors, to y alone. What
// does not change from row to row is in registers: a store into y could have changed args, for all that a
// compiler knows.
template <Activation kActivation, bool kIsRounded, typename Values>
void finish_whole_vectors(const LinearArgs& args, std::int64_t first_row, std::int64_t rows,
                          std::int64_t first_output, std::int64_t columns, const Values& values) {
  const float* bias = args.bias == nullptr ? nullptr : args.bias + first_output;
  const bool adds = args.adds;
  const std::int64_t y_stride = args.y_stride;
  float* y = args.y + first_row * y_stride + first_output;
  for (std::int64_t row = 0; row < rows; ++row, y += y_stride) {
    const auto value_of = values(row);
    for (std::int64_t j = 0; j < columns; j += Vec::kWidth) {
      Vec value = value_of(j);
      if (bias != nullptr) value = Vec::add(value, Vec::load(bias + j));
      value = activate(kActivation, value, kIsRounded);
      if (adds) value = Vec::add(Vec::load(y + j), value);
      value.store(y + j);
    }
  }
}
// False, and nothing done, where that does not serve.
template <typename Values>
ASSAY_INLINE bool finish_whole(const LinearArgs& args, std::int64_t first_row, std::int64_t rows,
                               std::int64_t first_output, std::int64_t columns, const Values& values) {
  if (args.y == nullptr || args.y_tiles.data != nullptr || columns % Vec::kWidth != 0) return false;
  const auto finish = args.activation == Activation::none
                          ? finish_whole_vectors<Activation::none, false, Values>
                      : args.activation != Activation::gelu_tanh ? nullptr
                      : args.is_rounded ? finish_whole_vectors<Activation::gelu_tanh, true, Values>
                                        : finish_whole_vectors<Activation::gelu_tanh, false, Values>;
  if (finish == nullptr) return false;
  finish(args, first_row, rows, first_output, columns, values);
  return true;
}

// y[rows, columns] from sums [rows][block_stride].
void epilogue(const LinearArgs& args, const float* block, std::int64_t block_stride, std::int64_t first_row,
              std::int64_t rows, std::int64_t first_output, std::int64_t columns) {
  const auto values = [=](std::int64_t row) __attribute__((always_inline)) {
    const float* sums = block + row * block_stride;
    return [=](std::int64_t j) __attribute__((always_inline)) {
      return Vec::load(sums + j);
    };
  };
  if (finish_whole(args, first_row, rows, first_output, columns, values)) return;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t j = 0; j < columns; j += Vec::kWidth)
      finish_vector(args, Vec::load(block + row * block_stride + j), first_row + row, first_output + j,
                    columns - j < Vec::kWidth ? columns - j : Vec::kWidth);
}

template <typename Weights>
void linear_few_rows(const LinearArgs& args, const Weights& w) {
  alignas(64) float block[kRowsAtOnce * kGroup * kPanel];
  const std::int64_t last = args.first_panel + args.panels;
  for (std::int64_t panel = args.first_panel; panel < last; panel += kGroup) {
    const std::int64_t panels = last - panel < kGroup ? last - panel : kGroup, first_output = panel * kPanel;
    const std::int64_t columns =
        args.n - first_output < panels * kPanel ? args.n - first_output : panels * kPanel;
    for (std::int64_t row = 0; row < args.rows; row += kRowsAtOnce) {
      const std::int64_t rows = args.rows - row < kRowsAtOnce ? args.rows - row : kRowsAtOnce;
      fetch_finish(args, row, rows, first_output, columns);
      multiply(rows, panels, args.x + row * args.x_stride, args.x_stride, w.panel(panel), args.k, block,
               kGroup * kPanel);
      epilogue(args, block, kGroup * kPanel, row, rows, first_output, columns);
    }
  }
}

#if defined(ASSAY_HAS_CHUNKS)
#include "assay/backend/cpu/kernels/simd/float32_passes-inl.h"
#endif

template <typename Weights>
void linear_of(const LinearArgs& args, const Weights& w) {
#if defined(ASSAY_HAS_CHUNKS)
  if (args.rows >= fewest_chunk_rows(w)) return linear_many_rows(args, w);
#endif
  linear_few_rows(args, w);
}

void linear(const LinearArgs& args) noexcept {
  if (args.packing == Packing::bfloat16)
    linear_of(args, Pairs{static_cast<const std::uint16_t*>(args.w),
                          args.planes * round_up(args.k, kTileColumns) * kPanel, &args.fetch});
  else
    linear_of(args, Floats{static_cast<const float*>(args.w), kPanel, args.k * kPanel, &args.fetch});
}

// The sum of term(vector) over a row, in a fixed order: four chains, their lanes, then what is left over.
template <typename Term, typename Rest>
ASSAY_INLINE float sum_of_row(const float* x, std::int64_t n, const Term& term, const Rest& rest) {
  constexpr std::int64_t kChains = 4;
  Vec sums[kChains];
  for (Vec& sum : sums) sum = Vec::set(0.0F);
  std::int64_t i = 0;
  for (; i + kChains * Vec::kWidth <= n; i += kChains * Vec::kWidth)
    for (int j = 0; j < kChains; ++j) sums[j] = term(Vec::load(x + i + j * Vec::kWidth), sums[j]);
  for (; i + Vec::kWidth <= n; i += Vec::kWidth) sums[0] = term(Vec::load(x + i), sums[0]);
  float tail = 0;
  for (; i < n; ++i) tail += rest(x[i]);
  return Vec::add(Vec::add(sums[0], sums[1]), Vec::add(sums[2], sums[3])).total() + tail;
}

void norm(const NormArgs& args) noexcept {
  const float count = static_cast<float>(args.n);
  // Rows come from other threads' caches: each is asked for while the one before is worked on.
  fetch_row(args.x, args.n);
  fetch_row(args.gain, args.n);
  if (args.bias != nullptr) fetch_row(args.bias, args.n);
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const float* x = args.x + row * args.x_stride;
    float* y = args.y == nullptr ? nullptr : args.y + row * args.y_stride;
    if (row + 1 < args.rows) fetch_row(x + args.x_stride, args.n);
    float mean = 0;
    if (args.subtracts_mean)
      mean = sum_of_row(
                 x, args.n, [](Vec v, Vec sum) __attribute__((always_inline)) { return Vec::add(sum, v); },
                 [](float v) { return v; }) /
             count;
    const Vec center = Vec::set(mean);
    const float squares = sum_of_row(
        x, args.n,
        [&](Vec v, Vec sum) __attribute__((always_inline)) {
          const Vec d = Vec::sub(v, center);
          return Vec::fma(d, d, sum);
        },
        [&](float v) { return (v - mean) * (v - mean); });
    // Squares that overflow would make zeros of the row: infinity less itself is NaN.
    const float variance = squares / count + (squares - squares);
    const Vec scale = Vec::div(Vec::set(1.0F), Vec::sqrt(Vec::set(variance + args.epsilon)));
    const auto finish = [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
      const Vec unit = Vec::mul(Vec::sub(Vec::load_n(x + i, n), center), scale);
      const Vec gain = Vec::load_n(args.gain + i, n);
      const Vec value =
          args.bias != nullptr ? Vec::fma(unit, gain, Vec::load_n(args.bias + i, n)) : Vec::mul(unit, gain);
      if (y != nullptr) value.store_n(y + i, n);
      if (args.y_tiles.data != nullptr) store_tiles(args.y_tiles, args.first_tile_row + row, i, value, n);
    };
    std::int64_t i = 0;
    for (; i + Vec::kWidth <= args.n; i += Vec::kWidth) finish(i, Vec::kWidth);
    if (i < args.n) finish(i, args.n - i);
  }
}

void mark_candidates(const CandidateArgs& args) noexcept {
  const Vec x_norm = Vec::set(args.x_norm), x_error = Vec::set(args.x_error);
  const auto bound = [&](std::int64_t i, std::int64_t count) __attribute__((always_inline)) {
    return Vec::fma(x_norm, Vec::load_n(args.error_norms + i, count),
                    Vec::mul(x_error, Vec::load_n(args.code_norms + i, count)));
  };
  const std::int64_t whole = args.n / kPanel * kPanel;
  Vec best[kParts];
  for (Vec& b : best) b = Vec::set(-__builtin_huge_valf());
  for (std::int64_t i = 0; i < whole; i += kPanel)
    for (int part = 0; part < kParts; ++part) {
      const std::int64_t at = i + part * Vec::kWidth;
      best[part] = Vec::max(best[part], Vec::sub(Vec::load(args.outputs + at), bound(at, Vec::kWidth)));
    }
  float highest = best[0].highest();
  for (const Vec& b : best) highest = b.highest() > highest ? b.highest() : highest;
  const auto bound_of_one = [&](std::int64_t i) {
    return args.x_norm * args.error_norms[i] + args.x_error * args.code_norms[i];
  };
  for (std::int64_t i = whole; i < args.n; ++i) {
    const float lowest = args.outputs[i] - bound_of_one(i);
    highest = lowest > highest ? lowest : highest;
  }
  for (std::int64_t i = 0; i < whole; i += kPanel) {
    float most = -__builtin_huge_valf();
    for (int part = 0; part < kParts; ++part) {
      const std::int64_t at = i + part * Vec::kWidth;
      const float of_part = Vec::add(Vec::load(args.outputs + at), bound(at, Vec::kWidth)).highest();
      most = of_part > most ? of_part : most;
    }
    args.marks[i / kPanel] = most >= highest ? 1 : 0;
  }
  if (whole < args.n) args.marks[whole / kPanel] = 0;
  for (std::int64_t i = whole; i < args.n; ++i)
    if (args.outputs[i] + bound_of_one(i) >= highest) args.marks[i / kPanel] = 1;
}

// soft_cap * tanh(x / soft_cap).
ASSAY_INLINE Vec soft_capped(Vec x, float soft_cap) {
  return Vec::mul(Vec::set(soft_cap), activate(Activation::tanh, Vec::div(x, Vec::set(soft_cap)), false));
}

void bend_logits(float* x, std::int64_t n, float scale, float soft_cap) noexcept {
  for (std::int64_t i = 0; i < n; i += Vec::kWidth) {
    const std::int64_t count = n - i < Vec::kWidth ? n - i : Vec::kWidth;
    const Vec scaled = Vec::mul(Vec::load_n(x + i, count), Vec::set(scale));
    (soft_cap == 0 ? scaled : soft_capped(scaled, soft_cap)).store_n(x + i, count);
  }
}

std::int64_t argmax(const float* x, std::int64_t n) noexcept {
  // It takes a block at a time, so that the place is looked for in one alone.
  constexpr std::int64_t kBlock = 16 * Vec::kWidth;
  Vec poison[4] = {Vec::set(0.0F), Vec::set(0.0F), Vec::set(0.0F), Vec::set(0.0F)};
  float highest = x[0];
  std::int64_t first = 0, end = 1;  // where it is
  bool is_finite = x[0] - x[0] == 0;
  std::int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    Vec best[4] = {Vec::load(x + i), Vec::load(x + i + Vec::kWidth), Vec::load(x + i + 2 * Vec::kWidth),
                   Vec::load(x + i + 3 * Vec::kWidth)};
    for (int lane = 0; lane < 4; ++lane) poison[lane] = add_poison(poison[lane], best[lane]);
#pragma GCC unroll 3
    for (std::int64_t j = 4 * Vec::kWidth; j < kBlock; j += 4 * Vec::kWidth)
      for (int lane = 0; lane < 4; ++lane) {
        const Vec v = Vec::load(x + i + j + lane * Vec::kWidth);
        best[lane] = Vec::max(best[lane], v);
        poison[lane] = add_poison(poison[lane], v);
      }
    const float of_block = Vec::max(Vec::max(best[0], best[1]), Vec::max(best[2], best[3])).highest();
    if (of_block > highest) {
      highest = of_block;
      first = i;
      end = i + kBlock;
    }
  }
  for (; i < n; ++i) {
    if (x[i] > highest) {
      highest = x[i];
      first = i;
      end = i + 1;
    }
    is_finite = is_finite && x[i] - x[i] == 0;
  }
  if (!is_finite || is_poisoned(sum_of_four(poison))) {  // the slow, exact way
    std::int64_t at = 0;
    for (i = 0; i < n; ++i) {
      if (x[i] != x[i]) return -1;
      if (x[i] > x[at]) at = i;
    }
    return x[at] - x[at] == 0 ? at : -1;
  }
  for (i = first; i < end; ++i)
    if (x[i] == highest) return i;
  return -1;
}

double log_sum_exp(const float* x, std::int64_t n) noexcept {
  const std::int64_t whole = n / Vec::kWidth * Vec::kWidth;
  Vec best = Vec::set(x[0]);
  for (std::int64_t i = 0; i < whole; i += Vec::kWidth) best = Vec::max(best, Vec::load(x + i));
  float highest = best.highest();
  for (std::int64_t i = whole; i < n; ++i) highest = x[i] > highest ? x[i] : highest;
  double sum = 0;
  const Vec top = Vec::set(highest);
  for (std::int64_t i = 0; i < n; i += Vec::kWidth) {
    const std::int64_t count = n - i < Vec::kWidth ? n - i : Vec::kWidth;
    alignas(64) float lanes[Vec::kWidth];
    exponential(Vec::sub(Vec::load_n(x + i, count), top)).store(lanes);
    for (std::int64_t j = 0; j < count; ++j) sum += static_cast<double>(lanes[j]);
  }
  return static_cast<double>(highest) + log_of(sum);
}
