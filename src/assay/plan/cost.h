// What a step must read and compute at least, counted from its plan.
#pragma once

#include <array>
#include <vector>

#include "assay/plan/plan.h"

namespace assay {

// What the int8 candidate search of an LM head reads.
Bytes candidate_search_bytes(const Plan& plan);

struct Cost {
  Bytes weight_bytes, kv_bytes;
  Flops flops;
  Cost& operator+=(const Cost& other);
};
// The cost of the body and the LM head for `rows` new tokens, the last `head_rows` of which go through the LM
// head, of one sequence that holds `past` tokens; with a candidate search, what that reads. A multiplication
// and an addition are two FLOPs; rows that can be left out (pruning_of) are not counted.
Cost cost_of(const Plan& plan, std::int64_t rows, std::int64_t past, std::int64_t head_rows);
// The same by operation of the plan; the LM head, with its norm, comes last.
std::vector<Cost> costs_by_operation(const Plan& plan, std::int64_t rows, std::int64_t past,
                                     std::int64_t head_rows);
// The same by Phase.
std::array<Cost, kOpClasses> costs_by_phase(const Plan& plan, std::int64_t rows, std::int64_t past,
                                            std::int64_t head_rows);

}  // namespace assay
