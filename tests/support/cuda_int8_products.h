// Products by int8 matrices of rows that they quantize, and the same by a norm, a quantization, a product of
// many rows and a gate by themselves.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/cuda_kernels.h"
#include "support/cuda_ordered.h"

namespace assay::cuda::testing_support {

struct Int8Case {
  Shape shape;
  QuantizeArgs::Kind kind = QuantizeArgs::Kind::row_ranges;
  bool has_norm = false, has_factors = false, adds = false, has_others = false, has_zero = false;
  Activation activation = Activation::none;
  std::int64_t padding = 0;
  float magnitude = 1;
};

class Int8Products : public CudaKernels {
 protected:
  using Kind = QuantizeArgs::Kind;
  explicit Int8Products(const EmulatedDevice& device = {}) : CudaKernels(make_test_runtime(device)) {}
  void set(const Int8Case& c) {
    case_ = c;
    const auto [outputs, inputs, rows] = c.shape;
    stride_ = inputs + c.padding;
    out_stride_ = outputs + 3;
    Floats x = random_.floats(rows * stride_, -3, 5);
    for (float& value : x) value *= c.magnitude;
    if (c.has_zero) x[0] = 0;
    if (rows > 1) std::fill_n(x.begin() + stride_, inputs, 0.0F);
    if (c.has_others) x[at_of(inputs - 1)] = kNaN;
    if (c.has_others && rows > 2) x[at_of(2 * stride_)] = -kInfinity;
    x_ = put(x);
    matrix_ = make_matrix(MatrixFormat::int8, outputs, inputs, random_);
    weight_ = put(matrix_);
    before_ = random_.floats(rows * out_stride_);
    std::vector<std::int32_t> sums;
    for (std::int64_t output = 0; output < outputs; ++output) {
      int sum = 0;
      for (std::int64_t k = 0; k < inputs; ++k) sum += matrix_.code(output, k);
      sums.push_back(sum);
    }
    const bool has_zeros = c.kind == Kind::row_ranges || c.kind == Kind::tensor_range;
    args_.quantize = {.kind = c.kind,
                      .x = x_,
                      .x_stride = stride_,
                      .rows = rows,
                      .inputs = inputs,
                      .factors = c.has_factors ? put(random_.floats(inputs, 0.5F, 2)) : nothing(),
                      .threshold = c.kind == Kind::symmetric ? kInfinity : 0.0F,
                      .fixed_scale = 0.02F,
                      .fixed_zero_point = -20,
                      .codes = room<std::int8_t>(rows * codes_stride(inputs)),
                      .codes_stride = codes_stride(inputs),
                      .absmax = room<float>(rows),
                      .zero_points = room<std::int32_t>(rows),
                      .ranges = room<float>(2 * rows)};
    if (c.has_norm)
      args_.quantize.made = {.kind = FusedPrologue::Kind::norm,
                             .gain = put(random_.floats(inputs, 0.5F, 2)),
                             .bias = c.padding > 0 ? put(random_.floats(inputs)) : nothing(),
                             .epsilon = 1e-5F,
                             .subtracts_mean = c.padding > 0};
    args_.linear = {.codes = args_.quantize.codes,
                    .codes_stride = codes_stride(inputs),
                    .rows = rows,
                    .absmax = args_.quantize.absmax,
                    .weight = weight_,
                    .to = {.bias = c.padding > 0 ? put(random_.floats(outputs)) : nothing(),
                           .activation = c.activation,
                           .adds = c.adds}};
    if (has_zeros) {
      args_.linear.zero_points = args_.quantize.zero_points;
      args_.linear.sums = put(sums);
    }
  }
  static DevicePointer<float> nothing() { return {}; }

  // Each by itself, by the kernels of many rows.
  Floats apart(std::int64_t gated = 0) {
    const auto [outputs, inputs, rows] = case_.shape;
    QuantizedLinearArgs args = args_;
    if (case_.has_norm) {
      const FusedPrologue& made = args.quantize.made;
      const auto normed = room<float>(rows * inputs);
      run(*runtime_, NormArgs{.x = x_,
                              .x_stride = stride_,
                              .gain = made.gain,
                              .bias = made.bias,
                              .epsilon = made.epsilon,
                              .subtracts_mean = made.subtracts_mean,
                              .out = normed,
                              .out_stride = inputs,
                              .rows = rows,
                              .n = inputs});
      args.quantize.x = normed;
      args.quantize.x_stride = inputs;
      args.quantize.made = {};
    }
    run(*runtime_, args.quantize);
    const auto out = put(before_);
    args.linear.to.out = out;
    args.linear.to.out_stride = out_stride_;
    if (gated > 0) args.linear.to.activation = Activation::none;
    run(*runtime_, args.linear);
    if (gated == 0) return get(out, rows * out_stride_);
    const auto through = put(before_);
    run(*runtime_, GatedArgs{.x = out,
                             .x_stride = out_stride_,
                             .activation = case_.activation,
                             .out = through,
                             .out_stride = out_stride_,
                             .rows = rows,
                             .n = gated});
    return get(through, rows * out_stride_);
  }
  Floats together(std::int64_t gated = 0, MomentParts moments = {}, OrderedRowsOut ordered = {},
                  const LaunchChoice& choice = {}) {
    const auto out = put(before_);
    QuantizedLinearArgs args = args_;
    args.linear.to.out = out;
    args.linear.to.out_stride = out_stride_;
    args.linear.to.gated = gated;
    args.linear.to.moments = moments;
    args.linear.to.ordered = ordered;
    run(*runtime_, args, choice);
    return get(out, case_.shape.rows * out_stride_);
  }
  static void expect_equal(const Floats& got, const Floats& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      ASSERT_TRUE(is_same(got[i], wanted[i])) << i << ": " << got[i] << " for " << wanted[i];
  }
  static std::string text_of(const Int8Case& c) {
    return std::to_string(c.shape.outputs) + " x " + std::to_string(c.shape.inputs) + ", " +
           std::to_string(c.shape.rows) + " rows, kind " + std::to_string(static_cast<int>(c.kind)) +
           (c.has_norm ? ", norm" : "") + (c.has_factors ? ", factors" : "");
  }

  Int8Case case_;
  std::int64_t stride_ = 0, out_stride_ = 0;
  DevicePointer<float> x_;
  TestMatrix matrix_;
  Matrix weight_;
  Floats before_;
  QuantizedLinearArgs args_;
};

}  // namespace assay::cuda::testing_support
