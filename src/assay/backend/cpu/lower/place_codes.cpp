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

}  // namespace assay::cpu
