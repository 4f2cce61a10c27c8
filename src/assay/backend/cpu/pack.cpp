#include "assay/backend/cpu/pack.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <stdexcept>

#include "assay/backend/cpu/pack_offsets.h"
#include "assay/base/error.h"
#include "assay/base/memory.h"
#include "assay/quant/quantizer.h"
#include "assay/tensor/half.h"
#include "assay/tensor/transpose.h"

namespace assay::cpu {

namespace {

// A slab stays in the second-level cache between reading and packing.
constexpr std::int64_t kSlabFloats = std::int64_t{1} << 18;
// Of a transposed matrix that is quantized, a slab is a strip: some outputs of every stored row. Strips that
// are wide read faster, and matrices of GPT-2's smallest model are one strip; of all threads they are
// bounded.
constexpr std::int64_t kStripFloats = std::int64_t{3} << 20, kAllStripFloats = std::int64_t{32} << 20;

bool is_vector(const WeightSpec& spec) {
  return spec.kind == WeightSpec::Kind::vector;
}
bool is_matrix(const WeightSpec& spec) {
  return spec.kind == WeightSpec::Kind::matrix;
}
// Of what is no matrix: a quantized format is one of matrices alone.
bool is_float32(const WeightSpec& spec) {
  return is_vector(spec) || (spec.format == formats::kFloat32 && spec.planes() == 1);
}

// Sets where everything lies; returns the bytes of it all.
std::int64_t lay_out(PackedWeight& w) {
  const WeightSpec& spec = w.spec;
  w.panels = (spec.rows + kPanel - 1) / kPanel;
  if (is_vector(spec)) return spec.columns * 4;
  if (!is_matrix(spec)) return spec.elements() * (is_float32(spec) ? 4 : 2);
  const std::int64_t elements = w.panels * w.panel_bytes();
  w.scales_at = round_up(elements, 64);
  if (is_int8(spec.format)) return w.scales_at + w.panels * kPanel * 8;
  if (!is_four_bit(spec.format)) return elements;
  w.group = ScaleLayout(spec.format, spec.rows, spec.columns).group;
  const std::int64_t scales = w.panels * w.groups() * kPanel;
  const std::int64_t end = w.scales_at + scales * w.block_scales().bytes();
  if (!has_offsets(spec.format)) return end;
  w.offsets_at = round_up(end, 64);
  w.input_groups_at = w.offsets_at + (spec.format.offset == Offset::none ? 0 : scales * 4);
  return w.input_groups_at + (spec.format.has_input_groups ? w.k_padded() * 4 : 0);
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

bool is_in_strips(const WeightSpec& spec) {
  return spec.stored_transposed && is_quantized(spec.format);
}

// Some stored rows of one tensor of a weight. Those of a transposed matrix are its inputs, a multiple of 32
// first; those of another its outputs, a multiple of 64 first. Where it is read in strips, outputs too.
struct Part {
  PackedWeight* weight;
  const TensorPart* tensor;
  std::int64_t first, count;
  float* scales;  // of the whole tensor: of 4-bit blocks, and those of outputs where they are stored
  const WeightSpec& spec() const { return tensor->spec; }
};

// Where the codes of an output's panel begin.
std::uint8_t* codes_of(PackedWeight& w, std::int64_t output) {
  return reinterpret_cast<std::uint8_t*>(w.data.data()) + output / kPanel * w.panel_bytes();
}

// Calls take(group, codes) for each `size` codes of a row of n; those of the last are followed by zeros.
template <std::int64_t size, typename Code, typename Take>
void for_groups(const Code* codes, std::int64_t n, const Take& take) {
  const std::int64_t whole = n / size;
  for (std::int64_t i = 0; i < whole; ++i) take(i, codes + i * size);
  if (whole * size == n) return;
  Code last[size] = {};
  std::copy(codes + whole * size, codes + n, last);
  take(whole, last);
}

void place_int8(PackedWeight& w, std::int64_t output, const std::int8_t* codes, float absmax) {
  std::uint8_t* panel = codes_of(w, output) + output % kPanel * 4;
  const std::int64_t columns = w.spec.columns;  // read once: bytes may alias anything
  for_groups<4>(codes, columns, [panel](std::int64_t i, const std::int8_t* four) {
    std::memcpy(panel + i * 4 * kPanel, four, 4);
  });
  const_cast<float*>(w.scales())[output] = absmax;
  const_cast<std::int32_t*>(w.sums())[output] = std::accumulate(codes, codes + columns, std::int32_t{0});
}

// Of eight codes, the last four go beside the first four, 4 bits up.
void place_four_bit(PackedWeight& w, std::int64_t output, const std::uint8_t* codes) {
  static_assert(code_offset(4, 0) == 0 && code_shift(4) == 4 && code_offset(0, 1) == 4);
  std::uint8_t* panel = codes_of(w, output) + code_offset(0, output % kPanel);
  for_groups<kCodeInputs>(codes, w.spec.columns, [panel](std::int64_t i, const std::uint8_t* eight) {
    std::uint32_t low = 0, high = 0;
    std::memcpy(&low, eight, 4);
    std::memcpy(&high, eight + 4, 4);
    low |= high << 4;
    std::memcpy(panel + code_offset(i * kCodeInputs, 0), &low, 4);
  });
}

// Rows [first, first + count) of the tensor's outputs, [count][columns], to codes.
void quantize_outputs(const Part& part, std::int64_t first, std::int64_t count, float* rows) {
  PackedWeight& w = *part.weight;
  const WeightSpec& spec = part.spec();
  const ScaleLayout layout(spec.format, spec.rows, spec.columns);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count * spec.columns));
  std::vector<float> own;  // of int8, whose scales lie beside the codes at once
  float* scales = part.scales + layout.at(first, 0);
  if (is_int8(spec.format)) {
    own.resize(static_cast<std::size_t>(count));
    scales = own.data();
  }
  quantize_rows(spec.format, spec.allows_non_finite, fmt::format("tensor '{}'", spec.name), spec.columns,
                {rows, codes.size()}, codes.data(), scales);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t output = part.tensor->first_output + spec.output_of(first + i);
    const std::uint8_t* row = codes.data() + i * spec.columns;
    if (is_int8(spec.format))
      place_int8(w, output, reinterpret_cast<const std::int8_t*>(row), scales[i]);
    else
      place_four_bit(w, output, row);
  }
}

