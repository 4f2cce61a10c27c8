#include "assay/backend/cpu/lower/place_codes.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "assay/quant/quantizer.h"
#include "assay/tensor/half.h"

namespace assay::cpu {

namespace {

// Where the codes of an output's panel begin.
std::uint8_t* codes_of(PackedWeight& w, std::int64_t output) {
  return reinterpret_cast<std::uint8_t*>(w.data.data()) + output / kPanel * w.panel_bytes();
}

// Calls take(group, codes) for each `size` codes of a row of n; those of the last are followed by zeros.
template <std::int64_t size, typename Code, typename Take>
void for_groups(const Code* codes, std::int64_t n, const Take& take) {
  const std::int64_t whole = n / size;
  for (std::int64_t i = 0; i < whole; ++i) take(i, codes + i * size);
  if (whole * size == n) return;
  Code last[size] = {};
  std::copy(codes + whole * size, codes + n, last);
  take(whole, last);
}

}  // namespace

void place_int8(PackedWeight& w, std::int64_t output, const std::int8_t* codes, float absmax) {
  std::uint8_t* panel = codes_of(w, output) + output % kPanel * 4;
  const std::int64_t columns = w.spec.columns;  // read once: bytes may alias anything
  for_groups<4>(codes, columns, [panel](std::int64_t i, const std::int8_t* four) {
    std::memcpy(panel + i * 4 * kPanel, four, 4);
  });
  const_cast<float*>(w.scales())[output] = absmax;
  const_cast<std::int32_t*>(w.sums())[output] = std::accumulate(codes, codes + columns, std::int32_t{0});
}

// For eight codes, the last four go beside the first four, 4 bits up.
void place_four_bit(PackedWeight& w, std::int64_t output, const std::uint8_t* codes) {
  static_assert(code_offset(4, 0) == 0 && code_shift(4) == 4 && code_offset(0, 1) == 4);
  std::uint8_t* panel = codes_of(w, output) + code_offset(0, output % kPanel);
  for_groups<kCodeInputs>(codes, w.spec.columns, [panel](std::int64_t i, const std::uint8_t* eight) {
    std::uint32_t low = 0, high = 0;
    std::memcpy(&low, eight, 4);
    std::memcpy(&high, eight + 4, 4);
    low |= high << 4;
    std::memcpy(panel + code_offset(i * kCodeInputs, 0), &low, 4);
  });
}

// For each word of each plane of a span its inputs' bits.
void place_grouped(PackedWeight& w, std::int64_t output, const std::uint8_t* codes) {
  const CodePlanes planes = planes_of_code(w.spec.format.bits);
  std::uint8_t* panel = codes_of(w, output);
  for_groups<kSpan>(codes, w.spec.columns, [&](std::int64_t i, const std::uint8_t* span) {
    std::uint8_t* at = panel + i * kPanel * 4 * w.spec.format.bits;
    const auto place = [&](int width, int shift) {
      for (std::int64_t k = 0; k < kSpan; ++k) {
        const int part = span[k] >> shift & ((1 << width) - 1);
        std::uint8_t& byte = at[plane_offset(width, k, output % kPanel)];
        byte = static_cast<std::uint8_t>(byte | part << plane_shift(width, k));
      }
      at += kPanel * 4 * width;
    };
    place(planes.low, 0);
    if (planes.high > 0) place(planes.high, planes.low);
  });
}

// The scales of all blocks of a tensor, laid out for the panels.
void place_block_scales(PackedWeight& w, const TensorPart& tensor, std::span<const float> scales) {
  const WeightSpec& spec = tensor.spec;
  const std::int64_t groups = (w.k_padded() + w.group - 1) / w.group;
  const ScaleLayout layout(spec.format, spec.rows, spec.columns);
  auto* floats = const_cast<float*>(w.scales());
  auto* halves = reinterpret_cast<std::uint16_t*>(floats);
  for (std::int64_t row = 0; row < spec.rows; ++row) {
    const std::int64_t output = tensor.first_output + spec.output_of(row);
    for (std::int64_t k = 0; k < spec.columns; k += w.group) {
      const std::int64_t at = (output / kPanel * groups + k / w.group) * kPanel + output % kPanel;
      const float scale = scales[static_cast<std::size_t>(layout.at(row, k))];
      if (!w.has_bfloat16_scales()) {
        floats[at] = scale;
        continue;
      }
      halves[at] = float_to_bf16(scale);
      if (bf16_to_float(halves[at]) != scale)
        throw std::logic_error("the scale of " + spec.name + " is no bfloat16");
    }
  }
}

// The same of zero points or minima.
void place_offsets(PackedWeight& w, const TensorPart& tensor, std::span<const float> offsets) {
  const WeightSpec& spec = tensor.spec;
  const ScaleLayout layout(spec.format, spec.rows, spec.columns);
  auto* out = const_cast<float*>(w.offsets());
  for (std::int64_t row = 0; row < spec.rows; ++row) {
    const std::int64_t output = tensor.first_output + spec.output_of(row);
    for (std::int64_t k = 0; k < spec.columns; k += w.group)
      out[(output / kPanel * w.groups() + k / w.group) * kPanel + output % kPanel] =
          offsets[static_cast<std::size_t>(layout.at(row, k))];
  }
}

namespace {

// Calls take(row, output, run, its index among the runs of the row, its bytes) for every run of a tensor.
template <typename Take>
void for_scale_runs(PackedWeight& w, const TensorPart& tensor, const Take& take) {
  const GroupedCodes grouped = w.grouped();
  const std::int64_t runs = (tensor.spec.columns + grouped.run.inputs - 1) / grouped.run.inputs;
  auto* scales = w.data.data() + w.scales_at;
  for (std::int64_t row = 0; row < tensor.spec.rows; ++row) {
    const std::int64_t output = tensor.first_output + tensor.spec.output_of(row);
    std::byte* panel = scales + output / kPanel * grouped.scale_bytes();
    for (std::int64_t i = 0; i < runs; ++i)
      take(grouped.run, row * runs + i, output % kPanel, panel + i * grouped.run.bytes());
  }
}

// Bits that lie in one byte, and whole float16 numbers.
void put_bits(const ScaleRun& run, std::byte* at, std::int64_t lane, std::int32_t bit, int value) {
  at[run_offset(run, bit, lane)] |= static_cast<std::byte>(value << bit % 8);
}
void put_half(const ScaleRun& run, std::byte* at, std::int64_t lane, std::int32_t bit, std::uint16_t half) {
  std::memcpy(at + run_offset(run, bit, lane), &half, 2);
}

[[noreturn]] void throw_not_held(const WeightSpec& spec) {
  throw std::logic_error("a scale of " + spec.name + " is no " + name_of(spec.format));
}

}  // namespace

void place_factors(PackedWeight& w, const TensorPart& tensor, std::span<const float> factors,
                   bool are_minima) {
  for_scale_runs(w, tensor, [&](const ScaleRun& run, std::int64_t i, std::int64_t lane, std::byte* at) {
    const float factor = factors[static_cast<std::size_t>(i)];
    if (run.is_e8m0) {
      const auto bits = std::bit_cast<std::uint32_t>(factor);
      const std::uint32_t exponent = factor != factor ? 255 : bits >> 23;
      at[lane] = static_cast<std::byte>(exponent);
      if (factor == factor && e8m0_to_float(exponent) != factor) throw_not_held(tensor.spec);
      return;
    }
    const std::uint16_t half = float_to_f16(factor);
    put_half(run, at, lane, are_minima ? run.minimum_factor_at : run.factor_at, half);
    if (factor == factor && f16_to_float(half) != factor) throw_not_held(tensor.spec);
  });
}

void place_super_blocks(PackedWeight& w, const TensorPart& tensor, const SuperBlocks& blocks) {
  const int flip = tensor.spec.format.scale == ScaleType::int8 ? 128 : 0;  // two's complement from 0 on
  for_scale_runs(w, tensor, [&](const ScaleRun& run, std::int64_t i, std::int64_t lane, std::byte* at) {
    const auto put = [&](const std::vector<std::uint8_t>& numbers, std::int32_t low_at,
                         std::int32_t high_at) {
      for (std::int32_t group = 0; group < run.groups; ++group) {
        const int number = numbers[static_cast<std::size_t>(i * run.groups + group)] ^ flip;
        put_bits(run, at, lane, low_at + group * run.low_bits(), number & ((1 << run.low_bits()) - 1));
        if (run.number_bits == 6) put_bits(run, at, lane, high_at + group * 2, number >> 4 & 3);
      }
    };
    put(blocks.scales, 0, run.highs_at);
    put_half(run, at, lane, run.factor_at, blocks.scale_factors[static_cast<std::size_t>(i)]);
    if (!run.has_minima) return;
    put(blocks.minima, run.minima_at, run.minimum_highs_at);
    put_half(run, at, lane, run.minimum_factor_at, blocks.minimum_factors[static_cast<std::size_t>(i)]);
  });
}

}  // namespace assay::cpu
