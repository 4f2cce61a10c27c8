#include "assay/backend/cpu/pack_offsets.h"

#include <algorithm>

#include "assay/base/error.h"
#include "assay/quant/quantizer.h"

namespace assay::cpu {

namespace {

// Zero points or minima lie as the scales do.
void place_added(PackedWeight& w, const TensorPart& tensor, const std::vector<float>& offsets) {
  const WeightSpec& spec = tensor.spec;
  const ScaleLayout layout(spec.format, spec.rows, spec.columns);
  auto* out = const_cast<float*>(w.offsets());
  for (std::int64_t row = 0; row < spec.rows; ++row) {
    const std::int64_t output = tensor.first_output + spec.output_of(row);
    for (std::int64_t k = 0; k < spec.columns; k += w.group)
      out[(output / kPanel * w.groups() + k / w.group) * kPanel + output % kPanel] =
          offsets[static_cast<std::size_t>(layout.at(row, k))];
  }
}

// Tensors that are multiplied together have one table.
void place_input_groups(PackedWeight& w, const TensorPart& tensor, const std::vector<std::int32_t>& groups) {
  const WeightSpec& spec = tensor.spec;
  const std::int64_t count = (spec.columns + w.group - 1) / w.group;
  const auto is_group = [&](std::int32_t group) { return group >= 0 && group < count; };
  if (groups.size() != static_cast<std::size_t>(spec.columns) ||
      !std::all_of(groups.begin(), groups.end(), is_group))
    throw Error("tensor '{}': expected a group from 0 to {} for each of {} inputs", spec.name, count - 1,
                spec.columns);
  auto* out = const_cast<std::int32_t*>(w.input_groups());
  if (tensor.first_output > 0 && !std::equal(groups.begin(), groups.end(), out))
    throw Error(
        "tensor '{}': its inputs are in other groups than those of the tensors that it is multiplied with",
        spec.name);
  std::copy(groups.begin(), groups.end(), out);
}

}  // namespace

void place_offsets(PackedWeight& w, const TensorPart& tensor, const WeightSource& source) {
  const WeightSpec& spec = tensor.spec;
  if (spec.kind != WeightSpec::Kind::matrix) return;
  if (spec.format.offset != Offset::none) place_added(w, tensor, source.read_offsets(spec));
  if (spec.format.has_input_groups) place_input_groups(w, tensor, source.read_input_groups(spec));
}

}  // namespace assay::cpu
