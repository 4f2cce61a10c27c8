#include "assay/backend/common/exchange.h"

#include "assay/base/error.h"

namespace assay {

namespace {

void check_same_matrix(const WeightSpec& own, const WeightSpec& other) {
  if (own.kind != WeightSpec::Kind::matrix)
    throw Error("weight '{}': expected a matrix to exchange, found a {}", own.name,
                own.kind == WeightSpec::Kind::vector ? "vector" : "table");
  if (other.name != own.name || other.kind != own.kind || other.rows != own.rows ||
      other.columns != own.columns || other.is_table_too != own.is_table_too ||
      other.column_factors != own.column_factors)
    throw Error("weight '{}': expected a plan of the same weights to exchange it from, found '{}', {} x {}",
                own.name, other.name, other.rows, other.columns);
}

bool are_same_products(const LinearOp& a, const LinearOp& b) {
  return a.weight == b.weight && a.bias == b.bias && a.activation == b.activation &&
         a.adds_to_output == b.adds_to_output && a.in == b.in && a.out == b.out &&
         a.out_column == b.out_column;
}

}  // namespace

Plan exchanged_plan(const Plan& own, WeightId weight, const Plan& other) {
  if (weight < 0 || static_cast<std::size_t>(weight) >= own.weights.size() ||
      own.weights.size() != other.weights.size() || own.ops.size() != other.ops.size())
    throw Error("weight {}: expected a plan of the same {} weights and {} operations, found {} and {}",
                weight, own.weights.size(), own.ops.size(), other.weights.size(), other.ops.size());
  const WeightSpec& spec = own.weight(weight);
  check_same_matrix(spec, other.weight(weight));
  if (weight == own.head.product.weight && own.has_candidate_search)
    throw Error("weight '{}': an LM head that is searched in int8 cannot be exchanged", spec.name);
  Plan plan = own;
  plan.weights[static_cast<std::size_t>(weight)] = other.weight(weight);
  const auto take = [&](LinearOp& product, const LinearOp* from) {
    if (product.weight != weight) return;
    if (from == nullptr || !are_same_products(product, *from))
      throw Error("weight '{}': the plan to exchange it from multiplies by it elsewhere", spec.name);
    product = *from;
  };
  for (std::size_t i = 0; i < plan.ops.size(); ++i)
    if (auto* product = std::get_if<LinearOp>(&plan.ops[i].kind))
      take(*product, std::get_if<LinearOp>(&other.ops[i].kind));
  take(plan.head.product, &other.head.product);
  return plan;
}

}  // namespace assay
