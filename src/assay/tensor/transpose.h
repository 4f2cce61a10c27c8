// Transposes matrices of floats.
#pragma once

#include <cstdint>

namespace assay {

// to[column * to_stride + row] = from[row * from_stride + column]; strides in floats. The two do not overlap.
// Rows may lie any power of two apart: the lines of many such rows have one place in a cache, so blocks of
// them are copied together before they are transposed.
void transpose(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
               float* to, std::int64_t to_stride);

}  // namespace assay
