// Numbers to the tensor types of GGUF, the way back from ggml_blocks.h. Types with a scale per 32 elements
// are written byte for byte as ggml's quantize_row_*_ref does; those with super-blocks, IQ4_NL, and with an
// importance matrix all but Q8_0, are searched for the least squared error, in a way of our own
// (ggml_search.h).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/quant/ggml_blocks.h"

namespace assay::ggml {

// Any case: "q4_k". Null for an unknown name.
const BlockType* block_type_named(std::string_view name);
// Whether quantize() writes the type.
bool can_quantize(const BlockType& type);
// The type that it writes for a format; null where there is none, as of plain numbers.
const BlockType* written_type(const WeightFormat& format);
// What llama.cpp falls back to for rows that are no whole number of the type's blocks: the type itself where
// they are, else a type with blocks of 32, else F16.
const BlockType& fitting_type(const BlockType& type, std::int64_t columns);
// The names of all that it writes, in the order of their ids.
std::vector<std::string> quantized_types();

// The largest magnitude that every type but F32 and BF16 holds: scales are float16.
inline constexpr float kLargestQuantized = 65504;

// Rows of `columns` finite numbers, each a whole number of blocks, to blocks. `importance`, one number for
// each column and none negative, makes errors there weigh as much as ggml lets them: times
// sqrt(variance + x^2), but for Q6_K; empty: all alike. Q8_0 and plain types leave it unread.
void quantize(const BlockType& type, std::int64_t columns, std::span<const float> values,
              std::span<const float> importance, std::byte* blocks);

}  // namespace assay::ggml
