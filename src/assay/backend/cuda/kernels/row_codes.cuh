// A row of float32 as int8 codes, by a team of threads: as it lies in memory or as a norm makes it, in quads
// of neighbouring inputs. Codes that depend on other rows, or on outliers, are made by quantize.cuh.
#pragma once

#include "assay/backend/cuda/kernels/common.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

inline constexpr int kCodingThreads = 256;

// Which word of a row of codes in order holds inputs k to k + 3, k a multiple of 4. Word 4 t + 2 s + h of 64
// inputs holds four from 32 s + 16 h + 4 t on, which lane 4 g + t multiplies in the k32 step s (PTX ISA,
// "Matrix Fragments for mma.m16n8k32").
ASSAY_DEVICE std::int32_t word_of_codes(std::int32_t k) {
  return k / 64 * 16 + (k >> 2 & 3) * 4 + (k >> 5 & 1) * 2 + (k >> 4 & 1);
}

ASSAY_DEVICE float rounded_to_f16(float x) {
  return f16_value(f16_bits(x));
}

// Brings a vector that no kernel writes to the block's processor, before the block waits.
ASSAY_DEVICE void prefetch_vector(const Global<const float>& from, std::int64_t n) {
  constexpr std::int64_t kLine = 32;
  if (!from) return;
  for (std::int64_t i = thread_index() * kLine; i < n; i += kCodingThreads * kLine) from.prefetch(i);
}

// The threads that have a row together: whole warps, of which a block of few rows has as many for each.
struct RowTeam {
  std::int32_t index, threads, thread;

  static ASSAY_DEVICE RowTeam of(std::int32_t rows) {
    RowTeam team;
    team.threads = kCodingThreads / (rows <= 1 ? 1 : rows <= 2 ? 2 : rows <= 4 ? 4 : 8);
    team.index = thread_index() / team.threads;
    team.thread = thread_index() % team.threads;
    return team;
  }
};

// As moments_left(), of the team's row: a thread fetches a part, so that nobody waits for one after another.
// `held` has room for all parts. In all threads of the block; teams without a row put nothing.
ASSAY_DEVICE Moments moments_of_team(const QuantizeArgs& a, std::int64_t row, const RowTeam& team,
                                     bool has_row, const Shared<Floats2>& held) {
  const FusedPrologue& made = a.made;
  const auto n = static_cast<std::int32_t>(a.inputs), parts = (n + kPartElements - 1) / kPartElements;
  const Global<const Floats2> left =
      Global<float>(made.moments.data).as<const Floats2>() + row * (made.moments.stride / 2);
  ASSAY_NO_UNROLL
  for (std::int32_t i = team.thread; i < parts; i += team.threads) {
    Floats2 part = left[i];
    if (!made.subtracts_mean) part.y = squares_about(part, elements_of_part(n, i), 0);
    if (has_row) held[i] = part;
  }
  barrier();
  const auto part = [&](std::int32_t i) -> Floats2 { return held[i]; };
  if (made.subtracts_mean) return merged_moments(n, true, made.epsilon, part);
  float squares = 0;
  for (std::int32_t i = thread_index() % kPartsApart; i < parts; i += kPartsApart) squares += part(i).y;
  return moments_of_sums(0, half_warp_sum(squares), n, made.epsilon);
}

struct RowCode {
  float scale, inverse;
  std::int32_t zero_point;
};
// As the CPU has it (backend/cpu/kernels/kernels.h).
ASSAY_DEVICE RowCode code_of_range(float low, float high) {
  const float range = high - low;
  if (!(range >= 1e-35F)) return {0, 0, 0};
  if (range == infinity()) return {not_a_number(), 0, 0};
  const float scale = range / 255.0F, inverse = 1.0F / scale;
  return {scale, inverse, static_cast<std::int32_t>(rintf(-low * inverse)) - 128};
}
// The code of all rows together, as quant/calibration.h has it (dynamic_uint8_code).
ASSAY_DEVICE RowCode code_of_tensor(float low, float high) {
  if (low == high) return {1, 1, -128};
  const float scale = (high - low) / 255.0F;
  if (!(scale > 0)) return {0, 0, 0};
  return {scale, 1.0F / scale,
          static_cast<std::int32_t>(rintf(smaller(larger(-low / scale, 0.0F), 255.0F))) - 128};
}