// The same of codes that the source has: nothing is quantized.
void place_stored(const Part& part, const WeightSource& source, std::uint8_t* slab) {
  PackedWeight& w = *part.weight;
  source.read_codes(part.spec(), part.first, part.count, slab);
  for (std::int64_t i = 0; i < part.count; ++i) {
    const std::uint8_t* codes = slab + i * w.spec.columns;
    const std::int64_t output = part.tensor->first_output + part.spec().output_of(part.first + i);
    if (is_int8(w.spec.format))
      place_int8(w, output, reinterpret_cast<const std::int8_t*>(codes), part.scales[part.first + i]);
    else
      place_four_bit(w, output, codes);
  }
}

// The scales of all blocks of a tensor, when they are known: quantized themselves or not, and laid out for
// the panels.
void place_block_scales(PackedWeight& w, const TensorPart& tensor, std::vector<float>& scales) {
  if (w.packing() != Packing::four_bit) return;
  const WeightSpec& spec = tensor.spec;
  if (has_nested_scales(spec.format) && !spec.is_stored_quantized)
    unnest_scales(nest_scales(scales), scales.data());
  const std::int64_t groups = (w.k_padded() + w.group - 1) / w.group;
  const ScaleLayout layout(spec.format, spec.rows, spec.columns);
  auto* floats = const_cast<float*>(w.scales());
  auto* halves = reinterpret_cast<std::uint16_t*>(floats);
  for (std::int64_t row = 0; row < spec.rows; ++row) {
    const std::int64_t output = tensor.first_output + spec.output_of(row);
    for (std::int64_t k = 0; k < spec.columns; k += w.group) {
      const std::int64_t at = (output / kPanel * groups + k / w.group) * kPanel + output % kPanel;
      const float scale = scales[static_cast<std::size_t>(layout.at(row, k))];
      if (!w.has_bfloat16_scales()) {
        floats[at] = scale;
        continue;
      }
      halves[at] = float_to_bf16(scale);
      if (bf16_to_float(halves[at]) != scale)
        throw std::logic_error("the scale of " + spec.name + " is no bfloat16");
    }
  }
}

