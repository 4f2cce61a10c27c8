#include "assay/backend/cpu/packed_plan.h"

#include <algorithm>

#include "assay/backend/supported.h"

namespace assay::cpu {

namespace {

// A matrix multiplication, and behind it the gate that halves what it made.
bool is_gate_pair(const Plan& plan, std::size_t i) {
  if (i + 1 >= plan.ops.size()) return false;
  const auto* linear = std::get_if<LinearOp>(&plan.ops[i].what);
  const auto* gate = std::get_if<GatedOp>(&plan.ops[i + 1].what);
  if (linear == nullptr || gate == nullptr || gate->in != linear->out) return false;
  const std::int64_t outputs = plan.weight(linear->weight).rows;
  return outputs == plan.buffers[static_cast<std::size_t>(linear->out)].columns &&
         outputs % (2 * kPanel) == 0 && linear->activation == Activation::none && !linear->adds_to_output;
}

// Nobody but their own gates read what such matrix multiplications leave in the buffer.
bool is_read_by_gates_alone(const Plan& plan, BufferId id) {
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const BufferUse use = buffers_of(plan.ops[i]);
    const bool is_read = std::count(use.reads.begin(), use.reads.end(), id) > 0;
    if (is_read && (i == 0 || !is_gate_pair(plan, i - 1))) return false;
  }
  return true;
}

const RotaryOp* rotary_before(const Plan& plan, std::size_t i) {
  const auto& attention = std::get<AttentionOp>(plan.ops[i].what);
  const auto* rotary = i == 0 ? nullptr : std::get_if<RotaryOp>(&plan.ops[i - 1].what);
  const bool fits = rotary != nullptr && rotary->buffer == attention.qkv && rotary->column == 0 &&
                    rotary->heads == attention.heads + attention.kv_heads &&
                    rotary->head_dim == attention.head_dim;
  return fits ? rotary : nullptr;
}

std::vector<FusedOp> fuse(const Plan& plan) {
  std::vector<FusedOp> fused;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    FusedOp op{.op = &plan.ops[i], .index = i};
    if (std::holds_alternative<AttentionOp>(plan.ops[i].what)) {
      op.rotary = rotary_before(plan, i);
      if (op.rotary != nullptr) fused.pop_back();
    }
    fused.push_back(op);
    if (is_gate_pair(plan, i) && is_read_by_gates_alone(plan, std::get<LinearOp>(plan.ops[i].what).out)) {
      fused.back().gate = &std::get<GatedOp>(plan.ops[i + 1].what);
      ++i;
    }
  }
  return fused;
}

}  // namespace

PackedPlan::PackedPlan(const Plan& the_plan, const KernelTable& the_table)
    : plan(the_plan), table(the_table) {
  check_supported(plan, "CPU", kMaxHeadDim);
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
  return w.packing() == Packing::bfloat16 ? w.planes() : 1;
}

bool PackedPlan::attends_tiles(const AttentionOp& op) const {
  return table.uses_tiles && plan.kv_format == KvFormat::bfloat16 && op.head_dim % kTileColumns == 0 &&
         !op.bends_scores();
}

bool PackedPlan::multiplies_tiles(const PackedWeight& w) const {
  return table.uses_tiles &&
         (w.packing() == Packing::bfloat16 ||
          (w.packing() == Packing::four_bit && w.spec.arithmetic.multiply == Multiply::bfloat16));
}

bool PackedPlan::codes_inputs(const LinearOp& op, std::int64_t rows) const {
  const PackedWeight& w = weight(op.weight);
  if (w.packing() != Packing::four_bit || w.group < kSmallestCodedGroup || has_offsets(w.spec.format))
    return false;
  // Beside bfloat16, sums of bytes keep up with memory where those of floats do not.
  return op.has_int8_inputs || (rows <= kFourBitRows && w.spec.arithmetic.multiply == Multiply::bfloat16);
}

bool PackedPlan::rounds_inputs(const LinearOp& op) const {
  const PackedWeight& w = weight(op.weight);
  if (w.packing() == Packing::int8)
    // Beside a bfloat16 cache nothing repeats another library's arithmetic to the last bit.
    return w.spec.format == formats::kInt8 && !op.has_tensor_scale &&
           (!op.static_input || plan.kv_format == KvFormat::bfloat16);
  return multiplies_tiles(w) && planes_for(w) == 1;
}

bool PackedPlan::quantizes_tiles(const LinearOp& op) const {
  const PackedWeight& w = weight(op.weight);
  return table.uses_tiles && w.packing() == Packing::int8 && rounds_inputs(op) &&
         plan.kv_format == KvFormat::bfloat16 && w.spec.columns <= kMaxTileInputs;
}

}  // namespace assay::cpu
