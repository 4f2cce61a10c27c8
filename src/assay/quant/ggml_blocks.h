// The tensor types of GGUF: how a block of ggml holds codes and scales, and which format of ours that is. The
// layouts are those of ggml-common.h, the values bit for bit those of llama.cpp's dequantize_row_*.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "assay/quant/format.h"

namespace assay::ggml {

struct BlockType {
  std::uint32_t id;       // in GGUF's table of tensors
  std::string_view name;  // ggml's: "Q4_K"
  std::int64_t elements;  // in a block; a row is a whole number of blocks
  std::int64_t bytes;     // that a block takes
  // Unset for plain numbers (F32, F16, BF16), of one element a block, and for what is refused.
  std::optional<WeightFormat> format;
  std::string_view refused_because;  // what a type that cannot be read would need; else empty
};

// Null for an unknown id, or one that ggml removed.
const BlockType* block_type(std::uint32_t id);

// All functions below read whole blocks, and none of a refused type. Those of codes and scales take types
// with a format; the value of an element is, in float32,
//   code_values(format)[code] * scale of its group + offset of its group (quant/code_values.h).
//
// One code for each element, in the order of the elements.
void read_codes(const BlockType& type, std::span<const std::byte> blocks, std::uint8_t* codes);
// One scale for each group of format->inputs_per_scale elements, and as many offsets where the format has
// them; else `offsets` is not written and may be null. Scales of a super-block are multiplied by its own. An
// e8m0 scale of 255 is NaN, as the Microscaling specification has it, where llama.cpp makes it 2^128.
void read_scales(const BlockType& type, std::span<const std::byte> blocks, float* scales, float* offsets);
// The value of every element, of types without a format too.
void dequantize(const BlockType& type, std::span<const std::byte> blocks, float* out);

// What read_scales multiplies, of formats with super-blocks: the whole numbers of each group as the file has
// them (bits6 and bits4 from 0, int8 as two's complement), and the factors of each block. Minima are
// subtracted: offset = -(factor * minimum). Of formats without minima, those are not written and may be null.
struct SuperBlockParts {
  std::uint8_t *scales, *minima;                   // [groups]
  std::uint16_t *scale_factors, *minimum_factors;  // [blocks], float16
};
void read_super_blocks(const BlockType& type, std::span<const std::byte> blocks, const SuperBlockParts& out);

}  // namespace assay::ggml