// Two inputs of an output, as panels of bfloat16 hold them.
std::uint32_t pair_of(float first, float second) {
  return std::uint32_t{float_to_bf16(first)} | std::uint32_t{float_to_bf16(second)} << 16;
}

// All outputs of a panel of bfloat16, from an even input on.
void pack_pairs(std::uint32_t* out, std::int64_t count_k, const float* values, std::int64_t k_stride,
                std::int64_t output_stride) {
  constexpr std::int64_t kPairs = 64;  // transposed at once
  const std::int64_t pairs = count_k / 2;
  if (output_stride == 1) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      const float *first = values + 2 * i * k_stride, *second = first + k_stride;
      for (std::int64_t j = 0; j < kPanel; ++j) out[i * kPanel + j] = pair_of(first[j], second[j]);
    }
  } else {
    alignas(64) std::uint32_t near[kPanel * kPairs];
    for (std::int64_t begin = 0; begin < pairs; begin += kPairs) {
      const std::int64_t size = std::min(kPairs, pairs - begin);
      for (std::int64_t j = 0; j < kPanel; ++j) {
        const float* row = values + j * output_stride + 2 * begin;
        for (std::int64_t i = 0; i < size; ++i) near[j * kPairs + i] = pair_of(row[2 * i], row[2 * i + 1]);
      }
      transpose(reinterpret_cast<const float*>(near), kPairs, kPanel, size,
                reinterpret_cast<float*>(out + begin * kPanel), kPanel);
    }
  }
  for (std::int64_t j = 0; count_k % 2 != 0 && j < kPanel; ++j)
    out[pairs * kPanel + j] = pair_of(values[2 * pairs * k_stride + j * output_stride], 0.0F);
}

// Outputs [first, first + count) of one panel, from `values` on.
void pack_panel(const PackedWeight& w, std::int64_t first, std::int64_t count, std::int64_t first_k,
                std::int64_t count_k, const float* values, std::int64_t k_stride,
                std::int64_t output_stride) {
  const std::int64_t panel = first / kPanel, lane = first % kPanel;
  auto* bytes = const_cast<std::byte*>(w.data.data());
  if (w.packing() == Packing::float32) {
    float* out = reinterpret_cast<float*>(bytes) + (panel * w.spec.columns + first_k) * kPanel + lane;
    if (count == kPanel && output_stride == 1) {
      for (std::int64_t k = 0; k < count_k; ++k) std::copy_n(values + k * k_stride, kPanel, out + k * kPanel);
      return;
    }
    if (k_stride == 1) return transpose(values, output_stride, count, count_k, out, kPanel);
    for (std::int64_t k = 0; k < count_k; ++k)
      for (std::int64_t j = 0; j < count; ++j) out[k * kPanel + j] = values[k * k_stride + j * output_stride];
    return;
  }
  const std::int64_t plane_size = round_up(w.spec.columns, kTileColumns) * kPanel;
  const int planes = w.planes();
  std::uint16_t* out = reinterpret_cast<std::uint16_t*>(bytes) + panel * planes * plane_size;
  if (planes == 1 && count == kPanel && first_k % 2 == 0 && (k_stride == 1 || output_stride == 1))
    return pack_pairs(reinterpret_cast<std::uint32_t*>(out + first_k * kPanel), count_k, values, k_stride,
                      output_stride);
  for (std::int64_t k = 0; k < count_k; ++k)
    for (std::int64_t j = 0; j < count; ++j)
      split(values[k * k_stride + j * output_stride], planes, [&](int plane, std::uint16_t bits) {
        out[plane * plane_size + pair_offset(first_k + k, lane + j)] = bits;
      });
}

// Outputs [first, first + count) of the weight, wherever panels begin.
void pack_outputs(const PackedWeight& w, std::int64_t first, std::int64_t count, std::int64_t first_k,
                  std::int64_t count_k, const float* values, std::int64_t k_stride,
                  std::int64_t output_stride) {
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t size = std::min(count - done, kPanel - (first + done) % kPanel);
    pack_panel(w, first + done, size, first_k, count_k, values + done * output_stride, k_stride,
               output_stride);
    done += size;
  }
}