// What a sum of codes of a row is scaled by.
struct RowScale {
  float absmax;
  std::int32_t zero_point;
};

// From the lowest to the highest number, zero included; `others` is NaN where one is not finite.
struct RowRange {
  float low = 0, high = 0, others = 0;

  ASSAY_DEVICE void take(const Floats4& quad) {
    ASSAY_UNROLL
    for (int j = 0; j < 4; ++j) {
      low = fminf(low, quad.at[j]);
      high = fmaxf(high, quad.at[j]);
      others = fmaf(quad.at[j], 0.0F, others);
    }
  }
  // That of a warp from those of its lanes. Numbers without a sign are in the order of their bits.
  ASSAY_DEVICE RowRange of_warp() const {
    constexpr std::uint32_t kMagnitude = 0x7fffffff;
    return {-float_of(largest_of_warp(bits_of(low) & kMagnitude)),
            float_of(largest_of_warp(bits_of(high) & kMagnitude)),
            ballot(!(others == 0)) != 0 ? not_a_number() : 0.0F};
  }
  // That of the team from those of its threads; `partial` has an element a warp.
  ASSAY_DEVICE RowRange of_team(const RowTeam& team, const Shared<Floats4>& partial) const {
    const float least = -warp_largest(-low), most = warp_largest(high);
    const bool has_others = ballot(!(others == 0)) != 0;
    if (thread_index() % kWarp == 0)
      partial[thread_index() / kWarp] = Floats4{{least, most, has_others ? not_a_number() : 0.0F, 0}};
    barrier();
    RowRange all;
    const std::int32_t warps = team.threads / kWarp;
    ASSAY_NO_UNROLL
    for (std::int32_t i = 0; i < warps; ++i) {
      const Floats4 one = partial[team.index * warps + i];
      all.low = smaller(all.low, one.at[0]);
      all.high = larger(all.high, one.at[1]);
      all.others += one.at[2];
    }
    return all;
  }
};

// Numbers of a row to codes: rounded to the nearest integer, even ones of two, as the sum with 1.5 * 2^23 is,
// whose lowest byte is the code.
struct RowCoder {
  float inverse = 0, zero = 0, least = 0;
  RowScale scale{0, 0};

  ASSAY_DEVICE void set(const QuantizeArgs& a, const RowRange& range) {
    const bool is_symmetric = a.kind == QuantizeArgs::Kind::symmetric;
    const float largest = fabsf(larger(-range.low, range.high));  // not -0
    RowCode code{largest, largest > 0 ? 127.0F / largest : 0.0F, 0};
    if (a.kind == QuantizeArgs::Kind::fixed) code = {a.fixed_scale, 1.0F / a.fixed_scale, a.fixed_zero_point};
    if (a.kind == QuantizeArgs::Kind::row_ranges) code = code_of_range(range.low, range.high);
    inverse = code.inverse;
    zero = static_cast<float>(code.zero_point);
    least = is_symmetric ? -127.0F : -128.0F;
    const float absmax = is_symmetric ? code.scale : 127.0F * code.scale;
    scale = {range.others == 0 ? absmax : not_a_number(), code.zero_point};
  }
  // The scale of the least magnitudes of all overflows: all but zero are as large as the largest.
  ASSAY_DEVICE std::uint32_t codes(Floats4 quad) const {
    if (inverse != infinity()) return codes(quad, inverse);
    ASSAY_UNROLL
    for (int j = 0; j < 4; ++j) quad.at[j] *= quad.at[j] == 0 ? 0.0F : infinity();
    return codes(quad, 1.0F);
  }

 private:
  ASSAY_DEVICE std::uint32_t codes(const Floats4& quad, float by) const {
    constexpr float kUnits = 12582912;
    std::uint32_t word = 0;
    ASSAY_UNROLL
    for (int j = 0; j < 4; ++j) {
      const float code = quad.at[j] * by + kUnits + zero;
      word |= (bits_of(fminf(fmaxf(code, kUnits + least), kUnits + 127)) & 0xffU) << (8 * j);
    }
    return word;
  }
};

// Quads of a row that a thread of its team holds: its own of the inputs from `from` on, a multiple of four of
// them.
template <int Held>
struct HeldRow {
  Floats4 quad[Held] = {};
  std::int32_t n, step, first;

