#include "assay/quant/quantizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "assay/base/error.h"
#include "assay/quant/ggml_quantize.h"
#include "assay/quant/int4.h"
#include "assay/quant/int8.h"
#include "assay/quant/magnitude.h"
#include "assay/tensor/half.h"

namespace assay {

namespace {

FourBit table_of(const WeightFormat& format) {
  return format.element == ElementType::nf4 ? FourBit::nf4 : FourBit::fp4;
}

constexpr std::int64_t groups_in(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

bool are_finite(std::span<const float> values) {
  std::uint32_t broken = 0;  // integers: compilers make vectors of them
  for (const float value : values)
    broken |= (std::bit_cast<std::uint32_t>(value) & 0x7f800000U) == 0x7f800000U ? 1U : 0U;
  return broken == 0;
}

std::int64_t make_finite(std::span<float> values) {
  std::int64_t replaced = 0;
  for (float& value : values)
    if (!std::isfinite(value)) {
      value = 0;
      ++replaced;
    }
  return replaced;
}

// How many were not, and are 0 now.
std::int64_t checked_finite(bool allows_non_finite, const std::string& where, std::span<float> values) {
  if (are_finite(values)) return 0;
  if (!allows_non_finite)
    throw Error("{}: expected finite numbers to quantize, found NaN or infinity", where);
  return make_finite(values);
}

}  // namespace

ScaleLayout::ScaleLayout(const WeightFormat& format, std::int64_t rows, std::int64_t columns)
    : columns_(columns),
      inputs_(format.inputs_per_scale == 0 ? columns : format.inputs_per_scale),
      outputs_(format.outputs_per_scale == 0 ? rows : format.outputs_per_scale),
      crosses_rows_(format.groups_cross_outputs) {
  if (crosses_rows_) {
    count = groups_in(rows * columns, inputs_);
    group = std::gcd(columns, inputs_);
  } else {
    groups_ = groups_in(columns, inputs_);
    count = groups_in(rows, outputs_) * groups_;
    group = inputs_;
  }
}

std::int64_t ScaleLayout::at(std::int64_t row, std::int64_t column) const {
  if (crosses_rows_) return (row * columns_ + column) / inputs_;
  return row / outputs_ * groups_ + column / inputs_;
}

const std::array<float, 16>& codebook_values(const WeightFormat& format) {
  if (format.element != ElementType::integer) return codebook_of(table_of(format));
  return format.offset == Offset::none ? int4_codebook() : int4_codes();
}

float dequantized(const WeightFormat& format, std::uint8_t code, float scale) {
  if (format.has_absmax_scales) return static_cast<float>(static_cast<std::int8_t>(code)) * (scale / 127);
  return codebook_values(format)[code] * scale;
}

std::int64_t quantize_rows(const WeightFormat& format, bool allows_non_finite, const std::string& where,
                           std::int64_t columns, std::span<float> values, std::uint8_t* codes,
                           float* scales) {
  if (format.rounds_to_float16)
    std::transform(values.begin(), values.end(), values.begin(),
                   [](float x) { return f16_to_float(float_to_f16(x)); });
  const std::int64_t replaced = checked_finite(allows_non_finite, where, values);
  if (format.element != ElementType::integer) {
    quantize_four_bit(table_of(format), values, format.inputs_per_scale, codes, scales);
    return replaced;
  }
  const auto width = static_cast<std::size_t>(columns);
  const ScaleLayout layout(format, 0, columns);
  for (std::size_t first = 0, row = 0; first < values.size(); first += width, ++row) {
    float* scale = scales + layout.at(static_cast<std::int64_t>(row), 0);
    if (is_int8(format))
      *scale = quantize_int8(values.subspan(first, width), reinterpret_cast<std::int8_t*>(codes + first));
    else
      quantize_int4(values.subspan(first, width), format.inputs_per_scale, codes + first, scale);
  }
  return replaced;
}

BlockFactors::BlockFactors(const WeightFormat& format, std::int64_t rows, std::int64_t columns) {
  const bool has_minima = format.offset == Offset::minimum;
  const auto groups = static_cast<std::size_t>(ScaleLayout(format, rows, columns).count);
  if (format.inputs_per_super_block == 0) {
    scales.resize(groups);
    offsets.resize(has_minima ? groups : 0);
    return;
  }
  const auto blocks = static_cast<std::size_t>(rows * (columns / format.inputs_per_super_block));
  super_blocks.scales.resize(groups);
  super_blocks.scale_factors.resize(blocks);
  super_blocks.minima.resize(has_minima ? groups : 0);
  super_blocks.minimum_factors.resize(has_minima ? blocks : 0);
}

std::int64_t quantize_rows_to_blocks(const WeightFormat& format, bool allows_non_finite,
                                     const std::string& where, std::int64_t columns, std::int64_t first_row,
                                     std::span<float> values, std::uint8_t* codes, BlockFactors& factors) {
  const ggml::BlockType& type = *ggml::written_type(format);
  const std::int64_t replaced = checked_finite(allows_non_finite, where, values);
  if (const float largest = largest_magnitude(values); largest > ggml::kLargestQuantized)
    throw Error("{}: expected numbers up to {}, which {} holds, found {}", where, ggml::kLargestQuantized,
                recipe_name_of(format), largest);
  const auto elements = static_cast<std::size_t>(type.elements);
  std::vector<std::byte> blocks(values.size() / elements * static_cast<std::size_t>(type.bytes));
  ggml::quantize(type, columns, values, {}, blocks.data());
  ggml::read_codes(type, blocks, codes);
  const std::int64_t group = first_row * (columns / format.inputs_per_scale);
  const auto at = [](auto& numbers, std::int64_t first) {
    return numbers.empty() ? nullptr : numbers.data() + first;
  };
  if (format.inputs_per_super_block == 0) {
    ggml::read_scales(type, blocks, at(factors.scales, group), at(factors.offsets, group));
    return replaced;
  }
  SuperBlocks& super = factors.super_blocks;
  const std::int64_t block = first_row * (columns / format.inputs_per_super_block);
  ggml::read_super_blocks(type, blocks,
                          {at(super.scales, group), at(super.minima, group), at(super.scale_factors, block),
                           at(super.minimum_factors, block)});
  return replaced;
}

void find_block_scales(bool allows_non_finite, const std::string& where, std::span<float> values,
                       float* scales) {
  checked_finite(allows_non_finite, where, values);
  four_bit_scales(values, kFourBitBlock, scales);
}

}  // namespace assay
