#include "assay/backend/cuda/weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>

#include "assay/base/error.h"
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
    w.at = offsets.take(matrix_bytes(w.format, spec.rows, spec.columns));
    const std::int64_t outputs = strips_of(spec.rows) * kStrip;
    if (w.format == MatrixFormat::int8) {
      w.scales_at = offsets.take(outputs * 4);
      w.sums_at = offsets.take(outputs * 4);
    } else if (w.format == MatrixFormat::four_bit) {
      w.group = ScaleLayout(spec.format, spec.rows, spec.columns).group;
      w.scales_at = offsets.take(scale_count(spec.rows, spec.columns, w.group) * 4);
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
class Image {
 public:
  explicit Image(const PackedWeight& w) : w_(w), bytes_(static_cast<std::size_t>(w.bytes)) {}
  std::span<const std::byte> bytes() const { return bytes_; }
  float* vector() { return reinterpret_cast<float*>(bytes_.data()); }
  float* scales() { return reinterpret_cast<float*>(bytes_.data() + (w_.scales_at - w_.at)); }
  std::int32_t* sums() { return reinterpret_cast<std::int32_t*>(bytes_.data() + (w_.sums_at - w_.at)); }

  // Element k of output `first_output + i` is values[k * k_stride + i * output_stride].
  void put_floats(std::int64_t first_output, std::int64_t count, std::int64_t first_k, std::int64_t count_k,
                  const float* values, std::int64_t k_stride, std::int64_t output_stride) {
    const auto put = [&](const auto& convert, auto format) {
      using Stored = decltype(convert(0.0F));
      for (std::int64_t i = 0; i < count; ++i)
        for (std::int64_t k = 0; k < count_k; ++k) {
          const Stored stored = convert(values[k * k_stride + i * output_stride]);
          std::memcpy(at(byte_of(format(), w_.spec.columns, first_output + i, first_k + k)), &stored,
                      sizeof stored);
        }
    };
    if (w_.format == MatrixFormat::float32)
      put([](float x) { return x; }, [] { return MatrixFormat::float32; });
    else if (w_.format == MatrixFormat::float16)
      put(float_to_f16, [] { return MatrixFormat::float16; });
    else
      put(float_to_bf16, [] { return MatrixFormat::bfloat16; });
  }
  // The codes of an output, one in a byte.
  void put_codes(std::int64_t output, const std::uint8_t* codes) {
    const std::int64_t columns = w_.spec.columns;
    if (w_.format == MatrixFormat::int8) {
      for (std::int64_t k = 0; k < columns; ++k)
        *at(byte_of(MatrixFormat::int8, columns, output, k)) = static_cast<std::byte>(codes[k]);
      const auto* whole = reinterpret_cast<const std::int8_t*>(codes);
      sums()[output] = std::accumulate(whole, whole + columns, std::int32_t{0});
    } else {
      for (std::int64_t k = 0; k < columns; ++k)
        *at(byte_of(MatrixFormat::four_bit, columns, output, k)) |=
            static_cast<std::byte>(codes[k] << shift_of_code(k));
    }
  }

 private:
  std::byte* at(std::int64_t offset) { return bytes_.data() + offset; }

  const PackedWeight& w_;
  std::vector<std::byte> bytes_;
};

// One tensor of a weight, which is read in pieces of whole stored rows.
class TensorPacker {
 public:
  TensorPacker(const PackedWeight& w, const TensorPart& part, const WeightSource& source, Image& image)
      : w_(w), spec_(part.spec), first_output_(part.first_output), source_(source), image_(image) {
    if (w.is_vector() || !is_quantized(spec_.format)) return;
    if (spec_.is_stored_quantized)
      scales_ = source.read_scales(spec_);
    else
      scales_.resize(static_cast<std::size_t>(ScaleLayout(spec_.format, spec_.rows, spec_.columns).count));
  }

  std::int64_t stored_rows() const { return spec_.stored_transposed ? spec_.columns : spec_.rows; }
  std::int64_t stored_width() const { return spec_.stored_transposed ? spec_.rows : spec_.columns; }
  std::int64_t rows_of_piece() const {
    // A scale belongs to inputs of all stored rows of a transposed matrix.
    if (is_coded() && spec_.stored_transposed) return stored_rows();
    constexpr std::int64_t kPieceFloats = std::int64_t{1} << 18;
    return std::max(kQuantizedRows, kPieceFloats / stored_width() / kQuantizedRows * kQuantizedRows);
  }

  void pack(std::int64_t first, std::int64_t count) {
    if (is_coded() && spec_.is_stored_quantized) {
      std::vector<std::uint8_t> codes(static_cast<std::size_t>(count * spec_.columns));
      source_.read_codes(spec_, first, count, codes.data());
      return put_codes(first, count, codes.data());
    }
    std::vector<float> rows(static_cast<std::size_t>(count * stored_width()));
    source_.read_rows(spec_, first, count, rows.data());
    if (spec_.offset != 0)
      for (float& x : rows) x += spec_.offset;
    if (!spec_.column_factors.empty()) apply_factors(first, count, rows);
    if (w_.is_vector())
      for (std::int64_t i = 0; i < spec_.columns; ++i)
        image_.vector()[first_output_ + spec_.output_of(i)] = rows[static_cast<std::size_t>(i)];
    else if (is_coded())
      quantize(first, count, rows);
    else if (spec_.stored_transposed)
      image_.put_floats(first_output_, spec_.rows, first, count, rows.data(), spec_.rows, 1);
    else
      for (std::int64_t i = 0; i < count; ++i)
        image_.put_floats(first_output_ + spec_.output_of(first + i), 1, 0, spec_.columns,
                          rows.data() + i * spec_.columns, 1, 0);
  }

  // Scales of 4-bit blocks, when all of them are known.
  void finish() {
    if (!is_coded() || !is_four_bit(spec_.format)) return;
    if (has_nested_scales(spec_.format) && !spec_.is_stored_quantized)
      unnest_scales(nest_scales(scales_), scales_.data());
    const ScaleLayout layout(spec_.format, spec_.rows, spec_.columns);
    for (std::int64_t row = 0; row < spec_.rows; ++row)
      for (std::int64_t k = 0; k < spec_.columns; k += w_.group)
        image_.scales()[scale_of(spec_.columns, w_.group, first_output_ + spec_.output_of(row), k)] =
            scales_[static_cast<std::size_t>(layout.at(row, k))];
  }

 private:
  bool is_coded() const { return !w_.is_vector() && is_quantized(spec_.format); }

  void apply_factors(std::int64_t first, std::int64_t count, std::vector<float>& rows) const {
    const std::int64_t width = stored_width();
    for (std::int64_t row = 0; row < count; ++row)
      for (std::int64_t i = 0; i < width; ++i)
        rows[static_cast<std::size_t>(row * width + i)] *=
            spec_.column_factors[static_cast<std::size_t>(spec_.stored_transposed ? first + row : i)];
  }
  void quantize(std::int64_t first, std::int64_t count, std::vector<float>& rows) {
    if (!spec_.stored_transposed) return quantize_outputs(first, count, rows);
    std::vector<float> outputs(static_cast<std::size_t>(kQuantizedRows * spec_.columns));
    for (std::int64_t begin = 0; begin < spec_.rows; begin += kQuantizedRows) {
      const std::int64_t size = std::min(kQuantizedRows, spec_.rows - begin);
      for (std::int64_t k = 0; k < spec_.columns; ++k)
        for (std::int64_t i = 0; i < size; ++i)
          outputs[static_cast<std::size_t>(i * spec_.columns + k)] =
              rows[static_cast<std::size_t>(k * spec_.rows + begin + i)];
      quantize_outputs(begin, size, outputs);
    }
  }
  void quantize_outputs(std::int64_t first, std::int64_t count, std::vector<float>& rows) {
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(count * spec_.columns));
    const ScaleLayout layout(spec_.format, spec_.rows, spec_.columns);
    quantize_rows(spec_.format, spec_.allows_non_finite, fmt::format("tensor '{}'", spec_.name),
                  spec_.columns, std::span(rows).first(codes.size()), codes.data(),
                  scales_.data() + layout.at(first, 0));
    put_codes(first, count, codes.data());
  }
  void put_codes(std::int64_t first, std::int64_t count, const std::uint8_t* codes) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t output = first_output_ + spec_.output_of(first + i);
      image_.put_codes(output, codes + i * spec_.columns);
      if (is_int8(spec_.format)) image_.scales()[output] = scales_[static_cast<std::size_t>(first + i)];
    }
  }

  const PackedWeight& w_;
  WeightSpec spec_;
  std::int64_t first_output_;
  const WeightSource& source_;
  Image& image_;
  std::vector<float> scales_;  // of the tensor, as ScaleLayout has it
};