// Calls take(row, count, output) for rows [first, first + count) of a tensor, as long as their outputs follow
// one another.
template <typename Take>
void for_runs(const WeightSpec& spec, std::int64_t first, std::int64_t count, const Take& take) {
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t row = first + done, left = count - done;
    const std::int64_t size =
        spec.run_outputs.empty() ? left : std::min(left, spec.run_rows - row % spec.run_rows);
    take(done, size, spec.output_of(row));
    done += size;
  }
}

// Of a row as the source gives it.
std::int64_t stored_width(const WeightSpec& spec) {
  return spec.stored_transposed ? spec.rows : spec.columns;
}

// Stored rows [first, first + count), each column of the weight times its factor.
void apply_factors(const WeightSpec& spec, std::int64_t first, std::int64_t count, float* stored) {
  const std::int64_t width = stored_width(spec);
  for (std::int64_t row = 0; row < count; ++row)
    for (std::int64_t i = 0; i < width; ++i)
      stored[row * width + i] *=
          spec.column_factors[static_cast<std::size_t>(spec.stored_transposed ? first + row : i)];
}

// Reads the part's outputs of every stored row, and turns them a few outputs at a time.
void quantize_strip(const Part& part, const WeightSource& source, float* slab) {
  WeightSpec strip = part.spec();
  strip.tensor_count = strip.tensor_count > 0 ? strip.tensor_count : strip.rows;
  strip.tensor_first += part.first;
  strip.rows = part.count;
  source.read_rows(strip, 0, strip.columns, slab);
  if (!strip.column_factors.empty()) apply_factors(strip, 0, strip.columns, slab);
  constexpr std::int64_t kOutputs = kQuantizedRows;
  std::vector<float> rows(static_cast<std::size_t>(kOutputs * strip.columns));
  for (std::int64_t first = 0; first < strip.rows; first += kOutputs) {
    const std::int64_t count = std::min(kOutputs, strip.rows - first);
    transpose(slab + first, strip.rows, strip.columns, count, rows.data(), strip.columns);
    quantize_outputs(part, part.first + first, count, rows.data());
  }
}

void pack_part(const Part& part, const WeightSource& source, float* slab) {
  PackedWeight& w = *part.weight;
  const WeightSpec& spec = part.spec();
  const std::int64_t first_output = part.tensor->first_output;
  if (spec.is_stored_quantized) return place_stored(part, source, reinterpret_cast<std::uint8_t*>(slab));
  if (is_in_strips(spec)) return quantize_strip(part, source, slab);
  source.read_rows(spec, part.first, part.count, slab);
  if (spec.offset != 0)
    for (std::int64_t i = 0; i < part.count * stored_width(spec); ++i) slab[i] += spec.offset;
  if (!spec.column_factors.empty()) apply_factors(spec, part.first, part.count, slab);
  if (is_vector(spec)) {
    for_runs(spec, 0, spec.columns, [&](std::int64_t done, std::int64_t size, std::int64_t output) {
      std::copy_n(slab + done, size, w.data.floats() + first_output + output);
    });
  } else if (!is_matrix(spec)) {
    const std::int64_t count = part.count * spec.columns, first = (first_output + part.first) * spec.columns;
    if (is_float32(spec))
      std::copy_n(slab, count, w.data.floats() + first);
    else
      std::transform(slab, slab + count, reinterpret_cast<std::uint16_t*>(w.data.data()) + first,
                     [](float x) { return float_to_bf16(x); });
  } else if (is_quantized(spec.format)) {
    quantize_outputs(part, part.first, part.count, slab);
  } else if (spec.stored_transposed) {
    pack_outputs(w, first_output, spec.rows, part.first, part.count, slab, spec.rows, 1);
  } else {
    for_runs(spec, part.first, part.count, [&](std::int64_t done, std::int64_t size, std::int64_t output) {
      pack_outputs(w, first_output + output, size, 0, spec.columns, slab + done * spec.columns, 1,
                   spec.columns);
    });
  }
}

// What parts cut: stored rows, or outputs of strips; and how many numbers each of them has.
std::pair<std::int64_t, std::int64_t> stored_size(const WeightSpec& spec) {
  return spec.stored_transposed && !is_in_strips(spec) ? std::pair{spec.columns, spec.rows}
                                                       : std::pair{spec.rows, spec.columns};
}

