// 8-bit integers with one scale per row: weights per output, activations per token.
#pragma once

#include <cstdint>
#include <span>

namespace assay {

// codes[i] = rint(row[i] * (127 / absmax)), ties to even, and absmax, which is returned: the largest
// magnitude of the row. A row of zeros gives zeros. (bitsandbytes' int8_vectorwise_quant, with PyTorch's
// 127 / absmax = (1 / absmax) * 127.)
float quantize_int8(std::span<const float> row, std::int8_t* codes);

}  // namespace assay
