#include "assay/backend/cuda/lower/pack.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "assay/backend/common/grouped_codes.h"
#include "assay/backend/common/weight_stream.h"
#include "assay/base/thread_pool.h"
#include "assay/quant/quantizer.h"
#include "assay/tensor/half.h"

namespace assay::cuda {

namespace {

PackedWeight laid_out(const WeightSpec& spec, Offsets& offsets) {
  PackedWeight w;
  w.spec = spec;
  const std::int64_t begin = offsets.used();
  if (w.is_vector()) {
    w.at = offsets.take(spec.columns * 4);
  } else {
    w.format = format_of(spec);
    if (w.format == MatrixFormat::grouped) {
      w.at = offsets.take(strips_of(spec.rows) * grouped_code_bytes(spec.format.bits, spec.columns));
      w.scales_at = offsets.take(strips_of(spec.rows) * scale_run_of(spec.format).panel_bytes(spec.columns));
      w.group = scale_run_of(spec.format).group();
      w.bytes = offsets.used() - begin;
      return w;
    }
    w.at = offsets.take(matrix_bytes(w.format, spec.rows, spec.columns));
    const std::int64_t outputs = strips_of(spec.rows) * kStrip;
    if (w.format == MatrixFormat::int8) {
      w.scales_at = offsets.take(outputs * 4);
      w.sums_at = offsets.take(outputs * 4);
    } else if (w.format == MatrixFormat::four_bit) {
      w.group = ScaleLayout(spec.format, spec.rows, spec.columns).group;
      const std::int64_t scale_bytes = scale_count(spec.rows, spec.columns, w.group) * 4;
      w.scales_at = offsets.take(scale_bytes);
      if (spec.format.offset != Offset::none) w.offsets_at = offsets.take(scale_bytes);
      if (spec.format.has_input_groups)
        w.input_groups_at = offsets.take(round_up(spec.columns, tile_inputs(w.format)) * 4);
    }
  }
  w.bytes = offsets.used() - begin;
  return w;
}

OpConstants laid_out(const Plan& plan, const LinearOp& op, Offsets& offsets) {
  OpConstants constants;
  if (op.static_input) constants.static_bias_at = offsets.take(plan.weight(op.weight).rows * 4);
  if (!op.input_factors.empty())
    constants.factors_at = offsets.take(static_cast<std::int64_t>(op.input_factors.size()) * 4);
  return constants;
}

// A weight as it will lie in the memory of the device.
class Image : public WeightSink {
 public:
  explicit Image(const PackedWeight& w) : w_(w), bytes_(static_cast<std::size_t>(w.bytes)) {}
  std::span<const std::byte> bytes() const { return bytes_; }
  float* vector() { return reinterpret_cast<float*>(bytes_.data()); }
  float* scales() { return reinterpret_cast<float*>(bytes_.data() + (w_.scales_at - w_.at)); }
  float* offsets() { return reinterpret_cast<float*>(bytes_.data() + (w_.offsets_at - w_.at)); }
  std::int32_t* sums() { return reinterpret_cast<std::int32_t*>(bytes_.data() + (w_.sums_at - w_.at)); }