void pack(const PackedWeight& w, const WeightSource& source, ThreadPool& pool, Image& image) {
  for (const TensorPart& part : tensors_of(w.spec)) {
    TensorPacker packer(w, part, source, image);
    const std::int64_t rows = packer.stored_rows(), at_once = packer.rows_of_piece();
    std::atomic<std::int64_t> next{0};
    std::mutex mutex;
    std::exception_ptr failure;
    const auto work = [&](std::int64_t) {
      try {
        for (std::int64_t first = at_once * next++; first < rows; first = at_once * next++)
          packer.pack(first, std::min(at_once, rows - first));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (failure == nullptr) failure = std::current_exception();
        next = rows;
      }
    };
    rows > at_once ? pool.run(pool.size(), work) : work(0);
    if (failure != nullptr) std::rethrow_exception(failure);
    packer.finish();
  }
}

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
  if (is_four_bit(spec.format)) return MatrixFormat::four_bit;
  return spec.format == formats::kBfloat16  ? MatrixFormat::bfloat16
         : spec.format == formats::kFloat16 ? MatrixFormat::float16
                                            : MatrixFormat::float32;
}

Arithmetic arithmetic_of(const WeightSpec& spec) {
  const Multiply multiply = spec.arithmetic.multiply;
  if (multiply == Multiply::tf32) return Arithmetic::tf32;
  if (!is_four_bit(spec.format)) return Arithmetic::float32;  // others have their own
  return multiply == Multiply::bfloat16  ? Arithmetic::bfloat16
         : multiply == Multiply::float16 ? Arithmetic::float16
                                         : Arithmetic::float32;
}

