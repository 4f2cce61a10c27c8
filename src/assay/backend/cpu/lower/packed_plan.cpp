#include "assay/backend/cpu/lower/packed_plan.h"

#include <utility>

#include "assay/backend/common/fusing.h"
#include "assay/backend/supported.h"

namespace assay::cpu {

namespace {

std::vector<FusedOp> fuse(const Plan& plan) {
  const std::vector<bool> has_gate = products_with_gates(plan, kPanel);
  std::vector<FusedOp> fused;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    FusedOp op{.op = &plan.ops[i], .index = i};
    if (std::holds_alternative<AttentionOp>(plan.ops[i].kind)) {
      op.rotary = rotation_of_attention(plan, i);
      if (op.rotary != nullptr) fused.pop_back();
    }
    fused.push_back(op);
    if (has_gate[i]) {
      fused.back().gate = &std::get<GatedOp>(plan.ops[i + 1].kind);
      ++i;
    }
  }
  return fused;
}

}  // namespace

PackedPlan::PackedPlan(const Plan& the_plan, const KernelTable& the_table, const KernelConstants& constants)
    : plan(the_plan), table(the_table), fetch(constants.fetch), grouped_fetch(constants.grouped_fetch) {
  check_supported(plan, "CPU", kMaxHeadDim);
  ops = fuse(plan);
}

void PackedPlan::swap_weight(Plan& other, WeightId id, PackedWeight& weight) {
  std::swap(plan, other);
  std::swap(weights[static_cast<std::size_t>(id)], weight);
  ops = fuse(plan);
}

std::vector<WeightSpec> PackedPlan::specs() const {
  std::vector<WeightSpec> specs = plan.weights;
  if (!plan.has_candidate_search) return specs;
  WeightSpec codes = plan.weight(plan.head.product.weight);
  codes.format = formats::kInt8;
  codes.arithmetic = {Multiply::int8, ActivationType::int8_per_token};
  codes.is_table_too = false;
  codes.allows_non_finite = true;  // no bound is found then, and the whole LM head is computed
  specs.push_back(std::move(codes));
  return specs;
}

std::vector<StepUse> PackedPlan::steps() const {
  std::vector<StepUse> steps;
  for (const FusedOp& fused : ops) {
    StepUse step = use_of(plan, *fused.op);
    if (fused.rotary != nullptr)
      step.writes.push_back({fused.rotary->buffer, 0, width(fused.rotary->buffer)});
    // Outputs go through the gate at once, never to a buffer of their own.
    if (fused.gate != nullptr) step.writes = {{fused.gate->out, 0, width(fused.gate->out)}};
    steps.push_back(std::move(step));
  }
  return steps;
}

int planes_for(const PackedWeight& w) {
  return w.packing == Packing::bfloat16 ? w.planes() : 1;
}

bool PackedPlan::attends_tiles(const AttentionOp& op) const {
  return table.uses_tiles && plan.kv_format == KvFormat::bfloat16 && op.head_dim % kTileColumns == 0 &&
         !op.has_score_modifiers();
}

bool PackedPlan::multiplies_tiles(const PackedWeight& w) const {
  return table.uses_tiles && (w.packing == Packing::bfloat16 ||
                              ((w.packing == Packing::four_bit || w.packing == Packing::grouped) &&
                               w.spec.arithmetic.multiply == Multiply::bfloat16));
}

bool PackedPlan::takes_int8_activations(const LinearOp& op, std::int64_t rows) const {
  const PackedWeight& w = weight(op.weight);
  if (w.packing != Packing::four_bit || w.group < kMinCodedGroup || has_offsets(w.spec.format)) return false;
  // Beside bfloat16, sums of bytes keep up with memory where those of floats do not.
  return op.has_int8_activations ||
         (rows <= kFourBitRows && w.spec.arithmetic.multiply == Multiply::bfloat16);
}

bool PackedPlan::rounds_inputs(const LinearOp& op) const {
  const PackedWeight& w = weight(op.weight);
  if (w.packing == Packing::int8)
    // Beside a bfloat16 cache nothing repeats another library's arithmetic to the last bit.
    return w.spec.format == formats::kInt8 && !op.has_tensor_scale &&
           (!op.static_input || plan.kv_format == KvFormat::bfloat16);
  return multiplies_tiles(w) && planes_for(w) == 1;
}

bool PackedPlan::quantizes_tiles(const LinearOp& op) const {
  const PackedWeight& w = weight(op.weight);
  return table.uses_tiles && w.packing == Packing::int8 && rounds_inputs(op) &&
         plan.kv_format == KvFormat::bfloat16 && w.spec.columns <= kMaxTileInputs;
}

}  // namespace assay::cpu
