// The complete scalar kernels: the reference that every faster one is tested against. Sums are in double,
// nothing is blocked beyond what the data layout asks for.
#include "assay/backend/cpu/kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "assay/tensor/half.h"

namespace assay::cpu::scalar {

namespace {

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    // Hendrycks and Gimpel 2016; "gelu_new" of GPT-2 is the tanh form.
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::gelu_quick:
      return x / (1 + std::exp(-1.702 * x));
  }
  return x;
}

double weight_at(const LinearArgs& args, std::int64_t output, std::int64_t k) {
  const std::int64_t at = (output / kPanel * args.k + k) * kPanel + output % kPanel;
  return args.is_bfloat16 ? static_cast<double>(bf16_to_float(static_cast<const std::uint16_t*>(args.w)[at]))
                          : static_cast<double>(static_cast<const float*>(args.w)[at]);
}

void linear(const LinearArgs& args) noexcept {
  const std::int64_t end = std::min(args.n, (args.first_panel + args.panels) * kPanel);
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const float* x = args.x + row * args.x_stride;
    float* y = args.y + row * args.y_stride;
    for (std::int64_t output = args.first_panel * kPanel; output < end; ++output) {
      double sum = 0;
      for (std::int64_t k = 0; k < args.k; ++k) sum += static_cast<double>(x[k]) * weight_at(args, output, k);
      if (args.bias != nullptr) sum += static_cast<double>(args.bias[output]);
      const double value = activate(args.activation, sum);
      y[output] = static_cast<float>(args.adds ? static_cast<double>(y[output]) + value : value);
    }
  }
}

void norm(const NormArgs& args) noexcept {
  const auto count = static_cast<double>(args.n);
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const float* x = args.x + row * args.x_stride;
    float* y = args.y + row * args.y_stride;
    double mean = 0, squares = 0;
    if (args.subtracts_mean) {
      for (std::int64_t i = 0; i < args.n; ++i) mean += static_cast<double>(x[i]);
      mean /= count;
    }
    for (std::int64_t i = 0; i < args.n; ++i)
      squares += (static_cast<double>(x[i]) - mean) * (static_cast<double>(x[i]) - mean);
    const double scale = 1 / std::sqrt(squares / count + static_cast<double>(args.epsilon));
    for (std::int64_t i = 0; i < args.n; ++i) {
      const double value = (static_cast<double>(x[i]) - mean) * scale * static_cast<double>(args.gain[i]);
      y[i] = static_cast<float>(args.bias != nullptr ? value + static_cast<double>(args.bias[i]) : value);
    }
  }
}

float key_at(const AttendArgs& args, std::int64_t position, std::int64_t i) {
  return args.blocks[position / kKvBlockPositions]
                    [args.k_offset + i * kKvBlockPositions + position % kKvBlockPositions];
}
float value_at(const AttendArgs& args, std::int64_t position, std::int64_t i) {
  return args
      .blocks[position / kKvBlockPositions][args.v_offset + position % kKvBlockPositions * args.padded + i];
}

double score(const AttendArgs& args, const float* q, std::int64_t position) {
  double sum = 0;
  for (std::int64_t i = 0; i < args.head_dim; ++i)
    sum += static_cast<double>(q[i]) * static_cast<double>(key_at(args, position, i));
  return sum * static_cast<double>(args.scale);
}

void attend(const AttendArgs& args) noexcept {
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const float* q = args.q + row * args.q_stride;
    const std::int64_t last = args.first_position + row;
    const std::int64_t first = std::max(args.first_key, args.window > 0 ? last - args.window + 1 : 0);
    double highest = -std::numeric_limits<double>::infinity(), total = 0;
    for (std::int64_t key = first; key <= last; ++key) highest = std::max(highest, score(args, q, key));
    double sums[kMaxHeadDim] = {};
    for (std::int64_t key = first; key <= last; ++key) {
      const double weight = std::exp(score(args, q, key) - highest);
      total += weight;
      for (std::int64_t i = 0; i < args.head_dim; ++i)
        sums[i] += weight * static_cast<double>(value_at(args, key, i));
    }
    // A padding row sees no key; its output is zero and nobody reads it.
    for (std::int64_t i = 0; i < args.head_dim; ++i)
      args.out[row * args.out_stride + i] = total > 0 ? static_cast<float>(sums[i] / total) : 0.0F;
  }
}

std::int64_t argmax(const float* x, std::int64_t n) noexcept {
  std::int64_t best = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::isnan(x[i])) return -1;
    if (x[i] > x[best]) best = i;
  }
  return best;
}

double log_sum_exp(const float* x, std::int64_t n) noexcept {
  float highest = x[0];
  for (std::int64_t i = 1; i < n; ++i) highest = std::max(highest, x[i]);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i)
    sum += std::exp(static_cast<double>(x[i]) - static_cast<double>(highest));
  return static_cast<double>(highest) + std::log(sum);
}

}  // namespace

void fill(KernelTable& table) {
  table = {linear, norm, attend, argmax, log_sum_exp, "scalar", "scalar", "scalar", "scalar", "scalar"};
}

}  // namespace assay::cpu::scalar