  void put_vector(std::size_t /*weight*/, std::int64_t first, std::span<const float> values) override {
    std::copy(values.begin(), values.end(), vector() + first);
  }
  void put_floats(std::size_t /*weight*/, const FloatBlock& block) override {
    const auto put = [&](const auto& convert, auto format) {
      using Stored = decltype(convert(0.0F));
      for (std::int64_t i = 0; i < block.outputs; ++i)
        for (std::int64_t k = 0; k < block.inputs; ++k) {
          const Stored stored = convert(block.values[k * block.input_stride + i * block.output_stride]);
          std::memcpy(at(byte_of(format(), w_.spec.columns, block.first_output + i, block.first_input + k)),
                      &stored, sizeof stored);
        }
    };
    if (w_.format == MatrixFormat::float32)
      put([](float x) { return x; }, [] { return MatrixFormat::float32; });
    else if (w_.format == MatrixFormat::float16)
      put(float_to_f16, [] { return MatrixFormat::float16; });
    else
      put(float_to_bf16, [] { return MatrixFormat::bfloat16; });
  }
  void put_codes(std::size_t /*weight*/, std::int64_t output, const std::uint8_t* codes,
                 float absmax) override {
    const std::int64_t columns = w_.spec.columns;
    if (w_.format == MatrixFormat::int8) {
      for (std::int64_t k = 0; k < columns; ++k)
        *at(byte_of(MatrixFormat::int8, columns, output, k)) = static_cast<std::byte>(codes[k]);
      const auto* whole = reinterpret_cast<const std::int8_t*>(codes);
      scales()[output] = absmax;
      sums()[output] = std::accumulate(whole, whole + columns, std::int32_t{0});
    } else if (w_.format == MatrixFormat::grouped) {
      put_grouped_codes(bytes_.data(), w_.spec.format.bits, columns, output, codes);
    } else {
      for (std::int64_t k = 0; k < columns; ++k)
        *at(byte_of(MatrixFormat::four_bit, columns, output, k)) |=
            static_cast<std::byte>(codes[k] << shift_of_code(k));
    }
  }
  void put_block_scales(std::size_t /*weight*/, const TensorPart& tensor,
                        std::span<const float> values) override {
    w_.format == MatrixFormat::grouped ? grouped().put_factors(tensor, values, false)
                                       : put_by_group(tensor, values, scales());
  }
  void put_offsets(std::size_t /*weight*/, const TensorPart& tensor, std::span<const float> values) override {
    w_.format == MatrixFormat::grouped ? grouped().put_factors(tensor, values, true)
                                       : put_by_group(tensor, values, offsets());
  }
  void put_super_blocks(std::size_t /*weight*/, const TensorPart& tensor,
                        const SuperBlocks& blocks) override {
    grouped().put_super_blocks(tensor, blocks);
  }
  void put_input_groups(std::size_t /*weight*/, const TensorPart& /*tensor*/,
                        std::span<const std::int32_t> groups) override {
    std::copy(groups.begin(), groups.end(),
              reinterpret_cast<std::int32_t*>(bytes_.data() + (w_.input_groups_at - w_.at)));
  }

 private:
  GroupedPlace grouped() {
    return {bytes_.data(), bytes_.data() + (w_.scales_at - w_.at), w_.spec.format.bits,
            scale_run_of(w_.spec.format), w_.spec.columns};
  }
  void put_by_group(const TensorPart& tensor, std::span<const float> values, float* out) const {
    const WeightSpec& spec = tensor.spec;
    const ScaleLayout layout(spec.format, spec.rows, spec.columns);
    for (std::int64_t row = 0; row < spec.rows; ++row)
      for (std::int64_t k = 0; k < spec.columns; k += w_.group)
        out[scale_of(spec.columns, w_.group, tensor.first_output + spec.output_of(row), k)] =
            values[static_cast<std::size_t>(layout.at(row, k))];
  }
  std::byte* at(std::int64_t offset) { return bytes_.data() + offset; }

