// Rows of activations to int8 codes.
#pragma once

#include "assay/backend/cuda/kernels/row_codes.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

inline constexpr int kQuantizeThreads = kCodingThreads;

// Inputs of a row of a QuantizeArgs as they become codes: one by one.
struct InputsOfRow {
  Global<const float> x, factors, gain, bias;
  bool is_norm;
  Moments of_row{0, 1};

  ASSAY_DEVICE InputsOfRow(const QuantizeArgs& a, std::int64_t row)
      : x(Global<const float>(a.x) + row * a.x_stride),
        factors(a.factors),
        gain(a.made.gain),
        bias(a.made.bias),
        is_norm(a.made.kind == FusedPrologue::Kind::norm) {}
  ASSAY_DEVICE float operator[](std::int64_t i) const {
    const float value = is_norm ? normed(x[i], of_row, gain, bias, i) : x[i];
    return factors ? value * factors[i] : value;
  }
};

// A thread per feature, which looks at all rows.
ASSAY_KERNEL_OF(kQuantizeThreads) mark_outliers(QuantizeArgs a) {
  wait_for_previous();
  const std::int64_t k = std::int64_t{block_x()} * kQuantizeThreads + thread_index();
  if (k >= a.inputs) return;
  bool is_outlier = false;
  for (std::int64_t row = 0; row < a.rows; ++row)
    is_outlier =
        is_outlier || fabsf(rounded_to_f16(Global<const float>(a.x)[row * a.x_stride + k])) >= a.threshold;
  Global<std::uint8_t>(a.marks)[k] = is_outlier ? 1 : 0;
}

// One block: features that are marked, in order.
ASSAY_KERNEL_OF(kQuantizeThreads) list_outliers(QuantizeArgs a) {
  wait_for_previous();
  constexpr int kWarps = kQuantizeThreads / kWarp;
  const Shared<std::int32_t> counts = shared<std::int32_t>(0);
  const int warp = thread_index() / kWarp, lane = thread_index() % kWarp;
  std::int32_t listed = 0;
  for (std::int64_t first = 0; first < a.inputs; first += kQuantizeThreads) {
    const std::int64_t k = first + thread_index();
    const bool is_marked = k < a.inputs && Global<std::uint8_t>(a.marks)[k] != 0;
    const std::uint32_t votes = ballot(is_marked);
    const auto bits_below = [](std::uint32_t bits) {
      std::int32_t count = 0;
      for (; bits != 0; bits &= bits - 1) ++count;
      return count;
    };
    if (lane == 0) counts[warp] = bits_below(votes);
    barrier();
    std::int32_t at = listed;
    for (int i = 0; i < kWarps; ++i) {
      const std::int32_t count = counts[i];
      if (i < warp) at += count;
      listed += count;
    }
    if (is_marked)
      Global<std::int32_t>(a.outliers)[at + bits_below(votes & ((1U << lane) - 1U))] =
          static_cast<std::int32_t>(k);
    barrier();
  }
  if (thread_index() != 0) return;
  Global<std::int32_t>(a.outlier_count)[0] = listed;
  if (!a.seen) return;
  const Global<std::int64_t> seen(a.seen);
  seen[0] += listed;
  seen[1] += a.inputs;
}

// A block per row: its lowest and highest number, zero included.
ASSAY_KERNEL_OF(kQuantizeThreads) row_ranges(QuantizeArgs a) {
  wait_for_previous();
  const Shared<float> partial = shared<float>(0);
  const InputsOfRow x(a, block_x());
  float low = 0, high = 0;
  for (std::int64_t i = thread_index(); i < a.inputs; i += kQuantizeThreads) {
    const float value = x[i];
    if (!is_finite(value)) continue;
    low = smaller(low, value);
    high = larger(high, value);
  }
  low = -block_largest(-low, partial);
  high = block_largest(high, partial);
  if (thread_index() != 0) return;
  const Global<float> ranges(a.ranges);
  ranges[2 * block_x()] = low;
  ranges[2 * block_x() + 1] = high;
}

