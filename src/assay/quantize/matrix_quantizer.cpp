#include "assay/quantize/matrix_quantizer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <span>

#include "assay/base/error.h"
#include "assay/base/memory.h"
#include "assay/quant/quantizer.h"
#include "assay/tensor/half.h"

namespace assay {

namespace {

constexpr std::int64_t kSlab = std::int64_t{1} << 18;  // numbers of a tensor held at once, where that will do

// Calls task(i) for 0 <= i < count on the pool's threads; throws the first of what they throw.
template <typename Task>
void run_all(ThreadPool& pool, std::int64_t count, const Task& task) {
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  pool.run(pool.size(), [&](std::int64_t) {
    try {
      for (std::int64_t i = next++; i < count; i = next++) task(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (failure == nullptr) failure = std::current_exception();
      next = count;
    }
  });
  if (failure != nullptr) std::rethrow_exception(failure);
}

constexpr std::int64_t kOutputs = kQuantizedRows;  // of a task
std::int64_t tasks_of(const WeightSpec& weight) {
  return (weight.rows + kOutputs - 1) / kOutputs;
}
// The elements of the outputs [64 task, ...), as a span of their offset and size.
struct Part {
  std::size_t first, size;
};
Part part_of(const WeightSpec& weight, std::int64_t task) {
  const std::int64_t first = task * kOutputs, count = std::min(kOutputs, weight.rows - first);
  return {static_cast<std::size_t>(first * weight.columns), static_cast<std::size_t>(count * weight.columns)};
}

// What the element's column was multiplied by for SmoothQuant.
float factor_of(const WeightSpec& weight, std::size_t i) {
  return weight.column_factors.empty() ? 1.0F : weight.column_factors[i % weight.column_factors.size()];
}

}  // namespace

// The number as the type holds it.
float rounded(DType dtype, float x) {
  if (dtype == DType::bf16) return bf16_to_float(float_to_bf16(x));
  if (dtype == DType::f16) return f16_to_float(float_to_f16(x));
  return x;
}

MatrixQuantizer::MatrixQuantizer(const ModelFolder& folder, WeightFormat format, DType dtype,
                                 bool allows_non_finite, ThreadPool& pool)
    : folder_(folder), format_(format), dtype_(dtype), allows_non_finite_(allows_non_finite), pool_(pool) {}

Quantized MatrixQuantizer::operator()(const WeightSpec& weight) {
  read(weight);
  Quantized out;
  codes_.resize(originals_.size());
  quantize(weight, out);
  measure(weight, out);
  return out;
}

// Fills originals_ [outputs][inputs], transposing what is stored the other way.
void MatrixQuantizer::read(const WeightSpec& weight) {
  require_memory({weight.elements() * 9}, "quantizing " + weight.name);
  const CheckpointTensor at = folder_.find(weight.name);
  originals_.resize(static_cast<std::size_t>(weight.elements()));
  const std::int64_t width = weight.stored_transposed ? weight.rows : weight.columns;
  const std::int64_t height = weight.stored_transposed ? weight.columns : weight.rows;
  const std::int64_t per_slab = std::max<std::int64_t>(16, kSlab / width / 16 * 16);
  run_all(pool_, (height + per_slab - 1) / per_slab, [&](std::int64_t i) {
    const std::int64_t first = i * per_slab, count = std::min(per_slab, height - first);
    if (!weight.stored_transposed)
      return at.read_floats(first * width, count * width, originals_.data() + first * width);
    std::vector<float> slab(static_cast<std::size_t>(count * width));
    at.read_floats(first * width, count * width, slab.data());
    for (std::int64_t begin = 0; begin < count; begin += 16)  // a line of the transposed rows at once
      for (std::int64_t output = 0; output < width; ++output)
        for (std::int64_t k = begin; k < std::min(begin + 16, count); ++k)
          originals_[static_cast<std::size_t>(output * weight.columns + first + k)] =
              slab[static_cast<std::size_t>(k * width + output)];
  });
}

// rows_: what is quantized, the originals as the type of everything else holds them; for int8 of our own as
// they are, smoothed. Originals that are not finite count as 0.
void MatrixQuantizer::round_rows(const WeightSpec& weight, std::size_t first, std::size_t size) {
  for (std::size_t i = first; i < first + size; ++i) {
    rows_[i] =
        format_ == WeightFormat::int8 ? originals_[i] * factor_of(weight, i) : rounded(dtype_, originals_[i]);
    const float held = format_ == WeightFormat::llm_int8 ? rounded(DType::f16, rows_[i]) : rows_[i];
    if (!std::isfinite(held) && allows_non_finite_) originals_[i] = 0;
  }
}

void MatrixQuantizer::quantize(const WeightSpec& weight, Quantized& out) {
  const ScaleLayout layout(format_, weight.rows, weight.columns);
  const std::string where = folder_.find(weight.name).where();
  rows_.resize(originals_.size());
  out.scales.resize(static_cast<std::size_t>(layout.count));
  std::atomic<std::int64_t> replaced{0};
  run_all(pool_, tasks_of(weight), [&](std::int64_t task) {
    const auto [first, size] = part_of(weight, task);
    round_rows(weight, first, size);
    replaced +=
        quantize_rows(format_, allows_non_finite_, where, weight.columns, {rows_.data() + first, size},
                      codes_.data() + first, out.scales.data() + layout.at(task * kOutputs, 0));
  });
  out.non_finite = replaced;
  if (has_nested_scales(format_)) {
    out.nested = nest_scales(out.scales);
    unnest_scales(out.nested, out.scales.data());
  }
  if (is_int8(format_))
    out.codes = codes_;
  else
    pack_pairs(weight, out);
}

// Two codes to a byte, the first of them high, as bitsandbytes has them.
void MatrixQuantizer::pack_pairs(const WeightSpec& weight, Quantized& out) {
  const auto& values = code_values(format_);
  const auto zero = static_cast<std::uint8_t>(std::find(values.begin(), values.end(), 0.0F) - values.begin());
  out.codes.resize((rows_.size() + 1) / 2);
  run_all(pool_, tasks_of(weight), [&](std::int64_t task) {
    const auto [first, size] = part_of(weight, task);
    for (std::size_t i = first; i < first + size; i += 2) {
      const std::uint8_t low = i + 1 < rows_.size() ? codes_[i + 1] : zero;  // where their number is odd
      out.codes[i / 2] = static_cast<std::uint8_t>(codes_[i] << 4 | low);
    }
  });
}

void MatrixQuantizer::measure(const WeightSpec& weight, Quantized& out) {
  std::vector<ReconstructionSums> sums(static_cast<std::size_t>(tasks_of(weight)));
  const auto width = static_cast<std::size_t>(weight.columns);
  const ScaleLayout layout(format_, weight.rows, weight.columns);
  run_all(pool_, tasks_of(weight), [&](std::int64_t task) {
    const auto [first, size] = part_of(weight, task);
    for (std::size_t i = first; i < first + size; ++i) {
      const auto row = static_cast<std::int64_t>(i / width), column = static_cast<std::int64_t>(i % width);
      rows_[i] =
          dequantized(format_, codes_[i], out.scales[static_cast<std::size_t>(layout.at(row, column))]) /
          factor_of(weight, i);
    }
    sums[static_cast<std::size_t>(task)].add({originals_.data() + first, size}, {rows_.data() + first, size});
  });
  ReconstructionSums all;
  for (const ReconstructionSums& part : sums) all.merge(part);
  out.error = all.result();
}

}  // namespace assay
