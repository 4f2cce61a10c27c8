// Matrix multiplications of int8 and of 4-bit weights.
#include <atomic>
#include <cmath>
#include <limits>

#include "assay/backend/cpu/run/expand_offsets.h"
#include "assay/backend/cpu/run/linear.h"
#include "assay/tensor/half.h"

namespace assay::cpu {

namespace {

// Codes of static inputs go from 0 to 255, those of the kernels from -128 on.
constexpr int kCodeOffset = 128;

// The codes of a row have a zero point of its own.
bool has_row_ranges(const PackedWeight& w, const LinearOp& op) {
  return w.spec.format == formats::kInt8 && !op.static_input;
}

// Widened by a row's inputs. What is not finite is passed over: it concerns its own row alone, which the
// kernels make NaN.
Range range_of_row(const float* x, std::int64_t k, const float* factors, Range range) {
  constexpr float kMax = std::numeric_limits<float>::max();
  for (std::int64_t i = 0; i < k; ++i) {
    const float value = factors == nullptr ? x[i] : x[i] * factors[i];
    range.low = value < range.low && value >= -kMax ? value : range.low;
    range.high = value > range.high && value <= kMax ? value : range.high;
  }
  return range;
}

// Calls look(place, magnitude) for the inputs of a row whose magnitude is `least` or more. They are rare:
// most are passed by in a loop that compilers make vectors of.
template <typename Look>
void for_near_outliers(const float* x, std::int64_t k, float least, const Look& look) {
  constexpr std::int64_t kAtOnce = 64;
  for (std::int64_t first = 0; first < k; first += kAtOnce) {
    const std::int64_t end = std::min(first + kAtOnce, k);
    int any = 0;
    for (std::int64_t i = first; i < end; ++i) any |= std::fabs(x[i]) >= least ? 1 : 0;
    for (std::int64_t i = first; any != 0 && i < end; ++i)
      if (std::fabs(x[i]) >= least) look(i, std::fabs(x[i]));
  }
}

}  // namespace

// Inputs are scale * (code - zero_point): what the zero point adds to an output does not depend on the
// inputs.
void Linear::fold_zero_points() {
  static_biases_.resize(packed_.weights.size());
  for (const Op& op : packed_.plan.ops) {
    const auto* linear = std::get_if<LinearOp>(&op.kind);
    if (linear == nullptr || !linear->static_input) continue;
    const PackedWeight& w = packed_.weight(linear->weight);
    const float* bias = packed_.vector(linear->bias);
    std::vector<float>& folded = static_biases_[static_cast<std::size_t>(linear->weight)];
    for (std::int64_t i = 0; i < w.spec.rows; ++i) {
      const double sum = w.sums()[i], unit = static_cast<double>(w.scales()[i]) / 127;
      const double zero = static_cast<double>(linear->static_input->scale) * unit * sum *
                          (linear->static_input->zero_point - kCodeOffset);
      folded.push_back(static_cast<float>((bias == nullptr ? 0.0 : static_cast<double>(bias[i])) - zero));
    }
  }
}

// The code of the inputs of all rows together.
StaticInput Linear::input_of_all(const LinearOp& op, const LinearArgs& whole) {
  const float* factors = op.input_factors.empty() ? nullptr : op.input_factors.data();
  const std::int64_t chunks = (whole.rows + kNormRows - 1) / kNormRows;
  tasks_.run(chunks, [&](std::int64_t chunk) {
    Range range;
    const std::int64_t end = std::min(whole.rows, (chunk + 1) * kNormRows);
    for (std::int64_t row = chunk * kNormRows; row < end; ++row)
      range = range_of_row(whole.x + row * whole.x_stride, whole.k, factors, range);
    ranges_[static_cast<std::size_t>(chunk)] = range;
  });
  Range all;
  for (const Range& range : std::span(ranges_).first(static_cast<std::size_t>(chunks)))
    all = {std::min(all.low, range.low), std::max(all.high, range.high)};
  const UniformCode code = dynamic_uint8_code(all);
  return {.scale = code.scale, .zero_point = code.zero_point};
}

// A feature is decomposed for all rows of the call when one of them has an outlier there.
void Linear::find_outliers(const LinearOp& op, const LinearArgs& whole) {
  outliers_.clear();
  if (packed_.weight(op.weight).spec.format != formats::kLlmInt8 || op.outlier_threshold <= 0) return;
  std::fill(is_outlier_.begin(), is_outlier_.end(), std::uint8_t{0});
  const float near_outlier = op.outlier_threshold * 0.999F;  // by float16, which is looked at from here on
  tasks_.run((whole.rows + kNormRows - 1) / kNormRows, [&](std::int64_t chunk) {
    const std::int64_t end = std::min(whole.rows, (chunk + 1) * kNormRows);
    for (std::int64_t row = chunk * kNormRows; row < end; ++row)
      for_near_outliers(whole.x + row * whole.x_stride, whole.k, near_outlier, [&](std::int64_t k, float x) {
        if (f16_to_float(float_to_f16(x)) >= op.outlier_threshold)
          std::atomic_ref(is_outlier_[static_cast<std::size_t>(k)]).store(1, std::memory_order_relaxed);
      });
  });
  for (std::int64_t k = 0; k < whole.k; ++k)
    if (is_outlier_[static_cast<std::size_t>(k)] != 0) outliers_.push_back(static_cast<std::int32_t>(k));
  outliers_seen_ += static_cast<std::int64_t>(outliers_.size());
  features_seen_ += whole.k;
}

LinearArgs Linear::quantize_inputs(const LinearOp& op, LinearArgs whole, const Buffer& in) {
  const PackedWeight& w = packed_.weight(op.weight);
  find_outliers(op, whole);
  Tiles codes = work_.int8.codes;
  codes.columns = w.k_padded() / 2;
  const float threshold =
      w.spec.format == formats::kLlmInt8
          ? op.outlier_threshold > 0 ? op.outlier_threshold : std::numeric_limits<float>::infinity()
          : 0.0F;
  const StaticInput fixed =
      op.has_tensor_scale ? input_of_all(op, whole) : op.static_input.value_or(StaticInput{.scale = 0});
  if (op.static_input) whole.bias = static_biases_[static_cast<std::size_t>(op.weight)].data();
  tasks_.run_rows(whole.rows, [&](std::int64_t first, std::int64_t rows) {
    packed_.table.quantize({.x = in.floats,
                            .x_stride = in.stride,
                            .codes = codes,
                            .first_row = first,
                            .rows = rows,
                            .k = whole.k,
                            .absmax = work_.int8.absmax,
                            .threshold = threshold,
                            .is_outlier = outliers_.empty() ? nullptr : is_outlier_.data(),
                            .factors = op.input_factors.empty() ? nullptr : op.input_factors.data(),
                            .zero_points = has_row_ranges(w, op) ? work_.int8.zero_points : nullptr,
                            .fixed_scale = fixed.scale,
                            .fixed_zero_point = fixed.zero_point - kCodeOffset,
                            .x_tiles = in.floats == nullptr ? in.tiles : kNoTiles});
  });
  whole.x_tiles = codes;
  return whole;
}

void Linear::run_int8(const LinearOp& op, const LinearArgs& whole, const ProductPart& part,
                      const LinearTarget& target) {
  const PackedWeight& w = packed_.weight(op.weight);
  run_tasks(whole, part, w, target, [&](const LinearArgs& args, const ProductPart& task) {
    const std::int64_t first = task.rows.first;
    packed_.table.linear_int8({.to = args,
                               .x_absmax = work_.int8.absmax + first,
                               .w_absmax = w.scales(),
                               .w_sums = w.sums(),
                               .x_zero = has_row_ranges(w, op) ? work_.int8.zero_points + first : nullptr,
                               .outliers = outliers_.data(),
                               .outlier_count = static_cast<std::int64_t>(outliers_.size())});
  });
}

// Inputs and weights are multiplied as bytes.
void Linear::run_int8_activations(const LinearOp& op, const LinearArgs& whole, const ProductPart& part,
                                  const LinearTarget& target, const ExpandArgs& weights) {
  const PackedWeight& w = packed_.weight(op.weight);
  const CodedRows coded = work_.coded_rows(whole.rows);
  const auto quantize = [&](std::int64_t first, std::int64_t rows) {
    packed_.table.quantize_groups({.x = whole.x,
                                   .x_stride = whole.x_stride,
                                   .x_tiles = whole.x_tiles,
                                   .first_row = first,
                                   .rows = rows,
                                   .k = whole.k,
                                   .k_padded = weights.k_padded,
                                   .group = weights.group,
                                   .unit = w.byte_codebook().unit,
                                   .out = coded});
  };
  const bool has_scratch = whole.rows > kFourBitRows;
  has_scratch ? tasks_.run_rows(whole.rows, quantize) : quantize(0, whole.rows);
  const auto multiply = [&](const LinearArgs& args, const ProductPart& task) {
    CodedRows x = coded;
    x.codes += task.rows.first * kInt8Columns;
    x.scales += task.rows.first;
    x.starts += task.rows.first;
    packed_.table.linear_coded_inputs(
        {.to = args,
         .weights = weights,
         .codebook = w.byte_codebook().values.data(),
         .x = x,
         .scratch = has_scratch ? work_.expanded(ThreadPool::worker()) : nullptr});
  };
  if (whole.rows <= kFewRows)
    run_tasks(whole, part, w, target, multiply);
  else
    run_panels(whole, part, kCodedPanels, target, multiply);
}

namespace {

// Rows times some panels that lie at `weights`.
void multiply_expanded(void (*kernel)(const LinearArgs&) noexcept, LinearArgs args, const ProductPart& task,
                       Packing packing, const void* weights) {
  const std::int64_t column = task.first_panel * kPanel;
  args.n = std::min(task.panels * kPanel, args.n - column);
  args.first_panel = 0;
  args.w = weights;
  args.packing = packing;
  if (args.bias != nullptr) args.bias += column;
  if (args.y != nullptr) args.y += column;
  if (args.y_tiles.data != nullptr) args.y_tiles.data += args.y_tiles.offset(0, column);
  kernel(args);
}

}  // namespace

// Codes become panels in the second-level cache, a few at a time, which are then multiplied like any other.
void Linear::run_four_bit(const LinearOp& op, const LinearArgs& whole, const ProductPart& part,
                          const LinearTarget& target) {
  const PackedWeight& w = packed_.weight(op.weight);
  const bool has_tiles = packed_.multiplies_tiles(w);
  const bool has_offsets = assay::has_offsets(w.spec.format);
  const std::int64_t groups = w.groups();
  const ExpandArgs expand{.codes = reinterpret_cast<const std::uint8_t*>(w.data.data()),
                          .scales = w.block_scales(),
                          .codebook = w.codebook().data(),
                          .k = whole.k,
                          .k_padded = w.k_padded(),
                          .group = w.group,
                          .panels = w.panels,
                          .packing = has_tiles ? Packing::bfloat16 : Packing::float32,
                          .out = nullptr,
                          .fetch = packed_.fetch};
  if (packed_.takes_int8_activations(op, whole.rows))
    return run_int8_activations(op, whole, part, target, expand);
  if (whole.rows <= packed_.table.four_bit_rows && !has_tiles && !has_offsets)
    return run_tasks(whole, part, w, target, [&](const LinearArgs& args, const ProductPart&) {
      packed_.table.linear_four_bit({.to = args, .weights = expand});
    });
  const auto kernel = has_tiles ? packed_.table.linear_tiles : packed_.table.linear;
  run_panels(whole, part, kExpandedPanels, target, [&](const LinearArgs& args, const ProductPart& task) {
    ExpandArgs some = expand;
    some.codes += task.first_panel * w.panel_bytes();
    some.scales = some.scales.from(task.first_panel * groups * kPanel);
    some.panels = task.panels;
    some.out = work_.expanded(ThreadPool::worker());
    const float* offsets = w.offsets();
    if (offsets != nullptr) offsets += task.first_panel * groups * kPanel;
    has_offsets ? expand_offsets(some, offsets, w.input_groups()) : packed_.table.expand(some);
    multiply_expanded(kernel, args, task, expand.packing, some.out);
  });
}

// Activations and grouped codes are multiplied as bytes.
void Linear::run_grouped_int8(const PackedWeight& w, const LinearArgs& whole, const ProductPart& part,
                              const LinearTarget& target) {
  const GroupedCodes all = w.grouped();
  const ByteValues values = byte_values_of(all);
  const GroupedRows coded = work_.grouped_rows(whole.rows);
  const auto quantize = [&](std::int64_t first, std::int64_t rows) {
    packed_.table.quantize_grouped({.x = whole.x,
                                    .x_stride = whole.x_stride,
                                    .x_tiles = whole.x_tiles,
                                    .first_row = first,
                                    .rows = rows,
                                    .k = whole.k,
                                    .k_padded = all.k_padded,
                                    .group = int8_group_of(all.run),
                                    .values = values,
                                    .out = coded});
  };
  whole.rows > kFourBitRows ? tasks_.run_rows(whole.rows, quantize) : quantize(0, whole.rows);
  const bool has_scratch = whole.rows > kFewRows;
  const auto multiply = [&](const LinearArgs& args, const ProductPart& task) {
    packed_.table.linear_grouped_int8(
        {.to = args,
         .weights = all,
         .values = values,
         .x = coded.from(task.rows.first),
         .scratch = has_scratch ? work_.expanded(ThreadPool::worker()) : nullptr,
         .fetch = packed_.grouped_fetch});
  };
  if (has_scratch)
    run_panels(whole, part, kCodedPanels, target, multiply);
  else
    run_tasks(whole, part, w, target, multiply);
}

// The same of codes with the scales of their checkpoint.
void Linear::run_grouped(const LinearOp& op, const LinearArgs& whole, const ProductPart& part,
                         const LinearTarget& target) {
  const PackedWeight& w = packed_.weight(op.weight);
  if (op.has_int8_activations) return run_grouped_int8(w, whole, part, target);
  const bool has_tiles = packed_.multiplies_tiles(w);
  const GroupedCodes all = w.grouped();
  if (packed_.table.linear_grouped != nullptr && whole.rows <= kFourBitRows && !has_tiles)
    return run_tasks(whole, part, w, target, [&](const LinearArgs& args, const ProductPart&) {
      packed_.table.linear_grouped({.to = args, .weights = all, .fetch = packed_.grouped_fetch});
    });
  const auto kernel = has_tiles ? packed_.table.linear_tiles : packed_.table.linear;
  run_panels(whole, part, kExpandedPanels, target, [&](const LinearArgs& args, const ProductPart& task) {
    ExpandGroupedArgs some{.weights = all,
                           .panels = task.panels,
                           .packing = has_tiles ? Packing::bfloat16 : Packing::float32,
                           .out = work_.expanded(ThreadPool::worker())};
    some.weights.codes += task.first_panel * all.code_bytes();
    some.weights.scales += task.first_panel * all.scale_bytes();
    packed_.table.expand_grouped(some);
    multiply_expanded(kernel, args, task, some.packing, some.out);
  });
}

}  // namespace assay::cpu
