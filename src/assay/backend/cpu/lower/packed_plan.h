// A plan as the CPU runs it: its weights packed, and what one step does in one pass.
#pragma once

#include <vector>

#include "assay/backend/cpu/kernels/kernels.h"
#include "assay/backend/cpu/lower/pack.h"
#include "assay/plan/liveness.h"

namespace assay::cpu {

// An operation with what is fused into it.
struct FusedOp {
  const Op* op;
  std::size_t index;              // the place of `op` in the plan
  const GatedOp* gate = nullptr;  // for a matrix multiplication: its outputs pass this before they are stored
  const RotaryOp* rotary =
      nullptr;  // for attention: queries and keys are turned where they are read and stored
};

struct PackedPlan {
  // Throws Error for an operation, or a size, that these kernels do not run.
  PackedPlan(const Plan& plan, const KernelTable& table, const KernelConstants& constants = {});
  PackedPlan(const PackedPlan&) = delete;
  PackedPlan& operator=(const PackedPlan&) = delete;

  Plan plan;
  KernelTable table;
  WeightFetch fetch, grouped_fetch;  // what all its kernels need; those of grouped codes
  std::vector<FusedOp> ops;          // as in plan.ops
  std::vector<PackedWeight>
      weights;  // the plan's, then the int8 codes of an LM head that is searched in int8
  std::vector<WeightSpec> specs() const;  // as in `weights`
  std::vector<StepUse> steps() const;     // what `ops` do to buffers

  // Another plan of the same operations, and its weight in place of that with the number; both get what was
  // here before.
  void swap_weight(Plan& other, WeightId id, PackedWeight& weight);

  const PackedWeight& weight(WeightId id) const { return weights[static_cast<std::size_t>(id)]; }
  const PackedWeight& head() const { return weight(plan.head.product.weight); }
  const float* vector(WeightId id) const { return id == kNone ? nullptr : weight(id).data.floats(); }
  std::int64_t weight_columns(WeightId id) const { return plan.weight(id).columns; }
  std::int64_t width(BufferId id) const { return plan.buffers[static_cast<std::size_t>(id)].columns; }

  bool norms_parts(const NormOp& op) const { return weight_columns(op.gain) != width(op.in); }
  // Tile products take queries, keys and values as tiles: of heads of whole strips, and of scores that are
  // plain. Others are attended by the vector units, whose queries are floats.
  bool attends_tiles(const AttentionOp& op) const;
  // By tile products: bfloat16, or 4-bit codes that become bfloat16.
  bool multiplies_tiles(const PackedWeight& w) const;
  // Inputs of 4-bit weights become int8 for `rows` rows.
  bool takes_int8_activations(const LinearOp& op, std::int64_t rows) const;
  // The activations lose more by becoming bytes, or one bfloat16, than an activation function to 1e-4 does;
  // schemes that repeat the arithmetic of others have it exact.
  bool rounds_inputs(const LinearOp& op) const;
  bool quantizes_tiles(const LinearOp& op) const;  // what a product before it made, as bfloat16
};

// The formats of the activations and the weights of a tile product.
int planes_for(const PackedWeight& w);

}  // namespace assay::cpu
