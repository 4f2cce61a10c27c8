#include "assay/backend/cpu/pack.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>

#include "assay/base/memory.h"
#include "assay/tensor/half.h"

namespace assay::cpu {

namespace {

// A slab stays in the second-level cache between reading and packing.
constexpr std::int64_t kSlabFloats = std::int64_t{1} << 18;

bool is_vector(const WeightSpec& spec) {
  return spec.kind == WeightSpec::Kind::vector;
}
bool is_matrix(const WeightSpec& spec) {
  return spec.kind == WeightSpec::Kind::matrix;
}
bool is_float32(const WeightSpec& spec) {
  return is_vector(spec) || spec.format == WeightFormat::float32;
}

std::int64_t packed_bytes(const WeightSpec& spec) {
  const std::int64_t panels = (spec.rows + kPanel - 1) / kPanel;
  if (is_vector(spec)) return spec.columns * 4;
  if (spec.kind == WeightSpec::Kind::table) return spec.elements() * (is_float32(spec) ? 4 : 2);
  if (is_float32(spec)) return panels * kPanel * spec.columns * 4;
  return panels * planes_of(spec.format) * kPanel * round_up(spec.columns, kTileColumns) * 2;
}

// Where element k of output j of a panel begins, within the panel's plane (Packing::bfloat16).
constexpr std::int64_t pair_offset(std::int64_t k, std::int64_t j) {
  return k / 2 * 2 * kPanel + 2 * j + k % 2;
}

// Calls take(plane, bits) for the value's parts: each is what the ones before it leave, in bfloat16.
template <typename Take>
void split(float value, int planes, const Take& take) {
  for (int plane = 0; plane < planes; ++plane) {
    const std::uint16_t bits = float_to_bf16(value);
    take(plane, bits);
    if (plane + 1 < planes) value -= bf16_to_float(bits);
  }
}

// Some stored rows of one weight. Those of a transposed matrix are its inputs, a multiple of 32 first; those
// of another its outputs, whole panels.
struct Part {
  PackedWeight* weight;
  std::int64_t first, count;
};

void pack_panel(const PackedWeight& w, std::int64_t panel, std::int64_t first_k, std::int64_t count_k,
                const float* values, std::int64_t k_stride, std::int64_t output_stride) {
  const std::int64_t outputs = std::min<std::int64_t>(kPanel, w.spec.rows - panel * kPanel);
  auto* bytes = const_cast<std::byte*>(w.data.data());
  if (w.packing() == Packing::float32) {
    float* out = reinterpret_cast<float*>(bytes) + (panel * w.spec.columns + first_k) * kPanel;
    if (outputs == kPanel && output_stride == 1) {
      for (std::int64_t k = 0; k < count_k; ++k) std::copy_n(values + k * k_stride, kPanel, out + k * kPanel);
      return;
    }
    for (std::int64_t k = 0; k < count_k; ++k)
      for (std::int64_t j = 0; j < outputs; ++j)
        out[k * kPanel + j] = values[k * k_stride + j * output_stride];
    return;
  }
  const std::int64_t plane_size = round_up(w.spec.columns, kTileColumns) * kPanel;
  const int planes = w.planes();
  std::uint16_t* out = reinterpret_cast<std::uint16_t*>(bytes) + panel * planes * plane_size;
  for (std::int64_t k = 0; k < count_k; ++k)
    for (std::int64_t j = 0; j < outputs; ++j)
      split(values[k * k_stride + j * output_stride], planes, [&](int plane, std::uint16_t bits) {
        out[plane * plane_size + pair_offset(first_k + k, j)] = bits;
      });
}

void pack_part(const Part& part, const WeightSource& source, float* slab) {
  PackedWeight& w = *part.weight;
  const WeightSpec& spec = w.spec;
  source.read_rows(spec, part.first, part.count, slab);
  if (is_vector(spec)) {
    std::copy_n(slab, spec.columns, w.data.floats());
  } else if (!is_matrix(spec)) {
    const std::int64_t count = part.count * spec.columns, first = part.first * spec.columns;
    if (is_float32(spec))
      std::copy_n(slab, count, w.data.floats() + first);
    else
      std::transform(slab, slab + count, reinterpret_cast<std::uint16_t*>(w.data.data()) + first,
                     [](float x) { return float_to_bf16(x); });
  } else if (spec.stored_transposed) {
    for (std::int64_t panel = 0; panel < w.panels; ++panel)
      pack_panel(w, panel, part.first, part.count, slab + panel * kPanel, spec.rows, 1);
  } else {
    for (std::int64_t row = 0; row < part.count; row += kPanel)
      pack_panel(w, (part.first + row) / kPanel, 0, spec.columns, slab + row * spec.columns, 1, spec.columns);
  }
}

// Rows of the stored weight, and their width.
std::pair<std::int64_t, std::int64_t> stored_size(const WeightSpec& spec) {
  return spec.stored_transposed ? std::pair{spec.columns, spec.rows} : std::pair{spec.rows, spec.columns};
}

std::int64_t rows_per_part(const WeightSpec& spec) {
  const std::int64_t unit = kTileColumns;  // also a whole number of panels
  return std::max(unit, kSlabFloats / stored_size(spec).second / unit * unit);
}

}  // namespace

Bytes PackedWeight::weight_bytes() const {
  return {spec.elements() * (is_float32(spec) ? 4 : 2 * (is_matrix(spec) ? planes() : 1))};
}

Bytes PackedWeight::slack() const {
  return {static_cast<std::int64_t>(data.size()) - weight_bytes().value};
}

namespace {

// Calls take(i, value) for every element of a row.
template <typename Take>
void for_row(const PackedWeight& w, std::int64_t row, const Take& take) {
  const std::int64_t columns = w.spec.columns;
  const auto* pairs = reinterpret_cast<const std::uint16_t*>(w.data.data());
  if (!is_matrix(w.spec)) {
    for (std::int64_t i = 0; i < columns; ++i)
      take(i,
           is_float32(w.spec) ? w.data.floats()[row * columns + i] : bf16_to_float(pairs[row * columns + i]));
  } else if (is_float32(w.spec)) {
    const float* panel = w.data.floats() + row / kPanel * columns * kPanel + row % kPanel;
    for (std::int64_t i = 0; i < columns; ++i) take(i, panel[i * kPanel]);
  } else {
    const std::int64_t plane_size = round_up(columns, kTileColumns) * kPanel;
    const std::uint16_t* panel = pairs + row / kPanel * w.planes() * plane_size;
    for (std::int64_t i = 0; i < columns; ++i) {
      float value = 0;
      for (int plane = w.planes() - 1; plane >= 0; --plane)
        value += bf16_to_float(panel[plane * plane_size + pair_offset(i, row % kPanel)]);
      take(i, value);
    }
  }
}

}  // namespace

void PackedWeight::copy_row(std::int64_t row, float* out) const {
  for_row(*this, row, [out](std::int64_t i, float value) { out[i] = value; });
}

void PackedWeight::add_row(std::int64_t row, float* out) const {
  for_row(*this, row, [out](std::int64_t i, float value) { out[i] += value; });
}

std::vector<PackedWeight> pack_weights(const std::vector<WeightSpec>& specs, const WeightSource& source,
                                       ThreadPool& pool) {
  std::vector<PackedWeight> weights(specs.size());
  std::vector<Part> parts;
  std::int64_t slab_floats = 0, all_bytes = 0;
  for (const WeightSpec& spec : specs) all_bytes += packed_bytes(spec);
  require_memory({all_bytes}, "the weights");
  for (std::size_t i = 0; i < specs.size(); ++i) {
    PackedWeight& w = weights[i];
    w.spec = specs[i];
    w.panels = (w.spec.rows + kPanel - 1) / kPanel;
    w.data = AlignedBuffer(static_cast<std::size_t>(packed_bytes(w.spec)), w.spec.name.c_str());
    const auto [rows, width] = stored_size(w.spec);
    const std::int64_t per_part = rows_per_part(w.spec);
    for (std::int64_t first = 0; first < rows; first += per_part)
      parts.push_back({&w, first, std::min(per_part, rows - first)});
    slab_floats = std::max(slab_floats, std::min(per_part, rows) * width);
  }
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  pool.run(pool.size(), [&](std::int64_t) {
    try {
      // Not a vector: zeroing a slab that is about to be overwritten costs a tenth of loading.
      const auto slab = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(slab_floats));
      for (std::size_t i = next++; i < parts.size(); i = next++) pack_part(parts[i], source, slab.get());
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (failure == nullptr) failure = std::current_exception();
      next = parts.size();
    }
  });
  if (failure != nullptr) std::rethrow_exception(failure);
  return weights;
}

}  // namespace assay::cpu
