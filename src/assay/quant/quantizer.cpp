#include "assay/quant/quantizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "assay/base/error.h"
#include "assay/quant/int4.h"
#include "assay/quant/int8.h"
#include "assay/tensor/half.h"

namespace assay {

namespace {

constexpr bool is_int4(WeightFormat format) {
  return format == WeightFormat::int4_g128;
}

FourBit table_of(WeightFormat format) {
  return format == WeightFormat::nf4 || format == WeightFormat::nf4_dq ? FourBit::nf4 : FourBit::fp4;
}

constexpr std::int64_t groups_of(std::int64_t columns) {
  return (columns + kInt4Group - 1) / kInt4Group;
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

ScaleLayout::ScaleLayout(WeightFormat format, std::int64_t rows, std::int64_t columns)
    : format_(format), columns_(columns) {
  if (is_int8(format)) {
    count = rows;
    group = columns;
  } else if (is_int4(format)) {
    count = rows * groups_of(columns);
    group = kInt4Group;
  } else {
    count = (rows * columns + kFourBitBlock - 1) / kFourBitBlock;
    group = std::gcd(columns, kFourBitBlock);
  }
}

std::int64_t ScaleLayout::at(std::int64_t row, std::int64_t column) const {
  if (is_int8(format_)) return row;
  if (is_int4(format_)) return row * groups_of(columns_) + column / kInt4Group;
  return (row * columns_ + column) / kFourBitBlock;
}

bool has_nested_scales(WeightFormat format) {
  return format == WeightFormat::nf4_dq || format == WeightFormat::fp4_dq;
}

const std::array<float, 16>& code_values(WeightFormat format) {
  return is_int4(format) ? int4_book() : code_book(table_of(format));
}

float dequantized(WeightFormat format, std::uint8_t code, float scale) {
  if (is_int8(format)) return static_cast<float>(static_cast<std::int8_t>(code)) * (scale / 127);
  return code_values(format)[code] * scale;
}

std::int64_t quantize_rows(WeightFormat format, bool allows_non_finite, const std::string& where,
                           std::int64_t columns, std::span<float> values, std::uint8_t* codes,
                           float* scales) {
  if (format == WeightFormat::llm_int8)
    std::transform(values.begin(), values.end(), values.begin(),
                   [](float x) { return f16_to_float(float_to_f16(x)); });
  const std::int64_t replaced = checked_finite(allows_non_finite, where, values);
  if (!is_int8(format) && !is_int4(format)) {
    quantize_four_bit(table_of(format), values, kFourBitBlock, codes, scales);
    return replaced;
  }
  const auto width = static_cast<std::size_t>(columns);
  const ScaleLayout layout(format, 0, columns);
  for (std::size_t first = 0, row = 0; first < values.size(); first += width, ++row) {
    float* scale = scales + layout.at(static_cast<std::int64_t>(row), 0);
    if (is_int8(format))
      *scale = quantize_int8(values.subspan(first, width), reinterpret_cast<std::int8_t*>(codes + first));
    else
      quantize_int4(values.subspan(first, width), kInt4Group, codes + first, scale);
  }
  return replaced;
}

void find_block_scales(bool allows_non_finite, const std::string& where, std::span<float> values,
                       float* scales) {
  checked_finite(allows_non_finite, where, values);
  four_bit_scales(values, kFourBitBlock, scales);
}

}  // namespace assay
