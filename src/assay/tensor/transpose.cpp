#include "assay/tensor/transpose.h"

#include <xmmintrin.h>

#include <algorithm>
#include <cstring>

namespace assay {

namespace {

constexpr std::int64_t kLine = 16, kRows = kLine;  // the width of what is written
constexpr std::int64_t kColumns = 64;
constexpr std::int64_t kStride = kColumns + 4;  // keeps the rows of a block in places of their own
constexpr std::int64_t kFour = 4;

struct Block {
  alignas(16) float values[kRows * kStride];

  void transpose_part(std::int64_t rows, std::int64_t columns, float* to, std::int64_t to_stride) const {
    for (std::int64_t column = 0; column < columns; ++column)
      for (std::int64_t row = 0; row < rows; ++row)
        to[column * to_stride + row] = values[row * kStride + column];
  }
  void transpose_whole(float* to, std::int64_t to_stride) const {
    for (std::int64_t column = 0; column < kColumns; column += kFour)
      for (std::int64_t row = 0; row < kRows; row += kFour) {
        const float* four = values + row * kStride + column;
        __m128 a = _mm_load_ps(four), b = _mm_load_ps(four + kStride), c = _mm_load_ps(four + 2 * kStride),
               d = _mm_load_ps(four + 3 * kStride);
        _MM_TRANSPOSE4_PS(a, b, c, d);
        float* out = to + column * to_stride + row;
        _mm_storeu_ps(out, a);
        _mm_storeu_ps(out + to_stride, b);
        _mm_storeu_ps(out + 2 * to_stride, c);
        _mm_storeu_ps(out + 3 * to_stride, d);
      }
  }
};

}  // namespace

void transpose(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
               float* to, std::int64_t to_stride) {
  Block block;
  for (std::int64_t column = 0; column < columns; column += kColumns)
    for (std::int64_t row = 0; row < rows; row += kRows) {
      const std::int64_t height = std::min(kRows, rows - row), width = std::min(kColumns, columns - column);
      for (std::int64_t i = 0; i < height; ++i) {
        const float* of_row = from + (row + i) * from_stride + column;
        // The next rows' lines lie too far apart for the processor to see them coming.
        for (std::int64_t line = 0; row + i + kRows < rows && line < width; line += kLine)
          __builtin_prefetch(of_row + kRows * from_stride + line);
        std::memcpy(block.values + i * kStride, of_row, static_cast<std::size_t>(width) * sizeof(float));
      }
      float* out = to + column * to_stride + row;
      if (height == kRows && width == kColumns)
        block.transpose_whole(out, to_stride);
      else
        block.transpose_part(height, width, out, to_stride);
    }
}

}  // namespace assay