Bytes PackedWeight::weight_bytes() const {
  if (is_vector()) return {spec.columns * 4};
  switch (format) {
    case MatrixFormat::int8:
      return {spec.elements() + spec.rows * 4};
    case MatrixFormat::four_bit:
      return {(spec.elements() + 1) / 2 + ScaleLayout(spec.format, spec.rows, spec.columns).count * 4};
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
    if (const auto* linear = std::get_if<LinearOp>(&op.what)) own = laid_out(plan, *linear, offsets);
    if (const auto* attention = std::get_if<AttentionOp>(&op.what))
      if (!attention->alibi_slopes.empty()) own.slopes_at = offsets.take(attention->heads * 4LL);
  }
  constants.push_back(laid_out(plan, plan.head.product, offsets));
  bytes = offsets.used();
}

Weights::Weights(const Plan& plan, const WeightSource& source, const std::shared_ptr<Runtime>& runtime)
    : layout_(plan), memory_(runtime, layout_.bytes) {
  std::vector<const LinearOp*> linears(layout_.constants.size());
  std::map<WeightId, HostCopy> copies;
  for (std::size_t i = 0; i < linears.size(); ++i) {
    linears[i] = i == plan.ops.size() ? &plan.head.product : std::get_if<LinearOp>(&plan.ops[i].what);
    if (linears[i] == nullptr || !linears[i]->static_input) continue;
    copies[linears[i]->weight];
    if (linears[i]->bias != kNone) copies[linears[i]->bias];
  }
  ThreadPool pool(default_thread_count());
  for (std::size_t i = 0; i < layout_.weights.size(); ++i) {
    const PackedWeight& w = layout_.weights[i];
    Image image(w);
    pack(w, source, pool, image);
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
    } else if (const auto* attention = std::get_if<AttentionOp>(&plan.ops[i].what)) {
      put(own.slopes_at, attention->alibi_slopes);
    }
  }
}

Matrix Weights::matrix(WeightId id) const {
  if (id == kNone) return {};
  const PackedWeight& w = packed(id);
  Matrix matrix{.data = memory_.at<std::byte>(w.at),
                .scales = {},
                .outputs = w.spec.rows,
                .inputs = w.spec.columns,
                .group = w.group,
                .format = w.format};
  if (w.scales_at > 0) matrix.scales = memory_.at<float>(w.scales_at);
  if (w.format == MatrixFormat::four_bit)
    std::copy_n(code_values(w.spec.format).begin(), std::size(matrix.book), matrix.book);
  return matrix;
}

DevicePointer<const std::int32_t> Weights::sums(WeightId id) const {
  return memory_.at<std::int32_t>(packed(id).sums_at);
}

DevicePointer<const float> Weights::vector(WeightId id) const {
  return id == kNone ? DevicePointer<const float>() : memory_.at<float>(packed(id).at);
}

DevicePointer<const float> Weights::constant(std::int64_t at) const {
  return at < 0 ? DevicePointer<const float>() : memory_.at<float>(at);
}

}  // namespace assay::cuda
