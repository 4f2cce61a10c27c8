// Which operations of a plan a device may run in one pass with a neighbour, by the plan alone: nobody else
// may read what then is never written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "assay/plan/plan.h"

namespace assay {

// The rotation right before the attention at `index` that turns exactly its queries and keys; null: there is
// none.
const RotaryOp* rotation_of_attention(const Plan& plan, std::size_t index);

// Says of each operation whether it is a matrix multiplication whose outputs can go through the gate behind
// it at once, of a multiple of `unit` outputs in each half.
std::vector<bool> products_with_gates(const Plan& plan, std::int64_t unit);

// Whether it is an int8 product that quantizes each row of its inputs by that row alone, and wholly.
bool quantizes_rows_alone(const Plan& plan, const LinearOp& product);

// Says of each operation whether it is a norm, or the gate of an MLP, that the matrix multiplication behind
// it can make of its inputs, where the product does not write where it then reads: `share_memory` says
// whether two buffers do. Not of float32 products; of int8 ones only norms, where each row has codes of its
// own.
std::vector<bool> prologues_of_products(const Plan& plan,
                                        const std::function<bool(BufferId, BufferId)>& share_memory);

}  // namespace assay
