#include "assay/plan/cost.h"

#include <algorithm>

namespace assay {

namespace {

struct CostVisitor {
  const Plan& plan;
  std::int64_t rows, past;
  std::int64_t queries;            // the last rows, whose attention is computed
  std::int64_t query_columns = 0;  // the first output features of a product: computed of these rows alone

  Cost elementwise(double flops) const {
    return {.weight_bytes = {}, .kv_bytes = {}, .flops = {static_cast<double>(rows) * flops}};
  }
  double columns_of(BufferId id) const {
    return static_cast<double>(plan.buffers[static_cast<std::size_t>(id)].columns);
  }

  Cost operator()(const EmbedOp& op) const {
    const std::int64_t width = plan.weight(op.tokens == kNone ? op.positions : op.tokens).columns,
                       tables = op.tokens == kNone || op.positions == kNone ? 1 : 2;
    return {.weight_bytes = {rows * width * 4 * tables},
            .kv_bytes = {},
            .flops = {static_cast<double>(rows * width)}};
  }
  Cost operator()(const NormOp& op) const {
    if (rows == 0) return {};
    const WeightSpec& gain = plan.weight(op.gain);
    const std::int64_t vectors = op.bias == kNone ? 1 : 2;
    return {.weight_bytes = {vectors * gain.columns * 4},
            .kv_bytes = {},
            .flops = {8.0 * static_cast<double>(rows * gain.columns * op.groups)}};
  }
  Cost operator()(const LinearOp& op) const {
    if (rows == 0) return {};  // an LM head that is not asked reads no weights
    const WeightSpec& weight = plan.weight(op.weight);
    const std::int64_t narrow = std::min(query_columns, weight.rows);
    return {.weight_bytes = stored_bytes(weight),
            .kv_bytes = {},
            .flops = {2.0 * static_cast<double>(weight.columns *
                                                (rows * (weight.rows - narrow) + queries * narrow))}};
  }
  Cost operator()(const RotaryOp& op) const {
    return elementwise(6.0 * op.heads * static_cast<double>(op.frequencies.size()));
  }
  Cost operator()(const AttentionOp& op) const {
    // Row i of the new ones sees past + i + 1 keys, at most those of its window: a product with the keys and
    // one with the values each.
    const auto seen_by = [&](std::int64_t row) {
      const std::int64_t keys = past + row + 1;
      return op.window > 0 ? std::min(keys, op.window) : keys;
    };
    double keys = 0;
    if (op.window > 0) {
      for (std::int64_t row = rows - queries; row < rows; ++row) keys += static_cast<double>(seen_by(row));
    } else {
      const auto seen = static_cast<double>(past + rows), count = static_cast<double>(queries);
      keys = count * seen - 0.5 * count * (count - 1);
    }
    const std::int64_t kv_bytes_each = 2LL * op.kv_heads * kv_bytes(plan.kv_format, op.head_dim);
    const std::int64_t read = op.window > 0 ? std::min(past + rows, op.window + rows - 1) : past + rows;
    return {.weight_bytes = {},
            .kv_bytes = {read * kv_bytes_each},
            .flops = {4.0 * keys * op.heads * op.head_dim}};
  }
  Cost operator()(const GatedOp& op) const { return elementwise(8.0 * columns_of(op.out)); }
  Cost operator()(const AddOp& op) const { return elementwise(2.0 * columns_of(op.out)); }
};

}  // namespace

Bytes candidate_search_bytes(const Plan& plan) {
  const WeightSpec& head = plan.weight(plan.head.product.weight);
  // Codes; the scale of an output feature, the sum of its codes, and two norms.
  return {head.elements() + head.rows * 4 * 4};
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

std::vector<Cost> costs_by_operation(const Plan& plan, std::int64_t rows, std::int64_t past,
                                     std::int64_t head_rows) {
  std::vector<Cost> costs;
  const bool leaves_none_out = rows == head_rows;  // as in every step of decode
  const Pruning pruning = leaves_none_out ? Pruning{plan.ops.size(), plan.ops.size(), {}} : pruning_of(plan);
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    CostVisitor visitor{plan, i > pruning.attention ? head_rows : rows, past,
                        i >= pruning.attention ? head_rows : rows};
    if (i == pruning.qkv_product) {
      visitor.queries = head_rows;
      visitor.query_columns = std::get<AttentionOp>(plan.ops[pruning.attention].kind).k_column();
    }
    costs.push_back(std::visit(visitor, plan.ops[i].kind));
  }
  const CostVisitor head{plan, head_rows, past, head_rows};
  Cost product = head(plan.head.product);
  if (plan.has_candidate_search && head_rows > 0) product.weight_bytes = candidate_search_bytes(plan);
  if (plan.head.norm) product += head(*plan.head.norm);
  costs.push_back(product);
  return costs;
}

std::array<Cost, kOpClasses> costs_by_phase(const Plan& plan, std::int64_t rows, std::int64_t past,
                                            std::int64_t head_rows) {
  std::array<Cost, kOpClasses> costs{};
  const std::vector<Cost> each = costs_by_operation(plan, rows, past, head_rows);
  for (std::size_t i = 0; i < each.size(); ++i) {
    const OpClass phase = i < plan.ops.size() ? plan.ops[i].phase : OpClass::head;
    costs[static_cast<std::size_t>(phase)] += each[i];
  }
  return costs;
}

}  // namespace assay