ASSAY_DEVICE RowCode code_of_row(const QuantizeArgs& a, const InputsOfRow& x, const Shared<float>& partial) {
  if (a.kind == QuantizeArgs::Kind::fixed) return {a.fixed_scale, 1.0F / a.fixed_scale, a.fixed_zero_point};
  float low = 0, high = 0;
  if (a.kind == QuantizeArgs::Kind::tensor_range) {
    const Global<float> ranges(a.ranges);
    for (std::int64_t i = thread_index(); i < a.rows; i += kQuantizeThreads) {
      low = smaller(low, ranges[2 * i]);
      high = larger(high, ranges[2 * i + 1]);
    }
  } else {
    for (std::int64_t i = thread_index(); i < a.inputs; i += kQuantizeThreads) {
      const float value = x[i];
      low = smaller(low, value);
      high = larger(high, value);
    }
  }
  low = -block_largest(-low, partial);
  high = block_largest(high, partial);
  return a.kind == QuantizeArgs::Kind::tensor_range ? code_of_tensor(low, high) : code_of_range(low, high);
}

// Code i of a row, which may lie in order.
ASSAY_DEVICE std::int64_t place_of_code(const QuantizeArgs& a, std::int64_t i) {
  return a.is_ordered ? std::int64_t{word_of_codes(static_cast<std::int32_t>(i))} * 4 + i % 4 : i;
}

ASSAY_DEVICE void quantize_range(const QuantizeArgs& a, const InputsOfRow& x, std::int64_t row,
                                 const Shared<float>& partial) {
  const RowCode code = code_of_row(a, x, partial);
  const Global<std::int8_t> codes = Global<std::int8_t>(a.codes) + row * a.codes_stride;
  bool has_others = false;
  for (std::int64_t i = thread_index(); i < a.codes_stride; i += kQuantizeThreads) {
    float value = 0;
    if (i < a.inputs) {
      has_others = has_others || !is_finite(x[i]);
      value = rintf(x[i] * code.inverse) + static_cast<float>(code.zero_point);
      value = smaller(value > -128.0F ? value : -128.0F, 127.0F);
    }
    codes[place_of_code(a, i)] = static_cast<std::int8_t>(value);
  }
  has_others = block_any(has_others, partial);
  if (thread_index() != 0) return;
  Global<float>(a.absmax)[row] = has_others ? not_a_number() : 127.0F * code.scale;
  if (a.zero_points) Global<std::int32_t>(a.zero_points)[row] = code.zero_point;
}

ASSAY_DEVICE void quantize_symmetric(const QuantizeArgs& a, const InputsOfRow& x, std::int64_t row,
                                     const Shared<float>& partial) {
  const bool is_rounded = a.threshold > 0, has_outliers = is_rounded && a.threshold < infinity();
  const Global<std::uint8_t> marks(a.marks);
  const auto counts = [&](float value) { return a.threshold == 0 || fabsf(value) < a.threshold; };
  float largest = 0;
  bool has_others = false;
  for (std::int64_t i = thread_index(); i < a.inputs; i += kQuantizeThreads) {
    const float value = is_rounded ? rounded_to_f16(x[i]) : x[i];
    if (counts(value)) largest = larger(largest, fabsf(value));
    has_others = has_others || !is_finite(is_rounded && !has_outliers ? value : x[i]);
  }
  largest = block_largest(largest, partial);
  has_others = block_any(has_others, partial);
  const float scale = largest > 0 ? 127.0F / largest : 0.0F;
  const Global<std::int8_t> codes = Global<std::int8_t>(a.codes) + row * a.codes_stride;
  for (std::int64_t i = thread_index(); i < a.codes_stride; i += kQuantizeThreads) {
    float code = 0;
    if (i < a.inputs && !has_others && !(has_outliers && marks[i] != 0)) {
      const float value = is_rounded ? rounded_to_f16(x[i]) : x[i];
      // For the least magnitudes of all the scale overflows.
      if (counts(value)) code = smaller(larger(rintf(value * scale), -127.0F), 127.0F);
    }
    codes[place_of_code(a, i)] = static_cast<std::int8_t>(code == code ? code : 0.0F);
  }
  if (thread_index() == 0) Global<float>(a.absmax)[row] = has_others ? not_a_number() : largest;
}