  ASSAY_DEVICE HeldRow(std::int32_t inputs, const RowTeam& team)
      : n(inputs), step(4 * team.threads), first(4 * team.thread) {}
  ASSAY_DEVICE std::int32_t place(int i) const { return first + i * step; }
  // take(quad, place) for those that there are.
  template <typename Take>
  ASSAY_DEVICE void for_each(std::int32_t from, const Take& take) {
    ASSAY_UNROLL
    for (int i = 0; i < Held; ++i)
      if (const std::int32_t k = from + place(i); k < n) take(quad[i], k);
  }
  ASSAY_DEVICE void fetch(const Global<const float>& x, std::int32_t from) {
    for_each(from, [&](Floats4& quad, std::int32_t k) { quad = x.load<Floats4>(k / 4); });
  }
  ASSAY_DEVICE void multiply(const Global<const float>& by, std::int32_t from) {
    for_each(from, [&](Floats4& quad, std::int32_t k) {
      const Floats4 factor = by.load<Floats4>(k / 4);
      ASSAY_UNROLL
      for (int j = 0; j < 4; ++j) quad.at[j] *= factor.at[j];
    });
  }
  ASSAY_DEVICE void norm(const FusedPrologue& made, const Moments& of_row, std::int32_t from) {
    const Global<const float> gain(made.gain), bias(made.bias);
    for_each(from, [&](Floats4& quad, std::int32_t) {
      ASSAY_UNROLL
      for (int j = 0; j < 4; ++j) quad.at[j] = (quad.at[j] - of_row.mean) * of_row.scale;
    });
    multiply(gain, from);
    if (!bias) return;
    for_each(from, [&](Floats4& quad, std::int32_t k) {
      const Floats4 more = bias.load<Floats4>(k / 4);
      ASSAY_UNROLL
      for (int j = 0; j < 4; ++j) quad.at[j] += more.at[j];
    });
  }
};

// Codes of a row by its team: put(k, word) for each four of `columns`; moments() of the row, of which a norm
// is made. In all threads of a block, with an element of `partial` a warp. What the team does not hold at
// once is made again for its codes.
template <int Held, bool CanBeNormed, typename MomentsOf, typename Put>
ASSAY_DEVICE RowScale code_row(const QuantizeArgs& a, std::int64_t row, const RowTeam& team,
                               std::int32_t columns, const Shared<Floats4>& partial, const MomentsOf& moments,
                               const Put& put) {
  const Global<const float> x = Global<const float>(a.x) + row * a.x_stride, factors(a.factors);
  HeldRow<Held> held(static_cast<std::int32_t>(a.inputs), team);
  const std::int32_t at_once = Held * held.step;
  const bool is_norm = CanBeNormed && a.made.kind == FusedPrologue::Kind::norm,
             is_rounded = a.kind == QuantizeArgs::Kind::symmetric && a.threshold > 0;
  Moments of_row{0, 1};
  RowRange range;
  RowCoder coder;
  ASSAY_NO_UNROLL
  for (int pass = 0; pass < 2; ++pass) {
    if (pass == 1) coder.set(a, range.of_team(team, partial));
    ASSAY_NO_UNROLL
    for (std::int32_t from = 0; from < columns; from += at_once) {
      if (pass == 0 || columns > at_once) {
        held.fetch(x, from);
        if (is_norm && pass == 0 && from == 0) of_row = moments();
        if (is_norm) held.norm(a.made, of_row, from);
        if (factors) held.multiply(factors, from);
        if (is_rounded)
          held.for_each(from, [&](Floats4& quad, std::int32_t) {
            ASSAY_UNROLL
            for (int j = 0; j < 4; ++j) quad.at[j] = rounded_to_f16(quad.at[j]);
          });
      }
      if (pass == 0) {
        held.for_each(from, [&](const Floats4& quad, std::int32_t) { range.take(quad); });
        continue;
      }
      ASSAY_UNROLL
      for (int i = 0; i < Held; ++i)
        if (const std::int32_t k = from + held.place(i); k < columns)
          put(k, k < held.n ? coder.codes(held.quad[i]) : 0U);
    }
  }
  return coder.scale;
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
