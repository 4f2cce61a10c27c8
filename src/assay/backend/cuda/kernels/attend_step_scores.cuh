// Scores, weights and values of a chunk (attend_step_parts.cuh), whose keys, values and queries lie in shared
// memory.
#pragma once

#include "assay/backend/cuda/kernels/attend_step_parts.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

// The scores of the warp's 16 keys of its pages, in two n-tiles, of rows g and g + 8; and the largest of each
// row, for all warps.
template <int Groups>
using StepScores = float[kStepPages / Groups][2][4];

template <typename Type, int Dim, int Groups>
ASSAY_DEVICE void multiply_keys(StepScores<Groups>& s, const StepPlace& at) {
  using Memory = StepMemory<Dim>;
  const std::int32_t q_row = at.lane % 16, k_row = 16 * at.of_page + at.lane % 8 + at.lane / 16 * 8;
  const Shared<std::uint32_t> words = shared<std::uint32_t>(0);
  ASSAY_UNROLL
  for (int step = 0; step < Dim / 16; ++step) {
    std::uint32_t q[4];
    ldmatrix_x4(q, words, Memory::kQueries + tile_word<Dim>(q_row, 2 * step + at.lane / 16));
    ASSAY_UNROLL
    for (int own = 0; own < kStepPages / Groups; ++own) {
      const std::int32_t page = at.group + own * Groups;
      if (!at.has_page(page)) continue;
      std::uint32_t k[4];
      ldmatrix_x4(k, words, page * Memory::kPage + tile_word<Dim>(k_row, 2 * step + at.lane / 8 % 2));
      Type::multiply(s[own][0], q, {k[0], k[1]});
      Type::multiply(s[own][1], q, {k[2], k[3]});
    }
  }
}

template <int Dim, int Groups>
ASSAY_DEVICE void score_keys(StepScores<Groups>& s, const AttendArgs& a, const StepPlace& at) {
  float slope[2] = {};
  if (a.slopes)
    for (int half = 0; half < 2; ++half)
      if (at.g + 8 * half < at.heads) slope[half] = Global<const float>(a.slopes)[at.head(half)];
  const Softmax softmax(a);
  ASSAY_UNROLL
  for (int own = 0; own < kStepPages / Groups; ++own) {
    const std::int32_t page = at.group + own * Groups;
    if (!at.has_page(page)) continue;
    const std::int32_t first_key = (at.chunk * kStepPages + page) * kPageKeys + 16 * at.of_page + 2 * at.t;
    softmax.shape(s[own], a, slope, [&](int tile, int i) { return first_key + 8 * tile + i % 2 - at.last; });
    float largest[2] = {-infinity(), -infinity()};
    ASSAY_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int tile = i / 4, half = i / 2 % 2;
      const std::int32_t key = first_key + 8 * tile + i % 2;
      if (key < at.first || key > at.last) s[own][tile][i % 4] = -infinity();
      largest[half] = Softmax::larger_of(largest[half], s[own][tile][i % 4]);
    }
    ASSAY_UNROLL
    for (int half = 0; half < 2; ++half) {
      largest[half] = larger(largest[half], shuffle_xor(largest[half], 1));
      largest[half] = larger(largest[half], shuffle_xor(largest[half], 2));
      if (at.t == 0)
        shared<float>(
            0)[StepMemory<Dim>::kMaxima + ((at.g + 8 * half) * kStepPages + page) * kStepWarps + at.of_page] =
            largest[half] * softmax.factor;
    }
  }
}

// The largest score of the tile's row in the pages up to each.
struct LargestScores {
  float before, now;
};
template <int Dim>
ASSAY_DEVICE LargestScores largest_scores(const StepPlace& at, std::int32_t tile_row, std::int32_t page) {
  LargestScores largest{-infinity(), -infinity()};
  ASSAY_UNROLL
  for (int other = 0; other < kStepPages; ++other) {
    if (!at.has_page(other) || other > page) continue;
    const Words4 maxima = shared<Words4>(4 * StepMemory<Dim>::kMaxima)[tile_row * kStepPages + other];
    largest.before = largest.now;
    ASSAY_UNROLL
    for (int warp = 0; warp < kStepWarps; ++warp)
      largest.now = larger(largest.now, float_of(maxima.word[warp]));
  }
  return largest;
}

