#include "assay/backend/cpu/pack.h"

#include <algorithm>
#include <memory>

#include "assay/backend/cpu/kernels.h"
#include "assay/tensor/half.h"

namespace assay::cpu {

namespace {

constexpr std::int64_t kSlabFloats = std::int64_t{4} << 20;  // 16 MB

template <typename Element>
Element narrow(float value) {
  if constexpr (sizeof(Element) == 2)
    return float_to_bf16(value);
  else
    return value;
}

// Stored rows are the weight's inputs: each holds 16 neighbours of every panel.
template <typename Element>
void pack_inputs(const float* slab, std::int64_t first, std::int64_t count, PackedWeight& w,
                 ThreadPool& pool) {
  auto* data = reinterpret_cast<Element*>(w.data.data());
  pool.run(w.panels, [&](std::int64_t panel) {
    const std::int64_t begin = panel * kPanel, outputs = std::min<std::int64_t>(kPanel, w.spec.rows - begin);
    for (std::int64_t k = 0; k < count; ++k)
      for (std::int64_t j = 0; j < outputs; ++j)
        data[(panel * w.spec.columns + first + k) * kPanel + j] =
            narrow<Element>(slab[k * w.spec.rows + begin + j]);
  });
}

// Stored rows are the weight's outputs, and a slab begins at a whole panel.
template <typename Element>
void pack_outputs(const float* slab, std::int64_t first, std::int64_t count, PackedWeight& w,
                  ThreadPool& pool) {
  auto* data = reinterpret_cast<Element*>(w.data.data());
  pool.run((count + kPanel - 1) / kPanel, [&](std::int64_t chunk) {
    const std::int64_t begin = chunk * kPanel, outputs = std::min<std::int64_t>(kPanel, count - begin);
    Element* panel = data + (first + begin) * w.spec.columns;
    for (std::int64_t j = 0; j < outputs; ++j)
      for (std::int64_t k = 0; k < w.spec.columns; ++k)
        panel[k * kPanel + j] = narrow<Element>(slab[(begin + j) * w.spec.columns + k]);
  });
}

template <typename Element>
void pack_elements(PackedWeight& w, const WeightSource& source, ThreadPool& pool) {
  const WeightSpec& spec = w.spec;
  const bool by_inputs = spec.stored_transposed;
  const std::int64_t rows = by_inputs ? spec.columns : spec.rows,
                     width = by_inputs ? spec.rows : spec.columns;
  const std::int64_t per_slab = std::max<std::int64_t>(kPanel, kSlabFloats / width / kPanel * kPanel);
  const auto slab =
      std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(std::min(per_slab, rows) * width));
  for (std::int64_t first = 0; first < rows; first += per_slab) {
    const std::int64_t count = std::min(per_slab, rows - first);
    source.read_rows(spec, first, count, slab.get());
    if (spec.kind == WeightSpec::Kind::table) {
      auto* out = reinterpret_cast<Element*>(w.data.data()) + first * width;
      std::transform(slab.get(), slab.get() + count * width, out, narrow<Element>);
    } else if (by_inputs) {
      pack_inputs<Element>(slab.get(), first, count, w, pool);
    } else {
      pack_outputs<Element>(slab.get(), first, count, w, pool);
    }
  }
}

}  // namespace

std::int64_t PackedWeight::element_bytes() const {
  return spec.kind != WeightSpec::Kind::vector && spec.format == WeightFormat::bfloat16 ? 2 : 4;
}

Bytes PackedWeight::slack() const {
  return {static_cast<std::int64_t>(data.size()) - spec.elements() * element_bytes()};
}

namespace {

// Calls take(i, value) for every element of a row.
template <typename Take>
void for_row(const PackedWeight& w, std::int64_t row, const Take& take) {
  const std::int64_t columns = w.spec.columns;
  const bool is_matrix = w.spec.kind == WeightSpec::Kind::matrix;
  const std::int64_t first = is_matrix ? row / kPanel * columns * kPanel + row % kPanel : row * columns;
  const std::int64_t step = is_matrix ? kPanel : 1;
  if (w.element_bytes() == 2) {
    const auto* elements = reinterpret_cast<const std::uint16_t*>(w.data.data());
    for (std::int64_t i = 0; i < columns; ++i) take(i, bf16_to_float(elements[first + i * step]));
  } else {
    for (std::int64_t i = 0; i < columns; ++i) take(i, w.data.floats()[first + i * step]);
  }
}

}  // namespace

void PackedWeight::copy_row(std::int64_t row, float* out) const {
  for_row(*this, row, [out](std::int64_t i, float value) { out[i] = value; });
}

void PackedWeight::add_row(std::int64_t row, float* out) const {
  for_row(*this, row, [out](std::int64_t i, float value) { out[i] += value; });
}

PackedWeight pack_weight(const WeightSpec& spec, const WeightSource& source, ThreadPool& pool) {
  PackedWeight w;
  w.spec = spec;
  w.panels = (spec.rows + kPanel - 1) / kPanel;
  const bool is_matrix = spec.kind == WeightSpec::Kind::matrix;
  const std::int64_t elements = is_matrix ? w.panels * kPanel * spec.columns : spec.elements();
  w.data = AlignedBuffer(static_cast<std::size_t>(elements * w.element_bytes()), spec.name.c_str());
  if (spec.kind == WeightSpec::Kind::vector)
    source.read_rows(spec, 0, 1, w.data.floats());
  else if (w.element_bytes() == 2)
    pack_elements<std::uint16_t>(w, source, pool);
  else
    pack_elements<float>(w, source, pool);
  return w;
}

}  // namespace assay::cpu
