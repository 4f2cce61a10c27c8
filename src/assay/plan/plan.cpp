#include "assay/plan/plan.h"

#include <algorithm>

namespace assay {

namespace {

struct CostVisitor {
  const Plan& plan;
  std::int64_t rows, past;
  std::int64_t queries;            // of the rows, the last: what attention is computed of
  std::int64_t query_columns = 0;  // of a product's outputs, the first: computed of these rows alone

  Cost operator()(const EmbedOp& op) const {
    const auto width = plan.weights[static_cast<std::size_t>(op.tokens)].columns;
    const std::int64_t tables = op.positions == kNone ? 1 : 2;
    return {.weight_bytes = {rows * width * 4 * tables},
            .kv_bytes = {},
            .flops = {static_cast<double>(rows * width)}};
  }
  Cost operator()(const NormOp& op) const {
    if (rows == 0) return {};
    const WeightSpec& gain = plan.weights[static_cast<std::size_t>(op.gain)];
    return {.weight_bytes = {2 * gain.columns * 4},
            .kv_bytes = {},
            .flops = {8.0 * static_cast<double>(rows * gain.columns)}};
  }
  Cost operator()(const LinearOp& op) const {
    if (rows == 0) return {};  // a head that is not asked reads no weights
    const WeightSpec& weight = plan.weights[static_cast<std::size_t>(op.weight)];
    return {.weight_bytes = stored_bytes(weight),
            .kv_bytes = {},
            .flops = {2.0 * static_cast<double>(weight.columns * (rows * (weight.rows - query_columns) +
                                                                  queries * query_columns))}};
  }
  Cost operator()(const AttentionOp& op) const {
    // Row i of the new ones sees past + i + 1 keys: a product with the keys and one with the values each.
    const auto seen = static_cast<double>(past + rows), count = static_cast<double>(queries);
    const double keys = count * seen - 0.5 * count * (count - 1);
    const std::int64_t kv_bytes_each = 2LL * op.kv_heads * kv_bytes(plan.kv_format, op.head_dim);
    return {.weight_bytes = {},
            .kv_bytes = {(past + rows) * kv_bytes_each},
            .flops = {4.0 * keys * op.heads * op.head_dim}};
  }
};

}  // namespace

Bytes stored_bytes(const WeightSpec& weight) {
  if (weight.kind == WeightSpec::Kind::vector) return {weight.elements() * 4};
  const double elements = static_cast<double>(weight.elements()) * info(weight.format).bits_per_weight / 8;
  return {static_cast<std::int64_t>(elements) + (is_int8(weight.format) ? weight.rows * 4 : 0)};
}

Bytes screen_bytes(const Plan& plan) {
  const auto& head = plan.weights[static_cast<std::size_t>(std::get<LinearOp>(plan.head.what).weight)];
  // Codes; the scale of an output, the sum of its codes, and two norms.
  return {head.elements() + head.rows * 4 * 4};
}

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::embed:
      return "embed";
    case Phase::norm:
      return "norm";
    case Phase::attention:
      return "attention";
    case Phase::linear:
      return "linear";
    case Phase::head:
      return "head";
  }
  return "?";
}

std::size_t tail_of(const Plan& plan) {
  for (std::size_t i = plan.ops.size(); i-- > 0;) {
    if (std::holds_alternative<AttentionOp>(plan.ops[i].what)) return i;
    const auto* linear = std::get_if<LinearOp>(&plan.ops[i].what);
    if (linear != nullptr && (linear->has_tensor_scale || linear->outlier_threshold > 0)) break;
  }
  return plan.ops.size();
}

std::size_t tail_product_of(const Plan& plan) {
  const std::size_t tail = tail_of(plan);
  if (tail == plan.ops.size()) return tail;
  const BufferId qkv = std::get<AttentionOp>(plan.ops[tail].what).qkv;
  for (std::size_t i = tail; i-- > 0;) {
    const auto* linear = std::get_if<LinearOp>(&plan.ops[i].what);
    if (linear != nullptr && linear->out == qkv) return i;
  }
  return plan.ops.size();
}

std::int64_t Plan::parameters() const {
  std::int64_t sum = 0;
  for (const WeightSpec& weight : weights) sum += weight.elements();
  return sum;
}

Bytes Plan::footprint(std::int64_t bytes) const {
  std::int64_t sum = 0;
  for (const WeightSpec& weight : weights)
    sum += is_four_bit(weight.format) ? (weight.elements() + 1) / 2
                                      : weight.elements() * (is_int8(weight.format) ? 1 : bytes);
  return {sum};
}

Cost& Cost::operator+=(const Cost& other) {
  weight_bytes = weight_bytes + other.weight_bytes;
  kv_bytes = kv_bytes + other.kv_bytes;
  flops = flops + other.flops;
  return *this;
}

Cost cost_of(const Plan& plan, std::int64_t rows, std::int64_t past, std::int64_t head_rows) {
  Cost total;
  for (const Cost& cost : costs_by_phase(plan, rows, past, head_rows)) total += cost;
  return total;
}

std::array<Cost, kPhases> costs_by_phase(const Plan& plan, std::int64_t rows, std::int64_t past,
                                         std::int64_t head_rows) {
  std::array<Cost, kPhases> costs{};
  const auto of = [&](Phase phase) -> Cost& { return costs[static_cast<std::size_t>(phase)]; };
  const std::size_t tail = tail_of(plan), product_of_tail = tail_product_of(plan);
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    CostVisitor visitor{plan, i > tail ? head_rows : rows, past, i >= tail ? head_rows : rows};
    if (i == product_of_tail) {
      const auto& attention = std::get<AttentionOp>(plan.ops[tail].what);
      visitor.queries = head_rows;
      visitor.query_columns = std::int64_t{attention.heads} * attention.head_dim;
    }
    of(plan.ops[i].phase) += std::visit(visitor, plan.ops[i].what);
  }
  const CostVisitor head{plan, head_rows, past, head_rows};
  of(Phase::head) += std::visit(head, plan.head_norm.what);
  Cost product = std::visit(head, plan.head.what);
  if (plan.screens_head && head_rows > 0) product.weight_bytes = screen_bytes(plan);
  of(Phase::head) += product;
  return costs;
}

}  // namespace assay
