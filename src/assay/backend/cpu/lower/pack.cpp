#include "assay/backend/cpu/lower/pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "assay/backend/common/weight_stream.h"
#include "assay/backend/cpu/lower/place_codes.h"
#include "assay/base/error.h"
#include "assay/base/memory.h"
#include "assay/tensor/half.h"
#include "assay/tensor/transpose.h"

namespace assay::cpu {

namespace {

bool is_vector(const WeightSpec& spec) {
  return spec.kind == WeightSpec::Kind::vector;
}
bool is_matrix(const WeightSpec& spec) {
  return spec.kind == WeightSpec::Kind::matrix;
}
// The type of what is no matrix: a quantized format is one of matrices alone.
bool is_float32(const WeightSpec& spec) {
  return is_vector(spec) || (spec.format == formats::kFloat32 && spec.planes() == 1);
}

Packing packing_of(const WeightSpec& spec) {
  if (is_int8(spec.format)) return Packing::int8;
  if (holds_stored_scales(spec.format)) return Packing::grouped;
  if (is_four_bit(spec.format)) return Packing::four_bit;
  return is_float32(spec) ? Packing::float32 : Packing::bfloat16;
}

// Sets where everything lies; returns the bytes of it all.
std::int64_t lay_out(PackedWeight& w) {
  const WeightSpec& spec = w.spec;
  w.panels = (spec.rows + kPanel - 1) / kPanel;
  if (is_vector(spec)) return spec.columns * 4;
  if (!is_matrix(spec)) return spec.elements() * (is_float32(spec) ? 4 : 2);
  const std::int64_t elements = w.panels * w.panel_bytes();
  w.scales_at = round_up(elements, 64);
  if (w.packing == Packing::grouped) return w.scales_at + w.panels * w.grouped().scale_bytes();
  if (is_int8(spec.format)) return w.scales_at + w.panels * kPanel * 8;
  if (!is_four_bit(spec.format)) return elements;
  w.group = packed_group(spec);
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
  if (w.packing == Packing::float32) {
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

// Places what is streamed into packed weights whose memory is there.
class PanelSink : public WeightSink {
 public:
  explicit PanelSink(std::span<PackedWeight> weights) : weights_(weights) {}
  void put_vector(std::size_t weight, std::int64_t first, std::span<const float> values) override {
    std::copy(values.begin(), values.end(), weights_[weight].data.floats() + first);
  }
  void put_floats(std::size_t weight, const FloatBlock& block) override {
    const PackedWeight& w = weights_[weight];
    if (is_matrix(w.spec))
      pack_outputs(w, block.first_output, block.outputs, block.first_input, block.inputs, block.values,
                   block.input_stride, block.output_stride);
    else
      put_table_rows(weights_[weight], block);
  }
  void put_codes(std::size_t weight, std::int64_t output, const std::uint8_t* codes, float absmax) override {
    PackedWeight& w = weights_[weight];
    if (is_int8(w.spec.format))
      place_int8(w, output, reinterpret_cast<const std::int8_t*>(codes), absmax);
    else if (w.packing == Packing::grouped)
      w.grouped_place().put_codes(output, codes);
    else
      place_four_bit(w, output, codes);
  }
  void put_block_scales(std::size_t weight, const TensorPart& tensor,
                        std::span<const float> scales) override {
    PackedWeight& w = weights_[weight];
    w.packing == Packing::grouped ? w.grouped_place().put_factors(tensor, scales, false)
                                  : place_block_scales(w, tensor, scales);
  }
  void put_super_blocks(std::size_t weight, const TensorPart& tensor, const SuperBlocks& blocks) override {
    weights_[weight].grouped_place().put_super_blocks(tensor, blocks);
  }
  void put_offsets(std::size_t weight, const TensorPart& tensor, std::span<const float> offsets) override {
    PackedWeight& w = weights_[weight];
    w.packing == Packing::grouped ? w.grouped_place().put_factors(tensor, offsets, true)
                                  : place_offsets(w, tensor, offsets);
  }
  void put_input_groups(std::size_t weight, const TensorPart& /*tensor*/,
                        std::span<const std::int32_t> groups) override {
    std::copy(groups.begin(), groups.end(), const_cast<std::int32_t*>(weights_[weight].input_groups()));
  }

 private:
  static void put_table_rows(PackedWeight& w, const FloatBlock& block) {
    const std::int64_t columns = w.spec.columns;
    for (std::int64_t i = 0; i < block.outputs; ++i)
      for (std::int64_t k = 0; k < block.inputs; ++k) {
        const float value = block.values[i * block.output_stride + k * block.input_stride];
        const std::int64_t at = (block.first_output + i) * columns + block.first_input + k;
        if (is_float32(w.spec))
          w.data.floats()[at] = value;
        else
          reinterpret_cast<std::uint16_t*>(w.data.data())[at] = float_to_bf16(value);
      }
  }

  std::span<PackedWeight> weights_;
};

}  // namespace

std::int64_t PackedWeight::k_padded() const {
  if (packing == Packing::float32) return spec.columns;
  return round_up(spec.columns, packing == Packing::int8 ? kInt8Columns : kTileColumns);
}

std::int64_t PackedWeight::panel_bytes() const {
  const std::int64_t elements = k_padded() * kPanel;
  switch (packing) {
    case Packing::float32:
      return elements * 4;
    case Packing::bfloat16:
      return elements * 2 * planes();
    case Packing::int8:
      return elements;
    case Packing::four_bit:
      return elements / 2;
    case Packing::grouped:
      return elements * spec.format.bits / 8;
  }
  return 0;
}

const std::array<float, 16>& PackedWeight::codebook() const {
  return codebook_values(spec.format);
}

GroupedCodes PackedWeight::grouped() const {
  return {.codes = data.data(),
          .scales = data.data() + scales_at,
          .values = values.data(),
          .bits = spec.format.bits,
          .run = scale_run_of(spec.format),
          .k = spec.columns,
          .k_padded = k_padded()};
}

GroupedPlace PackedWeight::grouped_place() {
  return {data.data(), data.data() + scales_at, spec.format.bits, scale_run_of(spec.format), spec.columns};
}

Bytes PackedWeight::weight_bytes() const {
  if (packing == Packing::grouped) return stored_bytes(spec.format, spec.rows, spec.columns);
  if (packing == Packing::int8) return {spec.elements() + spec.rows * 4};
  if (packing == Packing::four_bit) {
    const std::int64_t scales = ScaleLayout(spec.format, spec.rows, spec.columns).count;
    return {(spec.elements() + 1) / 2 + scales * block_scales().bytes() +
            (spec.format.offset == Offset::none ? 0 : scales * 4) +
            (spec.format.has_input_groups ? spec.columns * 4 : 0)};
  }
  return {spec.elements() * (packing == Packing::float32 ? 4 : 2 * (is_matrix(spec) ? planes() : 1))};
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
    const bool is_float = w.packing == Packing::float32;
    for (std::int64_t i = 0; i < columns; ++i)
      take(i, is_float ? w.data.floats()[row * columns + i] : bf16_to_float(pairs[row * columns + i]));
  } else if (w.packing == Packing::int8) {
    const auto* panel = reinterpret_cast<const std::int8_t*>(w.data.data()) + row / kPanel * w.panel_bytes();
    const float unit = w.scales()[row] * (1.0F / 127.0F);
    for (std::int64_t i = 0; i < columns; ++i)
      take(i, static_cast<float>(panel[int8_offset(i, row % kPanel)]) * unit);
  } else if (w.packing == Packing::four_bit) {
    const auto* panel = reinterpret_cast<const std::uint8_t*>(w.data.data()) + row / kPanel * w.panel_bytes();
    const std::int64_t first = row / kPanel * w.groups() * kPanel + row % kPanel;
    const BlockScales scales = w.block_scales().from(first);
    const float* offsets = w.offsets();
    const std::int32_t* groups = w.input_groups();
    for (std::int64_t i = 0; i < columns; ++i) {
      const int code = panel[code_offset(i, row % kPanel)] >> code_shift(i) & 15;
      const std::int64_t at = (groups == nullptr ? i / w.group : groups[i]) * kPanel;
      const float value = w.codebook()[static_cast<std::size_t>(code)] * scale_at(scales, at);
      take(i, offsets == nullptr ? value : value + offsets[first + at]);
    }
  } else if (w.packing == Packing::grouped) {
    w.grouped().for_row(row / kPanel, row % kPanel, take);
  } else if (w.packing == Packing::float32) {
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
    weights[i].packing = packing_of(specs[i]);
    if (weights[i].packing == Packing::grouped) weights[i].values = code_values(specs[i].format);
    weights[i].bytes = lay_out(weights[i]);
  }
  return weights;
}

std::vector<PackedWeight> pack_weights(const std::vector<WeightSpec>& specs, const WeightSource& source,
                                       ThreadPool& pool, const PlaceWeight& place) {
  std::vector<PackedWeight> weights = lay_out_weights(specs);
  std::int64_t bytes = 0;
  for (const PackedWeight& w : weights) bytes += w.bytes;
  require_memory({bytes}, "the weights");
  for (PackedWeight& w : weights) {
    w.data = AlignedBuffer(static_cast<std::size_t>(w.bytes), w.spec.name.c_str());
    if (place) place(static_cast<std::size_t>(&w - weights.data()), w);
  }
  PanelSink sink(weights);
  stream_weights(specs, source, pool, sink);
  return weights;
}

}  // namespace assay::cpu
