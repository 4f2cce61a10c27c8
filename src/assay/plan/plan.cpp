#include "assay/plan/plan.h"

#include <algorithm>

#include "assay/plan/liveness.h"

namespace assay {

namespace {

std::size_t last_attention(const std::vector<Op>& ops) {
  for (std::size_t i = ops.size(); i-- > 0;) {
    if (std::holds_alternative<AttentionOp>(ops[i].kind)) return i;
    if (mixes_rows(ops[i])) break;
  }
  return ops.size();
}

// Nothing but queries comes of queries: where some are left out, keys, values and other buffers do not
// change.
bool keeps_queries_apart(const Plan& plan, const Op& op, const AttentionOp& attention) {
  const BufferUse use = buffers_of(op);
  if (std::count(use.reads.begin(), use.reads.end(), attention.qkv) == 0) return true;
  const auto is_other = [&](BufferId id) { return id != attention.qkv; };
  if (std::any_of(use.writes.begin(), use.writes.end(), is_other)) return false;
  const auto* norm = std::get_if<NormOp>(&op.kind);
  if (norm == nullptr) return true;
  const std::int64_t size = plan.weight(norm->gain).columns, queries = attention.k_column();
  return norm->column >= queries || norm->column + norm->groups * size <= queries ||
         (queries - norm->column) % size == 0;
}

std::size_t product_of_queries(const Plan& plan, std::size_t attention) {
  const std::vector<Op>& ops = plan.ops;
  const auto& what = std::get<AttentionOp>(ops[attention].kind);
  for (std::size_t i = attention; i-- > 0;) {
    const auto* linear = std::get_if<LinearOp>(&ops[i].kind);
    if (linear != nullptr && linear->out == what.qkv && linear->out_column == 0)
      return mixes_rows(ops[i]) || linear->adds_to_output ? ops.size() : i;
    if (!keeps_queries_apart(plan, ops[i], what)) break;
  }
  return ops.size();
}

}  // namespace

Pruning pruning_of(const Plan& plan) {
  Pruning pruning{last_attention(plan.ops), plan.ops.size(), {}};
  if (pruning.attention == plan.ops.size()) return pruning;
  pruning.qkv_product = product_of_queries(plan, pruning.attention);
  std::vector<StepUse> steps;
  for (std::size_t i = pruning.attention + 1; i < plan.ops.size(); ++i)
    steps.push_back(use_of(plan, plan.ops[i]));
  pruning.moved = live_before(plan.widths(), steps, {plan.hidden});
  return pruning;
}

std::vector<std::int64_t> Plan::widths() const {
  std::vector<std::int64_t> widths;
  for (const BufferSpec& buffer : buffers) widths.push_back(buffer.columns);
  return widths;
}

std::int64_t Plan::parameters() const {
  std::int64_t sum = 0;
  for (const WeightSpec& weight : weights) sum += weight.elements();
  return sum;
}

Bytes Plan::footprint(std::int64_t bytes) const {
  std::int64_t sum = 0;
  for (const WeightSpec& weight : weights)
    sum += is_grouped(weight.format) ? (weight.elements() * weight.format.bits + 7) / 8
                                     : weight.elements() * (is_int8(weight.format) ? 1 : bytes);
  return {sum};
}

}  // namespace assay
