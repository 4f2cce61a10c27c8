// NumPy's .npy format, version 1.0, for float32 matrices
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
#pragma once

#include <cstdint>
#include <string>

namespace assay {

// The header that precedes rows * columns little-endian float32 in row order.
std::string npy_header(std::int64_t rows, std::int64_t columns);

}  // namespace assay
