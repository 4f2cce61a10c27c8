// The operations of a plan, those that layers repeat together: what each kind must read and compute.
#pragma once

#include <string>
#include <vector>

#include "assay/plan/cost.h"

namespace assay {

struct OperationGroup {
  std::string name;  // "h.*.attn.c_attn"; "lm_head" last
  std::string kind;  // "matmul", "attention", "norm", "rotary", "embedding", "gate", "add"
  // Of a matrix multiplication's weights.
  WeightFormat format = formats::kFloat32;
  Multiply multiply = Multiply::float32;
  std::vector<std::size_t> operations;  // of the plan; ops.size() stands for the LM head
  Cost cost;                            // of all of them in one step
};

// Of a step as cost_of() has it, in the order of the first of each group.
std::vector<OperationGroup> operation_groups(const Plan& plan, std::int64_t rows, std::int64_t past,
                                             std::int64_t head_rows);

}  // namespace assay