// Whole quads of rows that have codes of their own.
ASSAY_DEVICE bool has_quads(const QuantizeArgs& a) {
  return Global<const float>(a.x).is_aligned(16) && a.x_stride % 4 == 0 && a.inputs % 4 == 0 &&
         a.kind != QuantizeArgs::Kind::tensor_range && !a.marks;
}

// A block per row.
ASSAY_KERNEL_OF(kQuantizeThreads) quantize_rows(QuantizeArgs a) {
  const FusedPrologue& made = a.made;
  prefetch_vector(Global<const float>(made.gain), a.inputs);
  prefetch_vector(Global<const float>(made.bias), a.inputs);
  prefetch_vector(Global<const float>(a.factors), a.inputs);
  wait_for_previous();
  const std::int64_t row = block_x();
  InputsOfRow in(a, row);
  if (in.is_norm)
    in.of_row = made.moments.data
                    ? moments_of_team(a, row, RowTeam::of(1), true, shared<Floats2>(kPartsAt))
                    : moments_of(in.x, a.inputs, made.subtracts_mean, made.epsilon, shared<float>(kPartsAt));
  if (!has_quads(a))
    return a.kind == QuantizeArgs::Kind::symmetric ? quantize_symmetric(a, in, row, shared<float>(0))
                                                   : quantize_range(a, in, row, shared<float>(0));
  const Global<std::uint32_t> out =
      Global<std::int8_t>(a.codes).as<std::uint32_t>() + row * (a.codes_stride / 4);
  const RowScale scale = code_row<4, true>(
      a, row, RowTeam::of(1), static_cast<std::int32_t>(a.codes_stride), shared<Floats4>(0),
      [&] { return in.of_row; },
      [&](std::int32_t k, std::uint32_t word) { out[a.is_ordered ? word_of_codes(k) : k / 4] = word; });
  if (thread_index() != 0) return;
  Global<float>(a.absmax)[row] = scale.absmax;
  if (a.zero_points && a.kind != QuantizeArgs::Kind::symmetric)
    Global<std::int32_t>(a.zero_points)[row] = scale.zero_point;
}

// A block per row, a warp per group.
ASSAY_KERNEL_OF(kQuantizeThreads) quantize_groups(QuantizeGroupsArgs a) {
  wait_for_previous();
  const std::int64_t row = block_x(), groups = groups_of_strip(a.inputs, a.group);
  const Shared<float> partial = shared<float>(0);
  const Global<const float> x = Global<const float>(a.x) + row * a.x_stride;
  const Global<std::int8_t> codes = Global<std::int8_t>(a.codes) + row * a.codes_stride;
  bool has_others = false;
  for (std::int64_t i = thread_index(); i < a.inputs; i += kQuantizeThreads)
    has_others = has_others || !is_finite(x[i]);
  has_others = block_any(has_others, partial);
  const int lane = thread_index() % kWarp;
  for (std::int64_t group = thread_index() / kWarp; group < groups; group += kQuantizeThreads / kWarp) {
    const std::int64_t first = group * a.group, end = least(first + a.group, a.codes_stride);
    float largest = 0;
    for (std::int64_t i = first + lane; i < least(end, a.inputs); i += kWarp)
      largest = larger(largest, fabsf(x[i]));
    largest = warp_largest(largest);
    const float scale = largest > 0 ? 127.0F / largest : 0.0F;
    for (std::int64_t i = first + lane; i < end; i += kWarp) {
      float code = i < a.inputs && !has_others ? rintf(x[i] * scale) : 0.0F;
      code = smaller(larger(code, -127.0F), 127.0F);
      codes[i] = static_cast<std::int8_t>(code == code ? code : 0.0F);
    }
    if (lane == 0)
      Global<float>(a.scales)[row * groups + group] =
          has_others ? not_a_number() : largest * (1.0F / 127.0F) * a.unit;
  }
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
