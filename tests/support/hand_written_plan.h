// Plans written by hand, in any order of operations, with random weights, and a slow interpreter in double
// precision that every backend is held to.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "assay/backend/backend.h"
#include "support/plan_arithmetic.h"
#include "support/random_floats.h"

namespace assay::test {

class HandWrittenPlan : public WeightSource {
 public:
  Plan plan;
  std::vector<std::vector<float>> values;  // by weight

  BufferId buffer(std::int64_t columns) {
    plan.buffers.push_back({"b" + std::to_string(plan.buffers.size()), columns});
    return static_cast<BufferId>(plan.buffers.size()) - 1;
  }
  WeightId vector(std::int64_t size, double center, double spread, float offset = 0) {
    const WeightId id =
        add({.name = "", .rows = 1, .columns = size, .kind = WeightSpec::Kind::vector}, spread);
    plan.weights.back().offset = offset;
    for (float& value : values.back()) value += static_cast<float>(center);
    return id;
  }
  WeightId table(std::int64_t rows, std::int64_t columns) {
    return add({.name = "", .rows = rows, .columns = columns, .kind = WeightSpec::Kind::table}, 1.5);
  }
  WeightId matrix(std::int64_t rows, std::int64_t columns, WeightFormat format = formats::kFloat32) {
    return add(
        {.name = "", .rows = rows, .columns = columns, .kind = WeightSpec::Kind::matrix, .format = format},
        2 / std::sqrt(static_cast<double>(columns)));
  }
  void op(OpClass phase, decltype(Op::kind) what) {
    plan.ops.push_back({"op" + std::to_string(plan.ops.size()), phase, std::move(what)});
  }

  void read_rows(const WeightSpec& weight, std::int64_t first_row, std::int64_t row_count,
                 float* out) const override {
    const std::vector<float>& from = values.at(std::stoul(weight.name.substr(1)));
    std::copy_n(from.data() + first_row * weight.columns, row_count * weight.columns, out);
  }
  double value(WeightId id, std::int64_t i) const {
    return static_cast<double>(values[static_cast<std::size_t>(id)][static_cast<std::size_t>(i)] +
                               plan.weight(id).offset);
  }

 private:
  WeightId add(WeightSpec spec, double spread) {
    spec.name = "w" + std::to_string(plan.weights.size());
    values.push_back(random_floats(static_cast<std::size_t>(spec.elements()), 100 + values.size(), spread));
    plan.weights.push_back(std::move(spec));
    return static_cast<WeightId>(plan.weights.size()) - 1;
  }
};

// For one sequence, without a cache: as the comments of plan/ops.h have each operation.
class PlanInterpreter {
 public:
  explicit PlanInterpreter(const HandWrittenPlan& source) : source_(source), plan_(source.plan) {}
  std::int64_t int8_group = 0;  // activations that share a scale where they are int8; 0: they are numbers

  // Logits of every token, [tokens * vocab].
  std::vector<double> logits(const std::vector<TokenId>& ids) {
    rows_ = static_cast<std::int64_t>(ids.size());
    ids_ = ids;
    buffers_.clear();
    for (const BufferSpec& buffer : plan_.buffers)
      buffers_.emplace_back(static_cast<std::size_t>(rows_ * buffer.columns),
                            std::numeric_limits<double>::quiet_NaN());
    for (const Op& op : plan_.ops) std::visit([&](const auto& what) { run(what); }, op.kind);
    const std::int64_t width = columns(plan_.hidden);
    std::vector<double> all;
    for (std::int64_t row = 0; row < rows_; ++row) {
      std::vector<double> x(&at(plan_.hidden, row, 0), &at(plan_.hidden, row, 0) + width);
      if (plan_.head.norm) norm(*plan_.head.norm, width, x.data(), x.data());
      if (plan_.head.product.has_int8_activations) put_int8_codes(x, int8_group);
      for (std::int64_t token = 0; token < plan_.vocab; ++token) {
        const double logit = plan_.head.scale * product(plan_.head.product, x.data(), token);
        all.push_back(capped(logit, plan_.head.soft_cap));
      }
    }
    return all;
  }

 private:
  std::int64_t columns(BufferId id) const { return plan_.buffers[static_cast<std::size_t>(id)].columns; }
  double& at(BufferId id, std::int64_t row, std::int64_t column) {
    return buffers_[static_cast<std::size_t>(id)][static_cast<std::size_t>(row * columns(id) + column)];
  }
  void norm(const NormOp& op, std::int64_t n, const double* in, double* out) const {
    double mean = 0, squares = 0;
    for (std::int64_t i = 0; i < n && op.kind == Norm::layer; ++i) mean += in[i] / static_cast<double>(n);
    for (std::int64_t i = 0; i < n; ++i) squares += (in[i] - mean) * (in[i] - mean) / static_cast<double>(n);
    for (std::int64_t i = 0; i < n; ++i)
      out[i] =
          (in[i] - mean) / std::sqrt(squares + static_cast<double>(op.epsilon)) * source_.value(op.gain, i) +
          (op.bias == kNone ? 0.0 : source_.value(op.bias, i));
  }
  double product(const LinearOp& op, const double* x, std::int64_t output) const {
    const WeightSpec& weight = plan_.weight(op.weight);
    double sum = op.bias == kNone ? 0.0 : source_.value(op.bias, output);  // tests are at -O0: by pointer
    const float* w = source_.values[static_cast<std::size_t>(op.weight)].data() + output * weight.columns;
    for (std::int64_t k = 0; k < weight.columns; ++k) sum += x[k] * static_cast<double>(w[k] + weight.offset);
    return activate(op.activation, sum);
  }

