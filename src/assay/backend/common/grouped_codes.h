// Puts codes and scales of grouped formats where grouped_layout.h has them, for every device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "assay/backend/common/grouped_layout.h"
#include "assay/plan/weights.h"
#include "assay/quant/code_values.h"

namespace assay {

// For formats that hold_stored_scales.
ScaleRun scale_run_of(const WeightFormat& format);

// The memory of a matrix, zero before. Threads put outputs of their own at the same time.
struct GroupedPlace {
  std::byte *codes, *scales;  // where the first panel begins
  int bits;
  ScaleRun run;
  std::int64_t columns;

  // The codes of one output, one in a byte.
  void put_codes(std::int64_t output, const std::uint8_t* codes) const;
  // All scales of a tensor, or all minima, in formats without super-blocks.
  void put_factors(const TensorPart& tensor, std::span<const float> factors, bool are_minima) const;
  void put_super_blocks(const TensorPart& tensor, const SuperBlocks& blocks) const;
};

}  // namespace assay
