// Numbers to the tensor types of GGUF, the way back from ggml_blocks.h. Types with a scale per 32 elements
// are written byte for byte as ggml's quantize_row_*_ref does; those with super-blocks are searched for the
// least squared error, in a way of our own (ggml_search.h).
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
// The names of all that it writes, in the order of their ids.
std::vector<std::string> quantized_types();

// The largest magnitude that every type but F32 and BF16 holds: scales are float16.
inline constexpr float kLargestQuantized = 65504;

// Rows of `columns` finite numbers, each a whole number of blocks, to blocks. `importance` weighs the squared
// error of each column in a search; empty: all alike. Types without a search leave it unread.
void quantize(const BlockType& type, std::int64_t columns, std::span<const float> values,
              std::span<const float> importance, std::byte* blocks);

}  // namespace assay::ggml