  void run(const EmbedOp& op) {
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t i = 0, width = columns(op.out); i < width; ++i) {
        double& x = at(op.out, row, i);
        x = op.tokens == kNone
                ? 0
                : op.scale * source_.value(op.tokens, ids_[static_cast<std::size_t>(row)] * width + i);
        if (op.positions != kNone) x += source_.value(op.positions, (row + op.position_offset) * width + i);
      }
  }
  void run(const NormOp& op) {
    const std::int64_t size = plan_.weight(op.gain).columns;
    for (std::int64_t row = 0; row < rows_; ++row)
      for (int group = 0; group < op.groups; ++group) {
        const std::int64_t column = op.column + group * size;
        norm(op, size, &at(op.in, row, column), &at(op.out, row, column));
      }
  }
  void run(const LinearOp& op) {
    for (std::int64_t row = 0; row < rows_; ++row) {
      std::vector<double> x(&at(op.in, row, 0), &at(op.in, row, 0) + columns(op.in));
      if (op.has_int8_activations) put_int8_codes(x, int8_group);
      for (std::int64_t output = 0; output < plan_.weight(op.weight).rows; ++output) {
        double& y = at(op.out, row, op.out_column + output);
        y = product(op, x.data(), output) + (op.adds_to_output ? y : 0);
      }
    }
  }
  void run(const RotaryOp& op) {
    const auto pairs = static_cast<std::int64_t>(op.frequencies.size());
    const bool are_halves = op.pairing == RotaryPairing::halves;
    for (std::int64_t row = 0; row < rows_; ++row)
      for (int head = 0; head < op.heads; ++head)
        for (std::int64_t i = 0; i < pairs; ++i) {
          const std::int64_t column = op.column + std::int64_t{head} * op.head_dim;
          double &a = at(op.buffer, row, column + (are_halves ? i : 2 * i)),
                 &b = at(op.buffer, row, column + (are_halves ? i + pairs : 2 * i + 1));
          const double angle = static_cast<double>(row) * op.frequencies[static_cast<std::size_t>(i)],
                       c = std::cos(angle) * op.amplitude, s = std::sin(angle) * op.amplitude;
          std::tie(a, b) = std::pair(a * c - b * s, b * c + a * s);
        }
  }
  void run(const AttentionOp& op) {
    const std::int64_t dim = op.head_dim;
    for (std::int64_t row = 0; row < rows_; ++row)
      for (int head = 0; head < op.heads; ++head) {
        const std::int64_t kv_head = head / (op.heads / op.kv_heads);
        const std::int64_t first = op.window > 0 ? std::max<std::int64_t>(0, row - op.window + 1) : 0;
        std::vector<double> weights;
        double total = 0;
        for (std::int64_t key = first; key <= row; ++key) {
          double score = 0;
          for (std::int64_t i = 0; i < dim; ++i)
            score += at(op.qkv, row, head * dim + i) * at(op.qkv, key, op.k_column() + kv_head * dim + i);
          score = capped(score * op.scale, op.soft_cap);
          if (!op.alibi_slopes.empty())
            score += op.alibi_slopes[static_cast<std::size_t>(head)] * static_cast<double>(key - row);
          weights.push_back(std::exp(score));
          total += weights.back();
        }
        for (std::int64_t i = 0; i < dim; ++i) {
          double& out = at(op.out, row, head * dim + i);
          out = 0;
          for (std::int64_t key = first; key <= row; ++key)
            out += weights[static_cast<std::size_t>(key - first)] / total *
                   at(op.qkv, key, op.v_column() + kv_head * dim + i);
        }
      }
  }
  void run(const GatedOp& op) {
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t i = 0, n = columns(op.out); i < n; ++i)
        at(op.out, row, i) = activate(op.activation, at(op.in, row, i)) * at(op.in, row, n + i);
  }
  void run(const AddOp& op) {
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t i = 0, n = columns(op.out); i < n; ++i)
        at(op.out, row, i) += op.scale * at(op.in, row, i);
  }

  const HandWrittenPlan& source_;
  const Plan& plan_;
  std::int64_t rows_ = 0;
  std::vector<TokenId> ids_;
  std::vector<std::vector<double>> buffers_;
};

}  // namespace assay::test
