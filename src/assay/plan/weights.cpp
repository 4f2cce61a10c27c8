#include "assay/plan/weights.h"

namespace assay {

std::vector<TensorPart> tensors_of(const WeightSpec& weight) {
  if (weight.slices.empty()) return {{weight, 0}};
  std::vector<TensorPart> parts;
  std::int64_t first_output = 0;
  for (const WeightSlice& slice : weight.slices) {
    if (!slice.tensor.empty()) {
      WeightSpec part = weight;
      part.name = slice.tensor;
      part.slices.clear();
      (weight.kind == WeightSpec::Kind::vector ? part.columns : part.rows) = slice.count;
      part.tensor_first = slice.first;
      part.tensor_count = slice.stored;
      parts.push_back({std::move(part), first_output});
    }
    first_output += slice.count;
  }
  return parts;
}

Bytes stored_bytes(const WeightSpec& weight) {
  if (weight.kind == WeightSpec::Kind::vector) return {weight.elements() * 4};
  if (weight.planes() > 1) return {weight.elements() * 2 * weight.planes()};
  return stored_bytes(weight.format, weight.rows, weight.columns);
}

}  // namespace assay
