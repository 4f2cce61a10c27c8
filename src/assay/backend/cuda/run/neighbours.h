// What the operations of few rows make for one another, so that a step has few kernels: a multiplication
// norms or gates what it reads, gates what it has computed, leaves its rows in the order in which the next
// one takes them, and leaves the moments of which a norm behind it is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "assay/backend/cuda/memory/workspace.h"
#include "assay/plan/plan.h"

namespace assay::cuda {

struct Neighbours {
  // For each operation up to how many rows the multiplication behind it makes of its inputs what it would: of
  // a norm, or the gate of an MLP, whose output nobody else reads, where the product does not write where it
  // reads. 0 of all others, of those in front of float32 products, and of gates in front of int8 ones.
  std::vector<std::int64_t> made_rows;
  // For each multiplication up to how many rows it computes the gate behind it too; 0 of all others.
  std::vector<std::int64_t> gate_rows;
  // For each multiplication the operation in front, attention or a multiplication, that leaves its inputs in
  // order where there are few: all its columns, whole units, added to nothing. What reads such rows leaves
  // none: they lie in one place. With is_behind_gate the gate between them must be computed by that
  // operation.
  struct Producer {
    std::size_t op = 0;
    bool is_behind_gate = false;
  };
  std::vector<std::optional<Producer>> producers;
  // Whether a multiplication, or an embedding, leaves moments of its rows, of which the norm behind it is
  // made in the product behind that; the last operation leaves those of the LM head's norm.
  std::vector<bool> leaves_moments;
  // Whether a multiplication of few rows lets the kernel behind it start before it waits itself. Those behind
  // the first attention do: what kernels read before they wait (places of rows, pages, older keys and values)
  // the ends of the step before and the beginning of this one have written.
  std::vector<bool> lets_next_start;
  // Whether a multiplication adds to what no kernel that may still run writes when it starts.
  std::vector<bool> adds_early;
};
Neighbours neighbours_of(const Plan& plan, const WorkspaceLayout& layout);

}  // namespace assay::cuda