std::int64_t rows_per_part(const WeightSpec& spec, int threads) {
  const std::int64_t slab =
      is_in_strips(spec) ? std::min(kStripFloats, kAllStripFloats / threads) : kSlabFloats;
  const std::int64_t unit = kQuantizedRows;  // also a whole number of panels and of steps
  return std::max(unit, slab / stored_size(spec).second / unit * unit);
}

}  // namespace

Packing PackedWeight::packing() const {
  if (is_int8(spec.format)) return Packing::int8;
  if (is_four_bit(spec.format)) return Packing::four_bit;
  return is_float32(spec) ? Packing::float32 : Packing::bfloat16;
}

std::int64_t PackedWeight::k_padded() const {
  if (packing() == Packing::float32) return spec.columns;
  return round_up(spec.columns, packing() == Packing::int8 ? kInt8Columns : kTileColumns);
}

std::int64_t PackedWeight::panel_bytes() const {
  const std::int64_t elements = k_padded() * kPanel;
  switch (packing()) {
    case Packing::float32:
      return elements * 4;
    case Packing::bfloat16:
      return elements * 2 * planes();
    case Packing::int8:
      return elements;
    case Packing::four_bit:
      return elements / 2;
  }
  return 0;
}

const std::array<float, 16>& PackedWeight::book() const {
  return code_values(spec.format);
}

Bytes PackedWeight::weight_bytes() const {
  if (packing() == Packing::int8) return {spec.elements() + spec.rows * 4};
  if (packing() == Packing::four_bit) {
    const std::int64_t scales = ScaleLayout(spec.format, spec.rows, spec.columns).count;
    return {(spec.elements() + 1) / 2 + scales * block_scales().bytes() +
            (spec.format.offset == Offset::none ? 0 : scales * 4) +
            (spec.format.has_input_groups ? spec.columns * 4 : 0)};
  }
  return {spec.elements() * (is_float32(spec) ? 4 : 2 * (is_matrix(spec) ? planes() : 1))};
}

Bytes PackedWeight::slack() const {
  return {bytes - weight_bytes().value};
}