  const PackedWeight& w_;
  std::vector<std::byte> bytes_;
};

// What of a weight the host needs once more.
struct HostCopy {
  std::vector<float> vector, scales;
  std::vector<std::int32_t> sums;
};

// Inputs are scale * (code - zero_point): what the zero point adds to an output does not depend on inputs.
std::vector<float> folded_bias(const StaticInput& input, const HostCopy& weight, const HostCopy* bias) {
  std::vector<float> folded;
  for (std::size_t i = 0; i < weight.sums.size(); ++i) {
    const double unit = static_cast<double>(weight.scales[i]) / 127;
    const double zero =
        static_cast<double>(input.scale) * unit * weight.sums[i] * (input.zero_point - kCodeOffset);
    folded.push_back(
        static_cast<float>((bias == nullptr ? 0.0 : static_cast<double>(bias->vector[i])) - zero));
  }
  return folded;
}

}  // namespace

MatrixFormat format_of(const WeightSpec& spec) {
  if (is_int8(spec.format)) return MatrixFormat::int8;
  if (holds_stored_scales(spec.format)) return MatrixFormat::grouped;
  if (is_four_bit(spec.format)) return MatrixFormat::four_bit;
  return spec.format == formats::kBfloat16  ? MatrixFormat::bfloat16
         : spec.format == formats::kFloat16 ? MatrixFormat::float16
                                            : MatrixFormat::float32;
}

Arithmetic arithmetic_of(const WeightSpec& spec) {
  const Multiply multiply = spec.arithmetic.multiply;
  if (multiply == Multiply::tf32) return Arithmetic::tf32;
  if (!is_grouped(spec.format)) return Arithmetic::float32;  // others have their own
  return multiply == Multiply::bfloat16  ? Arithmetic::bfloat16
         : multiply == Multiply::float16 ? Arithmetic::float16
                                         : Arithmetic::float32;
}

bool takes_ordered_inputs(const WeightSpec& spec) {
  const MatrixFormat format = format_of(spec);
  const std::int64_t group =
      format == MatrixFormat::four_bit ? ScaleLayout(spec.format, spec.rows, spec.columns).group : 0;
  return takes_ordered_inputs(format, arithmetic_of(spec), group, has_offsets(spec.format));
}

bool norms_ordered_inputs(const WeightSpec& spec) {
  return takes_ordered_inputs(spec) && format_of(spec) != MatrixFormat::grouped;
}

void put_grouped_codes(std::byte* matrix, int bits, std::int64_t columns, std::int64_t output,
                       const std::uint8_t* codes) {
  const CodePlanes planes = planes_of_code(bits);
  std::byte* plane = matrix + output / kStrip * grouped_code_bytes(bits, columns);
  for (std::int64_t first = 0; first < columns; first += kSpan) {
    const std::int64_t count = std::min(kSpan, columns - first);
    const auto put = [&](int width, int shift) {
      for (std::int64_t k = 0; k < count; ++k) {
        const int part = codes[first + k] >> shift & ((1 << width) - 1);
        const std::int64_t bit = bit_in_plane(width, output, k);
        plane[bit / 8] |= static_cast<std::byte>(part << bit % 8);
      }
      plane += kStrip * 4 * width;
    };
    put(planes.low, 0);
    if (planes.high > 0) put(planes.high, planes.low);
  }
}

Bytes PackedWeight::weight_bytes() const {
  if (is_vector()) return {spec.columns * 4};
  switch (format) {
    case MatrixFormat::int8:
      return {spec.elements() + spec.rows * 4};
    case MatrixFormat::four_bit: {
      const std::int64_t scales = ScaleLayout(spec.format, spec.rows, spec.columns).count * 4;
      return {(spec.elements() + 1) / 2 + scales * (spec.format.offset == Offset::none ? 1 : 2) +
              (spec.format.has_input_groups ? spec.columns * 4 : 0)};
    }
    case MatrixFormat::grouped:
      return stored_bytes(spec.format, spec.rows, spec.columns);
    case MatrixFormat::float32:
      return {spec.elements() * 4};
    case MatrixFormat::float16:
    case MatrixFormat::bfloat16:
      return {spec.elements() * 2};
  }
  return {};
}

WeightLayout::WeightLayout(const Plan& plan) {
  Offsets offsets;
  for (const WeightSpec& spec : plan.weights) {
    weights.push_back(laid_out(spec, offsets));
    weight_bytes = weight_bytes + weights.back().weight_bytes();
  }
  for (const Op& op : plan.ops) {
    OpConstants& own = constants.emplace_back();
    if (const auto* linear = std::get_if<LinearOp>(&op.kind)) own = laid_out(plan, *linear, offsets);
    if (const auto* attention = std::get_if<AttentionOp>(&op.kind))
      if (!attention->alibi_slopes.empty()) own.slopes_at = offsets.take(attention->heads * 4LL);
  }
  constants.push_back(laid_out(plan, plan.head.product, offsets));
  bytes = offsets.used();
}

Weights::Weights(const Plan& plan, const WeightSource& source, const std::shared_ptr<Runtime>& runtime)
    : layout_(plan), memory_(runtime, layout_.bytes), places_(layout_.weights) {
  std::vector<const LinearOp*> linears(layout_.constants.size());
  std::map<WeightId, HostCopy> copies;
  for (std::size_t i = 0; i < linears.size(); ++i) {
    linears[i] = i == plan.ops.size() ? &plan.head.product : std::get_if<LinearOp>(&plan.ops[i].kind);
    if (linears[i] == nullptr || !linears[i]->static_input) continue;
    copies[linears[i]->weight];
    if (linears[i]->bias != kNone) copies[linears[i]->bias];
  }
  ThreadPool pool(default_thread_count());
  for (std::size_t i = 0; i < layout_.weights.size(); ++i) {
    const PackedWeight& w = layout_.weights[i];
    Image image(w);
    stream_weights({&w.spec, 1}, source, pool, image);
    runtime->upload(memory_.get() + w.at, image.bytes());
    const auto wanted = copies.find(static_cast<WeightId>(i));
    if (wanted == copies.end()) continue;
    if (w.is_vector()) {
      wanted->second.vector.assign(image.vector(), image.vector() + w.spec.columns);
    } else {
      wanted->second.scales.assign(image.scales(), image.scales() + w.spec.rows);
      wanted->second.sums.assign(image.sums(), image.sums() + w.spec.rows);
    }
  }
  const auto put = [&](std::int64_t at, const std::vector<float>& values) {
    if (at >= 0) runtime->upload(memory_.get() + at, std::as_bytes(std::span(values)));
  };
  for (std::size_t i = 0; i < linears.size(); ++i) {
    const OpConstants& own = layout_.constants[i];
    if (const LinearOp* linear = linears[i]) {
      put(own.factors_at, linear->input_factors);
      if (linear->static_input)
        put(own.static_bias_at, folded_bias(*linear->static_input, copies[linear->weight],
                                            linear->bias == kNone ? nullptr : &copies[linear->bias]));
    } else if (const auto* attention = std::get_if<AttentionOp>(&plan.ops[i].kind)) {
      put(own.slopes_at, attention->alibi_slopes);
    }
  }
}

void Weights::exchange(WeightId id, const WeightSpec& spec, const WeightSource& source,
                       const std::shared_ptr<Runtime>& runtime) {
  const auto index = static_cast<std::size_t>(id);
  Offsets offsets;
  PackedWeight fresh = laid_out(spec, offsets);
  Image image(fresh);
  ThreadPool pool(default_thread_count());
  stream_weights({&spec, 1}, source, pool, image);
  const PackedWeight& place = places_[index];
  OwnedMemory own;
  if (fresh.bytes <= place.bytes) {
    fresh.at += place.at;
    for (std::int64_t* part : {&fresh.scales_at, &fresh.offsets_at, &fresh.input_groups_at, &fresh.sums_at})
      if (*part > 0) *part += place.at;
  } else {
    own = OwnedMemory(runtime, fresh.bytes);
  }
  runtime->synchronize();  // nothing reads what was there
  runtime->upload(own.bytes() > 0 ? own.get() : memory_.get() + fresh.at, image.bytes());
  own_.erase(id);
  if (own.bytes() > 0) own_.emplace(id, std::move(own));
  layout_.weights[index] = std::move(fresh);
  layout_.weight_bytes = {};
  for (const PackedWeight& w : layout_.weights)
    layout_.weight_bytes = layout_.weight_bytes + w.weight_bytes();
  layout_.bytes = memory_.bytes();
  for (const auto& [weight, memory] : own_) layout_.bytes += memory.bytes();
}

Matrix Weights::matrix(WeightId id) const {
  if (id == kNone) return {};
  const PackedWeight& w = packed(id);
  Matrix matrix{.data = at<std::byte>(id, w.at),
                .scales = {},
                .offsets = {},
                .input_groups = {},
                .outputs = w.spec.rows,
                .inputs = w.spec.columns,
                .group = w.group,
                .format = w.format};
  if (w.scales_at > 0) matrix.scales = at<float>(id, w.scales_at);
  if (w.offsets_at > 0) matrix.offsets = at<float>(id, w.offsets_at);
  if (w.input_groups_at > 0) matrix.input_groups = at<std::int32_t>(id, w.input_groups_at);
  if (w.format == MatrixFormat::grouped) {
    const std::vector<float> values = code_values(w.spec.format);
    std::copy_n(values.begin(), std::min(values.size(), std::size(matrix.codebook)), matrix.codebook);
    matrix.run = scale_run_of(w.spec.format);
  }
  if (w.format == MatrixFormat::four_bit)
    std::copy_n(codebook_values(w.spec.format).begin(), std::size(matrix.codebook), matrix.codebook);
  return matrix;
}

DevicePointer<const std::int32_t> Weights::sums(WeightId id) const {
  return at<std::int32_t>(id, packed(id).sums_at);
}

DevicePointer<const float> Weights::vector(WeightId id) const {
  return id == kNone ? DevicePointer<const float>() : at<float>(id, packed(id).at);
}

DevicePointer<const float> Weights::constant(std::int64_t at) const {
  return at < 0 ? DevicePointer<const float>() : memory_.at<float>(at);
}

}  // namespace assay::cuda
