#include "assay/plan/operation_groups.h"

#include <algorithm>

namespace assay {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

const char* kind_of(const Op& op) {
  return std::visit(Cases{[](const EmbedOp&) { return "embedding"; }, [](const NormOp&) { return "norm"; },
                          [](const LinearOp&) { return "matmul"; }, [](const RotaryOp&) { return "rotary"; },
                          [](const AttentionOp&) { return "attention"; },
                          [](const GatedOp&) { return "gate"; }, [](const AddOp&) { return "add"; }},
                    op.kind);
}

}  // namespace

std::string without_layer(const std::string& name) {
  std::string text;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    const bool is_number = !part.empty() && std::all_of(part.begin(), part.end(), is_digit);
    text += (begin == 0 ? "" : ".") + (is_number ? "*" : part);
    begin = end + 1;
  }
  return text;
}

std::vector<FormatGroup> format_groups(const Plan& plan) {
  std::vector<FormatGroup> groups;
  const auto head = static_cast<std::size_t>(plan.head.product.weight);
  for (std::size_t i = 0; i < plan.weights.size(); ++i) {
    for (const TensorPart& part : tensors_of(plan.weights[i])) {
      const WeightSpec& weight = part.spec;
      if (weight.kind == WeightSpec::Kind::vector) continue;
      const std::string name = without_layer(weight.name) + (i == head ? " (LM head)" : "");
      auto group = std::find_if(groups.begin(), groups.end(), [&](const FormatGroup& each) {
        return each.name == name && each.format == weight.format;
      });
      if (group == groups.end()) group = groups.insert(groups.end(), {.name = name, .format = weight.format});
      ++group->tensors;
      group->elements += weight.elements();
      group->bytes = group->bytes + stored_bytes(weight);
    }
  }
  return groups;
}

std::vector<OperationGroup> operation_groups(const Plan& plan, std::int64_t rows, std::int64_t past,
                                             std::int64_t head_rows) {
  const std::vector<Cost> costs = costs_by_operation(plan, rows, past, head_rows);
  std::vector<OperationGroup> groups;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const bool is_head = i == plan.ops.size();
    const std::string name = is_head ? "lm_head" : without_layer(plan.ops[i].name),
                      kind = is_head ? "matmul" : kind_of(plan.ops[i]);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const OperationGroup& g) { return g.name == name && g.kind == kind; });
    if (group == groups.end()) {
      group = groups.insert(groups.end(), {.name = name, .kind = kind, .operations = {}, .cost = {}});
      const LinearOp* linear = is_head ? &plan.head.product : std::get_if<LinearOp>(&plan.ops[i].kind);
      if (linear != nullptr) {
        group->format = plan.weight(linear->weight).format;
        group->multiply = plan.weight(linear->weight).arithmetic.multiply;
      }
    }
    group->operations.push_back(i);
    group->cost += costs[i];
  }
  return groups;
}

}  // namespace assay