namespace {

float scale_at(const BlockScales& scales, std::int64_t i) {
  return scales.are_bfloat16 ? bf16_to_float(static_cast<const std::uint16_t*>(scales.data)[i])
                             : static_cast<const float*>(scales.data)[i];
}

// Elements of a row lie a line of memory each apart: the processor alone asks for too few of them at a time.
void fetch_ahead(const void* p) {
  constexpr std::int64_t kBytesAhead = 2048;
  __builtin_prefetch(static_cast<const char*>(p) + kBytesAhead);
}

// Calls take(i, value) for every element of a row.
template <typename Take>
void for_row(const PackedWeight& w, std::int64_t row, const Take& take) {
  const std::int64_t columns = w.spec.columns;
  const auto* pairs = reinterpret_cast<const std::uint16_t*>(w.data.data());
  if (!is_matrix(w.spec)) {
    for (std::int64_t i = 0; i < columns; ++i)
      take(i,
           is_float32(w.spec) ? w.data.floats()[row * columns + i] : bf16_to_float(pairs[row * columns + i]));
  } else if (w.packing() == Packing::int8) {
    const auto* panel = reinterpret_cast<const std::int8_t*>(w.data.data()) + row / kPanel * w.panel_bytes();
    const float unit = w.scales()[row] * (1.0F / 127.0F);
    for (std::int64_t i = 0; i < columns; ++i)
      take(i, static_cast<float>(panel[int8_offset(i, row % kPanel)]) * unit);
  } else if (w.packing() == Packing::four_bit) {
    const auto* panel = reinterpret_cast<const std::uint8_t*>(w.data.data()) + row / kPanel * w.panel_bytes();
    const std::int64_t first = row / kPanel * w.groups() * kPanel + row % kPanel;
    const BlockScales scales = w.block_scales().from(first);
    const float* offsets = w.offsets();
    const std::int32_t* groups = w.input_groups();
    for (std::int64_t i = 0; i < columns; ++i) {
      const int code = panel[code_offset(i, row % kPanel)] >> code_shift(i) & 15;
      const std::int64_t at = (groups == nullptr ? i / w.group : groups[i]) * kPanel;
      const float value = w.book()[static_cast<std::size_t>(code)] * scale_at(scales, at);
      take(i, offsets == nullptr ? value : value + offsets[first + at]);
    }
  } else if (is_float32(w.spec)) {
    const float* panel = w.data.floats() + row / kPanel * columns * kPanel + row % kPanel;
    for (std::int64_t i = 0; i < columns; ++i) {
      fetch_ahead(panel + i * kPanel);
      take(i, panel[i * kPanel]);
    }
  } else {
    const std::int64_t plane_size = round_up(columns, kTileColumns) * kPanel;
    const std::uint16_t* panel = pairs + row / kPanel * w.planes() * plane_size;
    for (std::int64_t i = 0; i < columns; ++i) {
      float value = 0;
      if (i % 2 == 0) fetch_ahead(panel + pair_offset(i, row % kPanel));
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

std::vector<PackedWeight> lay_out_weights(const std::vector<WeightSpec>& specs) {
  std::vector<PackedWeight> weights(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    weights[i].spec = specs[i];
    weights[i].bytes = lay_out(weights[i]);
  }
  return weights;
}

std::vector<PackedWeight> pack_weights(const std::vector<WeightSpec>& specs, const WeightSource& source,
                                       ThreadPool& pool, const PlaceWeight& place) {
  // The scales of a tensor are there from its first part to its last: those of all 4-bit tensors at once
  // would be an eighth of the packed weights.
  struct Tensor {
    PackedWeight* weight = nullptr;
    TensorPart part = {};
    // Not std::call_once: an exception does not come through it where libstdc++ is linked statically.
    std::mutex beginning = {};
    bool has_begun = false;
    std::vector<float> scales = {};
    std::atomic<std::size_t> parts_left{0};
  };
  struct Piece {
    Tensor* tensor;
    std::int64_t first, count;
  };
  std::vector<PackedWeight> weights = lay_out_weights(specs);
  std::deque<Tensor> tensors;
  std::vector<Piece> pieces;
  std::int64_t slab_floats = 0, bytes = 0;
  for (const PackedWeight& w : weights) bytes += w.bytes;
  require_memory({bytes}, "the weights");
  for (PackedWeight& w : weights) {
    w.data = AlignedBuffer(static_cast<std::size_t>(w.bytes), w.spec.name.c_str());
    if (place) place(static_cast<std::size_t>(&w - weights.data()), w);
    for (TensorPart& part : tensors_of(w.spec)) {
      Tensor& tensor = tensors.emplace_back();
      tensor.weight = &w;
      tensor.part = std::move(part);
      const auto [rows, width] = stored_size(tensor.part.spec);
      const std::int64_t per_part = rows_per_part(tensor.part.spec, pool.size());
      for (std::int64_t first = 0; first < rows; first += per_part, ++tensor.parts_left)
        pieces.push_back({&tensor, first, std::min(per_part, rows - first)});
      slab_floats = std::max(slab_floats, std::min(per_part, rows) * width);
    }
  }
  const auto begin = [&source](Tensor& tensor) {
    const std::lock_guard lock(tensor.beginning);
    if (tensor.has_begun) return;
    const WeightSpec& spec = tensor.part.spec;
    if (spec.is_stored_quantized)
      tensor.scales = source.read_scales(spec);
    else if (is_matrix(spec) && is_four_bit(spec.format))
      tensor.scales.resize(static_cast<std::size_t>(ScaleLayout(spec.format, spec.rows, spec.columns).count));
    tensor.has_begun = true;  // not where that threw
  };
  const auto end = [](Tensor& tensor) {
    place_block_scales(*tensor.weight, tensor.part, tensor.scales);
    tensor.scales = std::vector<float>();
  };
  for (Tensor& tensor : tensors) place_offsets(*tensor.weight, tensor.part, source);
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  pool.run(pool.size(), [&](std::int64_t) {
    try {
      AlignedBuffer slab(static_cast<std::size_t>(slab_floats) * sizeof(float), "a slab of weights");
      for (std::size_t i = next++; i < pieces.size(); i = next++) {
        const auto& [tensor, first, count] = pieces[i];
        begin(*tensor);
        pack_part({tensor->weight, &tensor->part, first, count, tensor->scales.data()}, source,
                  slab.floats());
        if (--tensor->parts_left == 0) end(*tensor);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (failure == nullptr) failure = std::current_exception();
      next = pieces.size();
    }
  });
  if (failure != nullptr) std::rethrow_exception(failure);
  return weights;
}

}  // namespace assay::cpu
