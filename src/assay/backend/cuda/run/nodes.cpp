// How many kernels the operations of a plan take in a step: nodes of its graph.
#include <algorithm>

#include "assay/backend/common/fusing.h"
#include "assay/backend/cuda/kernels/attend_step.h"
#include "assay/backend/cuda/lower/pack.h"
#include "assay/backend/cuda/run/executor.h"
#include "assay/backend/devices.h"

namespace assay::cuda {

namespace {

class NodeCounter {
 public:
  NodeCounter(const Plan& plan, std::int64_t rows, std::int64_t keys)
      : plan_(plan), layout_(plan, {}), around_(neighbours_of(plan, layout_)), rows_(rows), keys_(keys) {}

  int of(std::size_t i) const {
    return std::visit(
        Cases{[&](const EmbedOp&) { return rows_ > 1 ? 1 : 0; },  // a step's is made by the one before
              [&](const NormOp&) { return is_made(i) ? 0 : 1; },
              [&](const LinearOp& op) { return 1 + in_front(op, i); },
              [&](const RotaryOp&) { return rotation_of_attention(plan_, i + 1) != nullptr ? 0 : 1; },
              [&](const AttentionOp&) { return of_attention(); },
              [&](const GatedOp&) { return is_made(i) || has_gate(i - 1) ? 0 : 1; },
              [&](const AddOp&) { return 1; }},
        plan_.ops[i].kind);
  }
  int of_head() const {
    const bool is_normed = rows_ == 1 && !plan_.ops.empty() && around_.leaves_moments.back();
    const int ordered = takes_ordered_inputs(plan_.weight(plan_.head.product.weight)) ? 1 : 0;
    const int quantized = quantizing(plan_.head.product, false, true, is_normed);
    if (is_normed)
      return 1 + (norms_ordered_inputs(plan_.weight(plan_.head.product.weight))
                      ? 0
                      : std::max(ordered, quantized));
    return 2 + std::max(ordered, quantized);
  }
  int of_tables() const { return static_cast<int>(layout_.rotary_tables.size()); }

 private:
  bool has_gate(std::size_t i) const { return rows_ <= around_.gate_rows[i]; }
  bool is_made(std::size_t i) const { return rows_ <= around_.made_rows[i] && !(i > 0 && has_gate(i - 1)); }
  // Which the product makes itself, with something in front of it.
  bool has_norm(std::size_t i) const {
    return i > 1 && is_made(i - 1) && std::holds_alternative<NormOp>(plan_.ops[i - 1].kind);
  }
  int of_attention() const {
    constexpr std::int64_t kLeastSharedBytes = 163 << 10;  // that of the GPUs which are predicted, an A100's
    if (rows_ == 1 && has_step_kernel(cache_layout_of(plan_), kLeastSharedBytes))
      return keys_ > kMergedByStep * kChunkKeys ? 2 : 1;
    return keys_ > kChunkKeys ? 3 : 2;  // store, attend, merge
  }
  int quantizing(const LinearOp& op, bool has_gate, bool can_norm, bool is_normed) const {
    const WeightSpec& weight = plan_.weight(op.weight);
    if (!is_int8(weight.format)) return 0;
    const std::int64_t strips = strips_of(weight.rows) / (has_gate ? 2 : 1);
    if (quantizes_rows_alone(plan_, op)) {
      const bool is_made =
          makes_codes_of_row(rows_, weight.columns, is_normed) || makes_codes(rows_, weight.columns, strips);
      return can_norm && is_made ? 0 : 1;
    }
    return weight.format == formats::kLlmInt8 ? 3 : 2;
  }
  // What rounds, orders or quantizes the inputs of a product.
  int in_front(const LinearOp& op, std::size_t i) const {
    const WeightSpec& weight = plan_.weight(op.weight);
    if (!takes_ordered_inputs(weight)) {
      const bool rounds = rows_ > kFewRows && arithmetic_of(weight) == Arithmetic::tf32;
      return rounds ? 1
                    : quantizing(op, has_gate(i), !has_norm(i) || around_.leaves_moments[i - 2], has_norm(i));
    }
    if (rows_ > kFewRows) return 1;
    const auto& producer = around_.producers[i];
    if (producer && (!producer->is_behind_gate || has_gate(producer->op))) return 0;
    const bool is_normed = norms_ordered_inputs(weight) && has_norm(i) && around_.leaves_moments[i - 2] &&
                           rows_ <= kMaxNormedRows;
    return is_normed ? 0 : 1;
  }

  const Plan& plan_;
  WorkspaceLayout layout_;
  Neighbours around_;
  std::int64_t rows_, keys_;
};

}  // namespace

}  // namespace assay::cuda

namespace assay {

GpuNodes nodes_on_gpu(const Plan& plan, std::int64_t rows, std::int64_t keys) {
  const cuda::NodeCounter counter(plan, rows, keys);
  GpuNodes nodes;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) nodes.of_operations.push_back(counter.of(i));
  nodes.of_operations.push_back(counter.of_head());
  nodes.of_tables = counter.of_tables();
  return nodes;
}

}  // namespace assay
