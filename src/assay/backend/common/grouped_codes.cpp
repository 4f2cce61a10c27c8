#include "assay/backend/common/grouped_codes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "assay/tensor/half.h"

namespace assay {

namespace {

// Calls take(index of the run in the tensor, output in its panel, the run's bytes) for every run of a tensor.
template <typename Take>
void for_scale_runs(const GroupedPlace& place, const TensorPart& tensor, const Take& take) {
  const std::int64_t runs = (place.columns + place.run.inputs - 1) / place.run.inputs;
  for (std::int64_t row = 0; row < tensor.spec.rows; ++row) {
    const std::int64_t output = tensor.first_output + tensor.spec.output_of(row);
    std::byte* panel = place.scales + output / kGroupedOutputs * place.run.panel_bytes(place.columns);
    for (std::int64_t i = 0; i < runs; ++i)
      take(row * runs + i, output % kGroupedOutputs, panel + i * place.run.bytes());
  }
}

[[noreturn]] void throw_not_held(const WeightSpec& spec) {
  throw std::logic_error("a scale of " + spec.name + " is none of " + name_of(spec.format));
}

std::byte exponent_of(const WeightSpec& spec, float scale) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(scale);
  if (std::isnan(scale)) return std::byte{255};
  if (scale == 0x1p-127F) return std::byte{0};
  if (bits == 0 || (bits & 0x7fffffU) != 0 || bits > 254U << 23) throw_not_held(spec);
  return static_cast<std::byte>(bits >> 23);
}

std::uint16_t half_of(const WeightSpec& spec, float factor) {
  const std::uint16_t half = float_to_f16(factor);
  if (f16_to_float(half) != factor && !std::isnan(factor)) throw_not_held(spec);
  return half;
}

}  // namespace

ScaleRun scale_run_of(const WeightFormat& format) {
  const bool has_minima = format.offset == Offset::minimum;
  if (format.inputs_per_super_block > 0) {
    const auto inputs = static_cast<std::int32_t>(format.inputs_per_super_block);
    return run_of_super_block(format.bits, inputs,
                              inputs / static_cast<std::int32_t>(format.inputs_per_scale),
                              format.scale == ScaleType::bits4   ? 4
                              : format.scale == ScaleType::bits6 ? 6
                                                                 : 8,
                              has_minima);
  }
  ScaleRun run;
  run.code_bits = format.bits;
  run.has_minima = has_minima;
  run.is_e8m0 = format.scale == ScaleType::e8m0;
  run.inputs = static_cast<std::int32_t>(format.inputs_per_scale);
  run.bits = run.is_e8m0 ? 8 : 16;
  if (has_minima) run.minimum_factor_at = run.bits;
  if (has_minima) run.bits += 16;
  return run;
}

void GroupedPlace::put_codes(std::int64_t output, const std::uint8_t* all) const {
  const CodePlanes planes = planes_of_code(bits);
  std::byte* at = codes + output / kGroupedOutputs * grouped_code_bytes(bits, columns);
  for (std::int64_t first = 0; first < columns; first += kSpan) {
    const std::int64_t count = std::min(kSpan, columns - first);
    const auto put = [&](int width, int shift) {
      for (std::int64_t k = 0; k < count; ++k) {
        const int part = all[first + k] >> shift & ((1 << width) - 1), up = plane_shift(width, k);
        at[plane_word(width, k, output % kGroupedOutputs) + up / 8] |= static_cast<std::byte>(part << up % 8);
      }
      at += kGroupedOutputs * 4 * width;
    };
    put(planes.low, 0);
    if (planes.high > 0) put(planes.high, planes.low);
  }
}

void GroupedPlace::put_factors(const TensorPart& tensor, std::span<const float> factors,
                               bool are_minima) const {
  for_scale_runs(*this, tensor, [&](std::int64_t i, std::int64_t output, std::byte* at) {
    const float factor = factors[static_cast<std::size_t>(i)];
    if (run.is_e8m0) {
      at[output] = exponent_of(tensor.spec, factor);
      return;
    }
    const std::uint16_t half = half_of(tensor.spec, factor);
    std::memcpy(at + run.byte_of(are_minima ? run.minimum_factor_at : run.factor_at, output), &half, 2);
  });
}

void GroupedPlace::put_super_blocks(const TensorPart& tensor, const SuperBlocks& blocks) const {
  const int flip = run.number_bits == 8 ? 128 : 0;  // two's complement to numbers from 0 on
  for_scale_runs(*this, tensor, [&](std::int64_t i, std::int64_t output, std::byte* at) {
    const auto put_bits = [&](std::int32_t bit, int value) {
      at[run.byte_of(bit, output)] |= static_cast<std::byte>(value << bit % 8);
    };
    const auto put = [&](const std::vector<std::uint8_t>& numbers, std::int32_t low_at,
                         std::int32_t high_at) {
      for (std::int32_t group = 0; group < run.groups; ++group) {
        const int number = numbers[static_cast<std::size_t>(i * run.groups + group)] ^ flip;
        put_bits(low_at + group * run.low_bits(), number & ((1 << run.low_bits()) - 1));
        if (run.number_bits == 6) put_bits(high_at + group * 2, number >> 4 & 3);
      }
    };
    const auto put_factor = [&](const std::vector<std::uint16_t>& factors, std::int32_t bit) {
      std::memcpy(at + run.byte_of(bit, output), &factors[static_cast<std::size_t>(i)], 2);
    };
    put(blocks.scales, 0, run.highs_at);
    put_factor(blocks.scale_factors, run.factor_at);
    if (!run.has_minima) return;
    put(blocks.minima, run.minima_at, run.minimum_highs_at);
    put_factor(blocks.minimum_factors, run.minimum_factor_at);
  });
}

}  // namespace assay
