#include "assay/quantize/matrix_quantizer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/memory.h"
#include "assay/quant/quantizer.h"
#include "assay/quantize/matrix_rows.h"
#include "assay/tensor/half.h"

namespace assay {

namespace {

// What the element's column was multiplied by for SmoothQuant.
float factor_of(const WeightSpec& weight, std::size_t i) {
  return weight.column_factors.empty() ? 1.0F : weight.column_factors[i % weight.column_factors.size()];
}

}  // namespace

float rounded(DType dtype, float x) {
  if (dtype == DType::bf16) return bf16_to_float(float_to_bf16(x));
  if (dtype == DType::f16) return f16_to_float(float_to_f16(x));
  return x;
}

std::int64_t code_bytes(const WeightSpec& weight) {
  return is_int8(weight.format) ? weight.elements() : (weight.elements() + 1) / 2;
}

MatrixQuantizer::MatrixQuantizer(const ModelSource& source, WeightFormat format, DType dtype,
                                 bool allows_non_finite, ThreadPool& pool, OnRows on_rows)
    : source_(source),
      format_(format),
      dtype_(dtype),
      allows_non_finite_(allows_non_finite),
      pool_(pool),
      on_rows_(std::move(on_rows)),
      slabs_(static_cast<std::size_t>(pool.size())) {}

template <typename Take>
void MatrixQuantizer::for_slabs(const WeightSpec& weight, const Take& take) {
  const std::int64_t per_slab = rows_per_slab(weight.columns, weight.stored_transposed),
                     together = per_slab * kSlabsTogether * pool_.size();
  constexpr std::int64_t kBytesPerNumber = 14;  // that a Slab takes for each
  require_memory({std::min(weight.rows, per_slab * pool_.size()) * weight.columns * kBytesPerNumber},
                 "quantizing " + weight.name);
  for (std::int64_t begin = 0; begin < weight.rows; begin += together) {
    const std::int64_t end = std::min(weight.rows, begin + together);
    run_all(pool_, (end - begin + per_slab - 1) / per_slab, [&](std::int64_t i) {
      const std::int64_t first = begin + i * per_slab;
      Slab& slab = slabs_[static_cast<std::size_t>(ThreadPool::worker())];
      read(weight, first, std::min(per_slab, end - first), slab);
      take(slab, first);
    });
    on_rows_(weight, end - begin);
  }
}

NestedScales MatrixQuantizer::nest(const WeightSpec& weight) {
  const ScaleLayout layout(format_, weight.rows, weight.columns);
  const std::string where = source_.find(weight.name).where();
  std::vector<float> scales(static_cast<std::size_t>(layout.count));
  for_slabs(weight, [&](Slab& slab, std::int64_t first) {
    round_rows(weight, slab);
    find_block_scales(allows_non_finite_, where, slab.rows, scales.data() + layout.at(first, 0));
  });
  return nest_scales(scales);
}

Quantized MatrixQuantizer::operator()(const WeightSpec& weight, const NestedScales* nested,
                                      const CodeSink& sink) {
  const ScaleLayout layout(format_, weight.rows, weight.columns);
  const std::string where = source_.find(weight.name).where();
  Quantized out;
  out.scales.resize(static_cast<std::size_t>(layout.count));
  std::vector<float> held;  // what the file gives back
  if (nested != nullptr) {
    held.resize(out.scales.size());
    unnest_scales(*nested, held.data());
  }
  const std::vector<float>& restored = nested != nullptr ? held : out.scales;
  // Sums of 64 rows each, merged in order: the errors do not depend on slabs or threads.
  std::vector<ReconstructionSums> sums(
      static_cast<std::size_t>((weight.rows + kQuantizedRows - 1) / kQuantizedRows));
  std::atomic<std::int64_t> replaced{0};
  const auto width = static_cast<std::size_t>(weight.columns);
  for_slabs(weight, [&](Slab& slab, std::int64_t first) {
    round_rows(weight, slab);
    slab.codes.resize(slab.rows.size());
    replaced += quantize_rows(format_, allows_non_finite_, where, weight.columns, slab.rows,
                              slab.codes.data(), out.scales.data() + layout.at(first, 0));
    const std::int64_t before = first * weight.columns;
    if (is_int8(format_))
      sink(static_cast<std::uint64_t>(before), std::as_bytes(std::span(slab.codes)));
    else
      sink(static_cast<std::uint64_t>(before / 2), packed_pairs(slab));
    for (std::size_t i = 0; i < slab.rows.size(); ++i) {
      const auto row = first + static_cast<std::int64_t>(i / width),
                 column = static_cast<std::int64_t>(i % width);
      slab.rows[i] =
          dequantized(format_, slab.codes[i], restored[static_cast<std::size_t>(layout.at(row, column))]) /
          factor_of(weight, i);
    }
    constexpr auto kRows = static_cast<std::size_t>(kQuantizedRows);
    for (std::size_t i = 0; i < slab.rows.size(); i += kRows * width) {
      const std::size_t size = std::min(kRows * width, slab.rows.size() - i);
      sums[static_cast<std::size_t>(first) / kRows + i / (kRows * width)].add(
          std::span(slab.originals).subspan(i, size), std::span(slab.rows).subspan(i, size));
    }
  });
  ReconstructionSums all;
  for (const ReconstructionSums& part : sums) all.merge(part);
  out.error = all.result();
  out.non_finite = replaced;
  return out;
}

// Rows [first_row, first_row + rows) of the outputs.
void MatrixQuantizer::read(const WeightSpec& weight, std::int64_t first_row, std::int64_t rows,
                           Slab& slab) const {
  slab.originals.resize(static_cast<std::size_t>(rows * weight.columns));
  read_matrix_rows(source_.find(weight.name), {weight.rows, weight.columns, weight.stored_transposed},
                   first_row, rows, slab.stored, slab.originals.data());
}

// What is quantized: the originals as the type of everything else holds them; for int8 of our own as they
// are, smoothed. Originals that are not finite count as 0.
void MatrixQuantizer::round_rows(const WeightSpec& weight, Slab& slab) const {
  slab.rows.resize(slab.originals.size());
  for (std::size_t i = 0; i < slab.rows.size(); ++i) {
    slab.rows[i] = format_ == formats::kInt8 ? slab.originals[i] * factor_of(weight, i)
                                             : rounded(dtype_, slab.originals[i]);
    const float held = format_ == formats::kLlmInt8 ? rounded(DType::f16, slab.rows[i]) : slab.rows[i];
    if (!std::isfinite(held) && allows_non_finite_) slab.originals[i] = 0;
  }
}

// Two codes to a byte, the first of them high, as bitsandbytes has them; of an odd number the last is zero.
std::span<const std::byte> MatrixQuantizer::packed_pairs(Slab& slab) const {
  const auto& values = codebook_values(format_);
  const auto zero = static_cast<std::uint8_t>(std::find(values.begin(), values.end(), 0.0F) - values.begin());
  slab.packed.resize((slab.codes.size() + 1) / 2);
  for (std::size_t i = 0; i < slab.codes.size(); i += 2) {
    const std::uint8_t low = i + 1 < slab.codes.size() ? slab.codes[i + 1] : zero;
    slab.packed[i / 2] = static_cast<std::byte>(slab.codes[i] << 4 | low);
  }
  return slab.packed;
}

}  // namespace assay
