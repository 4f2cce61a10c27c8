// The operations of a plan, those that layers repeat together: what each kind must read and compute.
#pragma once

#include <string>
#include <vector>

#include "assay/plan/cost.h"

namespace assay {

// Numbers that are a part of a name by themselves become stars: "h.3.ln_1" and "h.4.ln_1" are one.
std::string without_layer(const std::string& name);

// Matrices and tables that layers repeat, where they are stored in the same format.
struct FormatGroup {
  std::string name;  // "h.*.attn.c_attn.weight"
  WeightFormat format;
  std::int64_t tensors = 0, elements = 0;
  Bytes bytes = {};  // with scales
};
// In the order of the plan.
std::vector<FormatGroup> format_groups(const Plan& plan);

struct OperationGroup {
  std::string name;  // "h.*.attn.c_attn"; "lm_head" last
  std::string kind;  // "matmul", "attention", "norm", "rotary", "embedding", "gate", "add"
  // Of a matrix multiplication's weights.
  WeightFormat format = formats::kFloat32;
  Multiply multiply = Multiply::float32;
  std::vector<std::size_t> operations;  // their places in the plan; ops.size() stands for the LM head
  Cost cost;                            // what all of them take in one step
};

// The groups of a step as cost_of() has it, in the order of the first of each group.
std::vector<OperationGroup> operation_groups(const Plan& plan, std::int64_t rows, std::int64_t past,
                                             std::int64_t head_rows);

}  // namespace assay