// Scores to weights, operand A of the products with values, and the lane's parts of their sums; and for all
// warps by how much what is summed before a page is rescaled there, and the largest score of the chunk.
template <typename Type, int Dim, int Groups>
ASSAY_DEVICE void weigh_keys(const StepScores<Groups>& s, const AttendArgs& a, const StepPlace& at) {
  using Memory = StepMemory<Dim>;
  const Softmax softmax(a);
  ASSAY_UNROLL
  for (int own = 0; own < kStepPages / Groups; ++own) {
    const std::int32_t page = at.group + own * Groups;
    if (!at.has_page(page)) continue;
    Words4 pairs{};
    ASSAY_UNROLL
    for (int half = 0; half < 2; ++half) {
      const std::int32_t tile_row = at.g + 8 * half;
      const LargestScores largest = largest_scores<Dim>(at, tile_row, page);
      if (at.of_page == 0 && at.t == 0) {
        shared<float>(0)[Memory::kRescaled + page * kTileRows + tile_row] =
            rescale(largest.before, largest.now);
        if (page == at.end - 1) shared<float>(0)[Memory::kLargest + tile_row] = largest.now;
      }
      float sum = 0;
      ASSAY_UNROLL
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t bits = Type::bits(softmax.weight(s[own][i / 2][2 * half + i % 2], largest.now));
        sum += Type::value(bits);  // what is multiplied is what is added up
        pairs.word[i / 2 * 2 + half] |= bits << (16 * (i % 2));
      }
      shared<float>(
          0)[Memory::kSums + ((half * kStepPages + page) * kWarp + at.lane) * kStepWarps + at.of_page] = sum;
    }
    shared<Words4>(4 * Memory::kWeights)[(page * kStepWarps + at.of_page) * kWarp + at.lane] = pairs;
  }
}

template <int Dim>
ASSAY_DEVICE float rescaled_at(const StepPlace& at, std::int32_t page, int half) {
  return shared<float>(0)[StepMemory<Dim>::kRescaled + page * kTileRows + at.g + 8 * half];
}

// The sum of a row's weights in the chunk, in all lanes of the row.
template <int Dim>
ASSAY_DEVICE float sum_of_weights(const StepPlace& at, int half) {
  float sum = 0;
  ASSAY_UNROLL
  for (int page = 0; page < kStepPages; ++page) {
    if (!at.has_page(page)) continue;
    const Words4 of_steps =
        shared<Words4>(4 * StepMemory<Dim>::kSums)[(half * kStepPages + page) * kWarp + at.lane];
    float of_page = 0;
    ASSAY_UNROLL
    for (int step = 0; step < 4; ++step) of_page += float_of(of_steps.word[step]);
    sum = sum * rescaled_at<Dim>(at, page, half) + of_page;
  }
  sum += shuffle_xor(sum, 1);
  return sum + shuffle_xor(sum, 2);
}

// The warp's columns: n-tile j, rows g and g + 8. Of sixteen warps each has one n-tile, if there are so many.
template <int Dim, int Groups>
inline constexpr int kStepColumnTiles = Dim / 8 > kStepWarps* Groups ? Dim / 8 / (kStepWarps * Groups) : 1;
template <int Dim, int Groups>
using StepValues = float[kStepColumnTiles<Dim, Groups>][4];

template <int Dim, int Groups>
ASSAY_DEVICE bool has_columns(const StepPlace& at) {
  return at.warp * kStepColumnTiles<Dim, Groups> < Dim / 8;
}

template <typename Type, int Dim, int Groups>
ASSAY_DEVICE void multiply_values(StepValues<Dim, Groups>& values, const StepPlace& at) {
  using Memory = StepMemory<Dim>;
  constexpr int kTiles = kStepColumnTiles<Dim, Groups>;
  const Shared<std::uint32_t> words = shared<std::uint32_t>(0);
  const auto weights_of = [&](std::int32_t page, int step) {
    return shared<Words4>(4 * Memory::kWeights)[(page * 4 + step) * kWarp + at.lane];
  };
  ASSAY_UNROLL
  for (int page = 0; page < kStepPages; ++page) {
    if (!at.has_page(page)) continue;
    ASSAY_UNROLL
    for (int i = 0; i < 4 * kTiles; ++i) values[i / 4][i % 4] *= rescaled_at<Dim>(at, page, i / 2 % 2);
    const std::int32_t from = Memory::kValues + page * Memory::kPage;
    if constexpr (kTiles == 1) {  // a load has the n-tile of two steps
      ASSAY_UNROLL
      for (int step = 0; step < 4; step += 2) {
        const Words4 first = weights_of(page, step), second = weights_of(page, step + 1);
        std::uint32_t v[4];
        ldmatrix_x4_trans(v, words, from + tile_word<Dim>(16 * step + at.lane, at.warp));
        Type::multiply(values[0], first.word, {v[0], v[1]});
        Type::multiply(values[0], second.word, {v[2], v[3]});
      }
    } else {
      ASSAY_UNROLL
      for (int step = 0; step < 4; ++step) {
        const Words4 weights = weights_of(page, step);
        ASSAY_UNROLL
        for (int pair = 0; pair < kTiles / 2; ++pair) {
          std::uint32_t v[4];
          ldmatrix_x4_trans(
              v, words,
              from + tile_word<Dim>(16 * step + at.lane % 16, at.warp * kTiles + 2 * pair + at.lane / 16));
          Type::multiply(values[2 * pair], weights.word, {v[0], v[1]});
          Type::multiply(values[2 * pair + 1], weights.word, {v[2], v[3]});
        }
      }
    }
  }
}
}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
