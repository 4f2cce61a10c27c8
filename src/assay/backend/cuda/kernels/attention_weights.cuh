// How attention_tiles.cuh makes weights of a page's keys.
#pragma once

#include "assay/backend/cuda/kernels/attention_pages.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// A warp's queries, operand A of the products with keys. Short ones are loaded for each page, so that
// registers are left for three blocks; of long ones there is no room for all.
template <int Dim>
struct HeldQueries {
  static constexpr bool kAreHeld = false;
  std::uint32_t of_step[kAreHeld ? Dim / 16 : 1][4];
  std::int32_t at_word;

  ASSAY_DEVICE HeldQueries(const AttendPlace& at, std::int32_t queries) : at_word(queries) {
    if constexpr (kAreHeld) {
      ASSAY_UNROLL
      for (int step = 0; step < Dim / 16; ++step) load(of_step[step], at, step);
    }
  }
  ASSAY_DEVICE void take(std::uint32_t (&a)[4], const AttendPlace& at, int step) const {
    if constexpr (kAreHeld) {
      ASSAY_UNROLL
      for (int i = 0; i < 4; ++i) a[i] = of_step[step][i];
    } else {
      load(a, at, step);
    }
  }
  ASSAY_DEVICE void load(std::uint32_t (&a)[4], const AttendPlace& at, int step) const {
    ldmatrix_x4(
        a, shared<std::uint32_t>(0),
        opaque(at_word + tile_word<Dim>(at.warp * kTileRows + at.lane % 16, at.lane / 16)) ^ (8 * step));
  }
};

// Products with the 64 keys of a page: of n-tile j keys 8 j + 2 t and the next, rows g and g + 8.
template <typename Type, int Dim>
ASSAY_DEVICE void score_page(float (&s)[8][4], const AttendPlace& at, const HeldQueries<Dim>& queries,
                             std::int32_t keys) {
  // The bits of a step are those of 16 bytes in a row: their exclusive or finds them in tile_word's order.
  const std::int32_t first = opaque(keys + tile_word<Dim>(at.lane % 8 + at.lane / 16 * 8, at.lane / 8 % 2));
  const Shared<std::uint32_t> words = shared<std::uint32_t>(0);
  ASSAY_UNROLL
  for (int step = 0; step < Dim / 16; ++step) {
    std::uint32_t a[4];
    queries.take(a, at, step);
    ASSAY_UNROLL
    for (int j = 0; j < 4; ++j) {
      std::uint32_t b[4];
      ldmatrix_x4(b, words, (first ^ (8 * step)) + 16 * j * (Dim / 2));
      Type::multiply(s[2 * j], a, {b[0], b[1]});
      Type::multiply(s[2 * j + 1], a, {b[2], b[3]});
    }
  }
}

// The scales of codes of keys, or values, 8 j + 2 t and the next.
ASSAY_DEVICE Floats2 scale_pair(const AttendPlace& at, std::int32_t first, int j) {
  return shared<Floats2>(0)[(first + 8 * j) / 2 + at.t];
}

// Products become what is compared (Softmax), of keys that a row does not see -infinity. first_key: that of
// the page. scales: of codes, the word of shared memory where those of the page's keys begin.
template <typename Type>
ASSAY_DEVICE void compare_page(float (&s)[8][4], const TileRows& rows, const AttendArgs& a,
                               const Softmax& softmax, const AttendPlace& at, std::int32_t first_key,
                               bool is_cut, std::int32_t scales) {
  if constexpr (kAreCodes<Type>) {
    ASSAY_UNROLL
    for (int j = 0; j < 8; ++j) {
      const Floats2 of_keys = scale_pair(at, scales, j);
      ASSAY_UNROLL
      for (int i = 0; i < 4; ++i) s[j][i] *= i % 2 == 0 ? of_keys.x : of_keys.y;
    }
  }
  softmax.shape(s, a, rows.slope,
                [&](int j, int i) { return first_key + 8 * j + 2 * at.t + i % 2 - rows.last[i / 2]; });
  if (!is_cut) return;
  ASSAY_UNROLL
  for (int half = 0; half < 2; ++half) {
    // The first and the last key that the row sees, counted from the lane's first.
    const std::int32_t before = first_key + 2 * at.t, first = rows.first[half] - before,
                       last = rows.last[half] - before;
    ASSAY_UNROLL
    for (int i = 0; i < 16; ++i)
      if (const int key = i / 2 * 8 + i % 2; key < first || key > last)
        s[i / 2][2 * half + i % 2] = -infinity();
  }
}

// Operand A of the weights of a page: four steps of 16 keys.
using PageWeights = std::uint32_t[4][4];

// The weights of a row's keys, and the lane's part of their sum. attend_step has the sums of steps of 16 keys
// side by side.
template <typename Type>
ASSAY_DEVICE float weigh_row(PageWeights& weights, const float (&s)[8][4], int half, float largest,
                             const Softmax& softmax, const AttendPlace& at, std::int32_t scales) {
  float of_page = 0, of_step = 0;
  ASSAY_UNROLL
  for (int j = 0; j < 8; ++j) {
    float weight[2];
    ASSAY_UNROLL
    for (int i = 0; i < 2; ++i) weight[i] = softmax.weight(s[j][2 * half + i], largest);
    if constexpr (kAreCodes<Type>) {
      const Floats2 of_values = scale_pair(at, scales + kPageKeys, j);
      of_step += weight[0];
      of_step += weight[1];
      // Behind a key that is not seen is whatever was there.
      if (s[j][2 * half] != -infinity()) weight[0] *= of_values.x;
      if (s[j][2 * half + 1] != -infinity()) weight[1] *= of_values.y;
    }
    const std::uint32_t pair = Type::pair(weight[0], weight[1]);
    if constexpr (!kAreCodes<Type>) {  // what is multiplied is what is added up
      of_step += Type::value(pair & 0xffffU);
      of_step += Type::value(pair >> 16);
    }
    weights[j / 2][j % 2 * 2 + half] = pair;
    if (j % 2 == 0) continue;
    of_page += of_step;
    of_step = 0;
  }
  return of_page;
}

// What is compared becomes weights; values so far are rescaled, if they have to be.
template <typename Type, int Dim>
ASSAY_DEVICE void weigh_page(PageWeights& weights, const float (&s)[8][4], float (&values)[Dim / 8][4],
                             TileRows& rows, const Softmax& softmax, const AttendPlace& at,
                             std::int32_t scales) {
  float mine[2];
  ASSAY_UNROLL
  for (int half = 0; half < 2; ++half) {
    float largest = -infinity();
    ASSAY_UNROLL
    for (int i = 0; i < 16; ++i) largest = Softmax::larger_of(largest, s[i / 2][2 * half + i % 2]);
    largest = Softmax::larger_of(largest, shuffle_xor(largest, 1));
    largest = Softmax::larger_of(largest, shuffle_xor(largest, 2));
    largest = Softmax::larger_of(rows.largest[half], largest * softmax.factor);
    mine[half] = rescale(rows.largest[half], largest);
    rows.largest[half] = largest;
  }
  ASSAY_UNROLL
  for (int half = 0; half < 2; ++half)
    rows.sum[half] = rows.sum[half] * mine[half] +
                     weigh_row<Type>(weights, s, half, rows.largest[half], softmax, at, scales);
  if (ballot(mine[0] != 1 || mine[1] != 1) == 0) return;
  ASSAY_UNROLL
  for (int j = 0; j < Dim / 8; ++j) ASSAY_UNROLL
  for (int i = 0; i < 4; ++i) values[j][i] *= mine[i / 2];
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
