// A row of float32 as int8 codes, by a team of threads: as it lies in memory or as a norm makes it, four
// neighbouring inputs a thread at a time.
#pragma once

#include "assay/backend/cuda/kernels/common.cuh"

namespace assay::cuda::device {

inline constexpr int kCodingThreads = 256;

// Which word of a row of codes in order holds inputs k to k + 3, k a multiple of 4: of 64 inputs word 4 t + 2
// s
// + h holds four from 32 s + 16 h + 4 t on, which lane 4 g + t multiplies in the k32 step s (PTX ISA, "Matrix
// Fragments for mma.m16n8k32").
ASSAY_DEVICE std::int32_t word_of_codes(std::int32_t k) {
  return k / 64 * 16 + (k >> 2 & 3) * 4 + (k >> 5 & 1) * 2 + (k >> 4 & 1);
}

ASSAY_DEVICE float rounded_to_f16(float x) {
  return f16_value(f16_bits(x));
}

struct alignas(16) Floats4 {
  float x[4];
};
// Zero from n on.
ASSAY_DEVICE Floats4 quad_of(const Global<const float>& from, bool has_quads, std::int32_t k,
                             std::int32_t n) {
  if (has_quads && k + 4 <= n) return from.load<Floats4>(k / 4);
  Floats4 quad;
  ASSAY_UNROLL
  for (int j = 0; j < 4; ++j) quad.x[j] = k + j < n ? from[k + j] : 0.0F;
  return quad;
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

// The inputs of a row before they become codes.
struct RowInputs {
  Global<const float> x, gain, bias, factors;
  std::int32_t n;
  bool has_quads, is_norm;
  Moments of_row{0, 1};

  ASSAY_DEVICE RowInputs(const QuantizeArgs& a, std::int64_t row)
      : x(Global<const float>(a.x) + row * a.x_stride),
        gain(a.made.gain),
        bias(a.made.bias),
        factors(a.factors),
        n(static_cast<std::int32_t>(a.inputs)),
        has_quads(x.is_aligned(16)),
        is_norm(a.made.kind == FusedPrologue::Kind::norm) {}

  ASSAY_DEVICE Floats4 raw(std::int32_t k) const { return quad_of(x, has_quads, k, n); }
  ASSAY_DEVICE void make(Floats4& quad, std::int32_t k) const {
    if (k >= n) return;
    if (is_norm) {
      const Floats4 by = quad_of(gain, true, k, n);
      ASSAY_UNROLL
      for (int j = 0; j < 4; ++j) quad.x[j] = (quad.x[j] - of_row.mean) * of_row.scale * by.x[j];
      if (bias) {
        const Floats4 more = quad_of(bias, true, k, n);
        ASSAY_UNROLL
        for (int j = 0; j < 4; ++j) quad.x[j] += more.x[j];
      }
    }
    if (factors) {
      const Floats4 by = quad_of(factors, true, k, n);
      ASSAY_UNROLL
      for (int j = 0; j < 4; ++j) quad.x[j] *= by.x[j];
    }
    ASSAY_UNROLL
    for (int j = 0; j < 4; ++j) quad.x[j] = k + j < n ? quad.x[j] : 0.0F;
  }
};

// What becomes of a row in all threads of its team, from the row itself where no product has left them: then
// the block makes those of its rows [first, first + rows) one after another.
ASSAY_DEVICE Moments moments_of_row(const QuantizeArgs& a, std::int64_t row, std::int64_t first,
                                    std::int64_t rows, const Shared<float>& partial) {
  const FusedPrologue& made = a.made;
  if (made.moments.data) return moments_left(made.moments, row, a.inputs, made.subtracts_mean, made.epsilon);
  Moments of_row{0, 1};
  ASSAY_NO_UNROLL
  for (std::int64_t i = first; i < first + rows; ++i) {
    const Moments found = moments_of(Global<const float>(a.x) + i * a.x_stride, a.inputs, made.subtracts_mean,
                                     made.epsilon, partial);
    if (i == row) of_row = found;
  }
  return of_row;
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

// From the lowest to the highest number, zero included; of symmetric codes the largest magnitude is `high`.
struct RowRange {
  float low = 0, high = 0;
  bool has_others = false;  // NaN or infinity

  ASSAY_DEVICE void take(float a, float b) {
    low = smaller(low, a);
    high = larger(high, b);
  }
};
// The range of the team from those of its threads; `partial` has an element a warp.
ASSAY_DEVICE RowRange range_of_team(RowRange own, const RowTeam& team, const Shared<Floats4>& partial) {
  const float low = -warp_largest(-own.low), high = warp_largest(own.high);
  const bool has_others = ballot(own.has_others) != 0;
  if (thread_index() % kWarp == 0)
    partial[thread_index() / kWarp] = Floats4{{low, high, has_others ? 1.0F : 0.0F, 0}};
  barrier();
  RowRange all;
  const std::int32_t warps = team.threads / kWarp;
  for (std::int32_t i = 0; i < warps; ++i) {
    const Floats4 one = partial[team.index * warps + i];
    all.take(one.x[0], one.x[1]);
    all.has_others = all.has_others || one.x[2] != 0;
  }
  return all;
}

// What a sum of codes of a row is scaled by.
struct RowScale {
  float absmax;
  std::int32_t zero_point;
};

// Numbers of a row to codes.
class RowCoder {
 public:
  ASSAY_DEVICE explicit RowCoder(const QuantizeArgs& a)
      : marks_(Global<std::uint8_t>(a.marks)),
        kind_(a.kind),
        threshold_(a.threshold),
        is_rounded_(is_symmetric() && a.threshold > 0),
        has_outliers_(is_rounded_ && a.threshold < infinity()) {}

  ASSAY_DEVICE void measure(RowRange& range, const Floats4& quad) const {
    ASSAY_UNROLL
    for (int j = 0; j < 4; ++j) {
      const float value = is_rounded_ ? rounded_to_f16(quad.x[j]) : quad.x[j];
      range.has_others = range.has_others || !is_finite(has_outliers_ ? quad.x[j] : value);
      if (is_symmetric()) {
        if (counts(value)) range.high = larger(range.high, fabsf(value));
      } else if (kind_ == QuantizeArgs::Kind::row_ranges) {
        range.take(value, value);
      }
    }
  }
  ASSAY_DEVICE RowScale set(const QuantizeArgs& a, const RowRange& range) {
    has_others_ = range.has_others;
    RowCode code{range.high, range.high > 0 ? 127.0F / range.high : 0.0F, 0};
    if (kind_ == QuantizeArgs::Kind::fixed) code = {a.fixed_scale, 1.0F / a.fixed_scale, a.fixed_zero_point};
    if (kind_ == QuantizeArgs::Kind::tensor_range) code = code_of_tensor(range.low, range.high);
    if (kind_ == QuantizeArgs::Kind::row_ranges) code = code_of_range(range.low, range.high);
    inverse_ = code.inverse;
    zero_ = static_cast<float>(code.zero_point);
    const float absmax = is_symmetric() ? code.scale : 127.0F * code.scale;
    return {has_others_ ? not_a_number() : absmax, code.zero_point};
  }
  // Those of inputs k to k + 3 of n.
  ASSAY_DEVICE std::uint32_t codes(const Floats4& quad, std::int32_t k, std::int32_t n) const {
    std::uint32_t word = 0;
    ASSAY_UNROLL
    for (int j = 0; j < 4; ++j) {
      if (k + j >= n) continue;
      const float code = is_symmetric() ? symmetric(quad.x[j], k + j) : ranged(quad.x[j]);
      word |= (static_cast<std::uint32_t>(static_cast<std::int32_t>(code)) & 0xffU) << (8 * j);
    }
    return word;
  }

 private:
  ASSAY_DEVICE bool is_symmetric() const { return kind_ == QuantizeArgs::Kind::symmetric; }
  ASSAY_DEVICE bool counts(float value) const { return threshold_ == 0 || fabsf(value) < threshold_; }
  ASSAY_DEVICE float ranged(float x) const {
    const float value = rintf(x * inverse_) + zero_;
    return smaller(value > -128.0F ? value : -128.0F, 127.0F);
  }
  ASSAY_DEVICE float symmetric(float x, std::int32_t k) const {
    if (has_others_ || (has_outliers_ && marks_[k] != 0)) return 0;
    const float value = is_rounded_ ? rounded_to_f16(x) : x;
    if (!counts(value)) return 0;
    // For the least magnitudes of all the scale overflows.
    const float code = smaller(larger(rintf(value * inverse_), -127.0F), 127.0F);
    return code == code ? code : 0.0F;
  }

  Global<std::uint8_t> marks_;
  QuantizeArgs::Kind kind_;
  float threshold_, inverse_ = 0, zero_ = 0;
  bool is_rounded_, has_outliers_, has_others_ = false;
};

// Bytes of shared memory at `byte` that code_row() works in: ranges of 8 warps, moments.
inline constexpr std::int64_t kCodingBytes = 8 * 16 + kPartsApart * 4;

// Codes of a row by its team: put(k, word) for each four of `columns`. In all threads of a block, whose rows
// are [first, first + rows). A thread holds `Held` quads; of what does not fit they are made once more.
template <int Held, typename Put>
ASSAY_DEVICE RowScale code_row(const QuantizeArgs& a, std::int64_t row, std::int64_t first_row,
                               std::int64_t rows, const RowTeam& team, std::int32_t columns,
                               std::int64_t byte, const Put& put) {
  RowInputs in(a, row);
  const std::int32_t step = 4 * team.threads, at_once = Held * step;
  Floats4 held[Held];
  const auto fetch = [&](std::int32_t first) {
    ASSAY_UNROLL
    for (int i = 0; i < Held; ++i) held[i] = in.raw(first + i * step + 4 * team.thread);
  };
  const auto make = [&](std::int32_t first) {
    ASSAY_UNROLL
    for (int i = 0; i < Held; ++i) in.make(held[i], first + i * step + 4 * team.thread);
  };
  fetch(0);
  if (in.is_norm) in.of_row = moments_of_row(a, row, first_row, rows, shared<float>(byte + 8 * 16));
  RowCoder coder(a);
  RowRange range;
  ASSAY_NO_UNROLL
  for (std::int32_t first = 0; first < in.n; first += at_once) {
    if (first > 0) fetch(first);
    make(first);
    ASSAY_UNROLL
    for (int i = 0; i < Held; ++i) coder.measure(range, held[i]);
  }
  if (a.kind == QuantizeArgs::Kind::tensor_range) {
    const Global<float> ranges(a.ranges);
    for (std::int64_t i = thread_index(); i < a.rows; i += kCodingThreads)
      range.take(ranges[2 * i], ranges[2 * i + 1]);
  }
  const RowScale scale = coder.set(a, range_of_team(range, team, shared<Floats4>(byte)));
  ASSAY_NO_UNROLL
  for (std::int32_t first = 0; first < columns; first += at_once) {
    if (columns > at_once) {
      fetch(first);
      make(first);
    }
    ASSAY_UNROLL
    for (int i = 0; i < Held; ++i)
      if (const std::int32_t k = first + i * step + 4 * team.thread; k < columns)
        put(k, coder.codes(held[i], k, in.n));
  }
  return scale;
}

}  // namespace assay::cuda::device
