#include "assay/backend/common/fusing.h"

#include <algorithm>

namespace assay {

namespace {

bool is_gate_pair(const Plan& plan, std::size_t i, std::int64_t unit) {
  if (i + 1 >= plan.ops.size()) return false;
  const auto* linear = std::get_if<LinearOp>(&plan.ops[i].kind);
  const auto* gate = std::get_if<GatedOp>(&plan.ops[i + 1].kind);
  if (linear == nullptr || gate == nullptr || gate->in != linear->out) return false;
  const std::int64_t outputs = plan.weight(linear->weight).rows;
  return outputs == plan.buffers[static_cast<std::size_t>(linear->out)].columns &&
         outputs % (2 * unit) == 0 && linear->activation == Activation::none && !linear->adds_to_output;
}

// Nobody but their own gates read what such matrix multiplications leave in the buffer.
bool is_read_by_gates_alone(const Plan& plan, BufferId id, std::int64_t unit) {
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const BufferUse use = buffers_of(plan.ops[i]);
    const bool is_read = std::count(use.reads.begin(), use.reads.end(), id) > 0;
    if (is_read && (i == 0 || !is_gate_pair(plan, i - 1, unit))) return false;
  }
  return true;
}

// Whether a product by such weights can make of its inputs what the operation does.
bool can_be_made(const Plan& plan, const Op& op, const WeightSpec& weight) {
  if (const auto* norm = std::get_if<NormOp>(&op.kind)) return norm->groups == 1 && norm->column == 0;
  const auto* gate = std::get_if<GatedOp>(&op.kind);
  return gate != nullptr && !is_int8(weight.format) &&
         plan.buffers[static_cast<std::size_t>(gate->out)].columns == weight.columns;
}

bool is_read_from(const Plan& plan, std::size_t first, BufferId id) {
  for (std::size_t i = first; i < plan.ops.size(); ++i) {
    const BufferUse use = buffers_of(plan.ops[i]);
    if (std::ranges::find(use.reads, id) != use.reads.end()) return true;
    if (std::ranges::find(use.writes, id) != use.writes.end()) return false;
  }
  return false;
}

}  // namespace

const RotaryOp* rotation_of_attention(const Plan& plan, std::size_t index) {
  if (index == 0 || index >= plan.ops.size()) return nullptr;
  const auto* attention = std::get_if<AttentionOp>(&plan.ops[index].kind);
  const auto* rotary = std::get_if<RotaryOp>(&plan.ops[index - 1].kind);
  const bool fits = rotary != nullptr && attention != nullptr && rotary->buffer == attention->qkv &&
                    rotary->column == 0 && rotary->head_dim == attention->head_dim &&
                    rotary->heads == attention->heads + attention->kv_heads;
  return fits ? rotary : nullptr;
}

bool quantizes_rows_alone(const Plan& plan, const LinearOp& product) {
  const WeightFormat& format = plan.weight(product.weight).format;
  const bool has_outliers = format == formats::kLlmInt8 && product.outlier_threshold > 0;
  return is_int8(format) && !has_outliers && !product.has_tensor_scale;
}

std::vector<bool> products_with_gates(const Plan& plan, std::int64_t unit) {
  std::vector<bool> have(plan.ops.size());
  for (std::size_t i = 0; i < plan.ops.size(); ++i)
    have[i] = is_gate_pair(plan, i, unit) &&
              is_read_by_gates_alone(plan, std::get<LinearOp>(plan.ops[i].kind).out, unit);
  return have;
}

std::vector<bool> prologues_of_products(const Plan& plan,
                                        const std::function<bool(BufferId, BufferId)>& share_memory) {
  std::vector<bool> are(plan.ops.size());
  for (std::size_t i = 0; i + 1 < plan.ops.size(); ++i) {
    const auto* product = std::get_if<LinearOp>(&plan.ops[i + 1].kind);
    if (product == nullptr) continue;
    const WeightSpec& weight = plan.weight(product->weight);
    if (is_int8(weight.format)
            ? !quantizes_rows_alone(plan, *product)
            : weight.format == formats::kFloat32 && weight.arithmetic.multiply != Multiply::tf32)
      continue;
    if (!can_be_made(plan, plan.ops[i], weight)) continue;
    const BufferUse made = buffers_of(plan.ops[i]);
    const BufferId in = made.reads.front(), out = made.writes.front();
    are[i] = product->in == out && out != plan.hidden && !share_memory(in, product->out) &&
             !is_read_from(plan, i + 2, out);
  }
  return are;
}

}  // namespace assay
