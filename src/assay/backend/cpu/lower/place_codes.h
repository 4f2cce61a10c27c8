// Puts codes and scales where packed weights hold them (pack.h). Threads call it at the same time, each for
// outputs of its own; the memory is zero before.
#pragma once

#include <span>

#include "assay/backend/cpu/lower/pack.h"

namespace assay::cpu {

// The codes of one output, one in a byte.
void place_int8(PackedWeight& w, std::int64_t output, const std::int8_t* codes, float absmax);
void place_four_bit(PackedWeight& w, std::int64_t output, const std::uint8_t* codes);

// The scales of all blocks of a tensor, or its zero points or minima, laid out for the panels.
void place_block_scales(PackedWeight& w, const TensorPart& tensor, std::span<const float> scales);
void place_offsets(PackedWeight& w, const TensorPart& tensor, std::span<const float> offsets);
}  // namespace assay::cpu
