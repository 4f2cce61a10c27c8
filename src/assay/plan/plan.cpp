#include "assay/plan/plan.h"

#include <algorithm>

namespace assay {

namespace {

std::size_t last_attention(const std::vector<Op>& ops) {
  for (std::size_t i = ops.size(); i-- > 0;) {
    if (std::holds_alternative<AttentionOp>(ops[i].what)) return i;
    if (mixes_rows(ops[i])) break;
  }
  return ops.size();
}

std::size_t product_of_queries(const std::vector<Op>& ops, std::size_t attention) {
  const auto& what = std::get<AttentionOp>(ops[attention].what);
  for (std::size_t i = attention; i-- > 0;) {
    const auto* linear = std::get_if<LinearOp>(&ops[i].what);
    if (linear != nullptr && linear->out == what.qkv && linear->out_column == 0)
      return mixes_rows(ops[i]) ? ops.size() : i;
  }
  return ops.size();
}

}  // namespace

Pruning pruning_of(const Plan& plan) {
  Pruning pruning{last_attention(plan.ops), plan.ops.size(), {}};
  if (pruning.attention == plan.ops.size()) return pruning;
  pruning.qkv_product = product_of_queries(plan.ops, pruning.attention);
  std::vector<bool> is_settled(plan.buffers.size());
  const auto reads = [&](BufferId id) {
    const auto at = static_cast<std::size_t>(id);
    if (!is_settled[at]) pruning.moved.push_back(id);
    is_settled[at] = true;
  };
  for (std::size_t i = pruning.attention + 1; i < plan.ops.size(); ++i) {
    const BufferUse use = buffers_of(plan.ops[i]);
    std::for_each(use.reads.begin(), use.reads.end(), reads);
    for (const BufferId id : use.writes) is_settled[static_cast<std::size_t>(id)] = true;
  }
  reads(plan.hidden);
  return pruning;
}

std::int64_t Plan::parameters() const {
  std::int64_t sum = 0;
  for (const WeightSpec& weight : weights) sum += weight.elements();
  return sum;
}

Bytes Plan::footprint(std::int64_t bytes) const {
  std::int64_t sum = 0;
  for (const WeightSpec& weight : weights)
    sum += is_four_bit(weight.format) ? (weight.elements() + 1) / 2
                                      : weight.elements() * (is_int8(weight.format) ? 1 : bytes);
  return {sum};
}

}  // namespace assay
