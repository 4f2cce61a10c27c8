// From the numbers of a matrix to its codes and scales: the one place where that is decided, for weights that
// are quantized as they are loaded, for folders that are written, and for every backend, which only packs
// what it gets.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "assay/quant/code_values.h"
#include "assay/quant/four_bit.h"
#include "assay/quant/precision.h"

namespace assay {

// How the codes of a matrix share the scales of its format. Rows are output features.
struct ScaleLayout {
  ScaleLayout(const WeightFormat& format, std::int64_t rows, std::int64_t columns);

  std::int64_t count = 0;  // that the whole matrix has
  // Which scale an element has.
  std::int64_t at(std::int64_t row, std::int64_t column) const;
  // Columns at whose multiples every row may change its scale: a row has one scale within each such group.
  std::int64_t group = 0;

 private:
  std::int64_t columns_, inputs_, outputs_, groups_ = 0;
  bool crosses_rows_;
};

// Rows that are quantized together come in multiples of this, so that no block of 64 is cut.
inline constexpr std::int64_t kQuantizedRows = kFourBitBlock;

// The values of 4-bit codes, before scaling.
const std::array<float, 16>& codebook_values(const WeightFormat& four_bit_format);
// What a code stands for: of 4 bits value * scale, where scales are largest magnitudes code * (scale / 127).
float dequantized(const WeightFormat& format, std::uint8_t code, float scale);

// Quantizes whole rows, the first of them a multiple of kQuantizedRows: `values` [rows][columns] to codes,
// one in a byte (int8 as two's complement), and the scales of these rows. Where the format says so they are
// rounded to float16 first, as bitsandbytes does. NaN and infinity become 0 in `values` too where they are
// allowed; returns how many they were. Throws Error, which `where` begins, where they are not.
std::int64_t quantize_rows(const WeightFormat& format, bool allows_non_finite, const std::string& where,
                           std::int64_t columns, std::span<float> values, std::uint8_t* codes, float* scales);
// What a matrix in a block type of GGUF has beside codes: scales, and offsets where the format has minima, in
// the order of ScaleLayout; of formats with super-blocks these alone.
struct BlockFactors {
  BlockFactors() = default;
  BlockFactors(const WeightFormat& format, std::int64_t rows, std::int64_t columns);

  std::vector<float> scales, offsets;
  SuperBlocks super_blocks;
};
// The same for those types that are written (quant/ggml_quantize.h): the codes, and the factors of rows from
// `first_row` on, that a GGUF file with these blocks gives. Throws Error too for numbers that are too large
// for float16.
std::int64_t quantize_rows_to_blocks(const WeightFormat& format, bool allows_non_finite,
                                     const std::string& where, std::int64_t columns, std::int64_t first_row,
                                     std::span<float> values, std::uint8_t* codes, BlockFactors& factors);
// The scales that quantize_rows() would find, of a 4-bit format in blocks of 64.
void find_block_scales(bool allows_non_finite, const std::string& where, std::span<float> values,
                       float* scales);

}  // namespace assay
