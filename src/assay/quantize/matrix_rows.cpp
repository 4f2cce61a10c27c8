#include "assay/quantize/matrix_rows.h"

#include <algorithm>

#include "assay/quant/quantizer.h"
#include "assay/tensor/transpose.h"

namespace assay {

std::int64_t rows_per_slab(std::int64_t columns, bool is_transposed) {
  // Numbers of a tensor that a thread holds at once, where that will do: they stay in its second-level cache.
  // Of a transposed matrix more, so that what is read of each of its rows is not too short.
  constexpr std::int64_t kSlab = std::int64_t{1} << 18, kTransposedSlab = std::int64_t{1} << 20;
  const std::int64_t numbers = is_transposed ? kTransposedSlab : kSlab;
  return std::max(kQuantizedRows, numbers / columns / kQuantizedRows * kQuantizedRows);
}

void read_matrix_rows(const CheckpointTensor& tensor, const MatrixShape& shape, std::int64_t first,
                      std::int64_t count, std::vector<float>& stored, float* out) {
  if (!shape.is_transposed) return tensor.read_floats(first * shape.columns, count * shape.columns, out);
  stored.resize(static_cast<std::size_t>(count * shape.columns));
  for (std::int64_t k = 0; k < shape.columns; ++k)
    tensor.read_floats(k * shape.rows + first, count, stored.data() + k * count);
  transpose(stored.data(), count, shape.columns, count, out, shape.columns);
}

}  // namespace assay
