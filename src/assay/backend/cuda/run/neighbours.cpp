#include "assay/backend/cuda/run/neighbours.h"

#include <algorithm>
#include <functional>

#include "assay/backend/common/fusing.h"
#include "assay/backend/cuda/lower/pack.h"

namespace assay::cuda {

namespace {

using SharesMemory = std::function<bool(BufferId, BufferId)>;

const LinearOp* product_at(const Plan& plan, std::size_t i) {
  return i < plan.ops.size() ? std::get_if<LinearOp>(&plan.ops[i].kind) : nullptr;
}
bool is_ordered(const Plan& plan, const LinearOp* product) {
  return product != nullptr && takes_ordered_inputs(plan.weight(product->weight));
}
bool is_of_codes(const Plan& plan, const LinearOp* product) {
  return product != nullptr && is_int8(plan.weight(product->weight).format);
}
// Whether kernels of few rows leave moments of what they compute.
bool can_leave_moments(const Plan& plan, const LinearOp* product) {
  return is_ordered(plan, product) || is_of_codes(plan, product);
}
// Whether they norm what they multiply, by moments that are there.
bool can_norm(const Plan& plan, const LinearOp* product) {
  return is_ordered(plan, product) || (product != nullptr && quantizes_rows_alone(plan, *product));
}
std::int64_t columns_of(const Plan& plan, BufferId id) {
  return plan.buffers[static_cast<std::size_t>(id)].columns;
}
bool fills(const Plan& plan, const LinearOp& product) {
  return product.out_column == 0 && plan.weight(product.weight).rows == columns_of(plan, product.out);
}

std::vector<std::int64_t> made_rows_of(const Plan& plan, const SharesMemory& share_memory) {
  const std::vector<bool> are = prologues_of_products(plan, share_memory);
  std::vector<std::int64_t> rows(are.size());
  for (std::size_t i = 0; i + 1 < are.size(); ++i)
    if (are[i]) {
      const LinearOp* product = product_at(plan, i + 1);
      rows[i] = is_ordered(plan, product)    ? kMaxOrderedPrologueRows
                : is_of_codes(plan, product) ? kFewInt8Rows
                                             : kMaxPrologueRows;
    }
  return rows;
}

// What a product with its gate reads while it writes: its inputs, or those of the norm that it makes.
std::vector<std::int64_t> gate_rows_of(const Plan& plan, const std::vector<std::int64_t>& made_rows,
                                       const SharesMemory& share_memory) {
  const std::vector<bool> have = products_with_gates(plan, kStrip);
  std::vector<std::int64_t> rows(plan.ops.size());
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const LinearOp* product = product_at(plan, i);
    if (!have[i] || !(is_ordered(plan, product) || is_of_codes(plan, product))) continue;
    const BufferId out = std::get<GatedOp>(plan.ops[i + 1].kind).out;
    const bool is_made = i > 0 && made_rows[i - 1] > 0;
    const BufferId in = is_made ? buffers_of(plan.ops[i - 1]).reads.front() : product->in;
    if (columns_of(plan, out) * 2 == plan.weight(product->weight).rows && !share_memory(in, out))
      rows[i] = is_ordered(plan, product) ? kFewRows : kFewGatedInt8Rows;
  }
  return rows;
}

bool leaves_ordered(const Plan& plan, const Op& op, BufferId id, std::int64_t columns) {
  if (columns_of(plan, id) != columns) return false;
  if (const auto* attention = std::get_if<AttentionOp>(&op.kind))
    return attention->out == id && attention->head_dim <= kMaxOrderedHeadDim;
  const auto* linear = std::get_if<LinearOp>(&op.kind);
  return linear != nullptr && linear->out == id && !linear->adds_to_output && fills(plan, *linear);
}

void find_producers(const Plan& plan, Neighbours& found) {
  found.producers.resize(plan.ops.size());
  for (std::size_t i = 1; i < plan.ops.size(); ++i) {
    const LinearOp* product = product_at(plan, i);
    if (!is_ordered(plan, product)) continue;
    const std::int64_t columns = plan.weight(product->weight).columns;
    if (columns % 64 != 0) continue;
    if (!found.producers[i - 1] && leaves_ordered(plan, plan.ops[i - 1], product->in, columns))
      found.producers[i] = {.op = i - 1};
    if (i < 2 || found.gate_rows[i - 2] == 0 || found.producers[i - 2]) continue;
    const BufferId gated = std::get<GatedOp>(plan.ops[i - 1].kind).out;
    if (product->in == gated && columns_of(plan, gated) == columns)
      found.producers[i] = {.op = i - 2, .is_behind_gate = true};
  }
}

void find_moments(const Plan& plan, Neighbours& found) {
  found.leaves_moments.resize(plan.ops.size());
  const auto is_normed_behind = [&](std::size_t i, BufferId out) {
    const auto* norm = i + 2 < plan.ops.size() ? std::get_if<NormOp>(&plan.ops[i + 1].kind) : nullptr;
    return norm != nullptr && norm->in == out && found.made_rows[i + 1] > 0 &&
           can_norm(plan, product_at(plan, i + 2));
  };
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    if (const auto* embed = std::get_if<EmbedOp>(&plan.ops[i].kind); embed != nullptr && i == 0)
      found.leaves_moments[i] = is_normed_behind(i, embed->out);
    const LinearOp* product = product_at(plan, i);
    if (!can_leave_moments(plan, product) || found.gate_rows[i] > 0 || !fills(plan, *product)) continue;
    if (i > 1 && found.leaves_moments[i - 2]) continue;  // it reads those, which lie in the same place
    if (i + 1 == plan.ops.size()) {
      found.leaves_moments[i] =
          product->out == plan.hidden && plan.head.norm && can_norm(plan, &plan.head.product);
      continue;
    }
    found.leaves_moments[i] = is_normed_behind(i, product->out);
  }
}

void find_early_starts(const Plan& plan, Neighbours& found) {
  found.lets_next_start.resize(plan.ops.size());
  bool is_behind_attention = false;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    found.lets_next_start[i] = is_behind_attention && product_at(plan, i) != nullptr;
    is_behind_attention = is_behind_attention || std::holds_alternative<AttentionOp>(plan.ops[i].kind);
  }
}

// The operations in front, back to one that launches a kernel whatever is fused, write elsewhere; and that
// one waits for those in front of it before this one starts.
void find_early_sums(const Plan& plan, const SharesMemory& share_memory, Neighbours& found) {
  found.adds_early.resize(plan.ops.size());
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const LinearOp* product = product_at(plan, i);
    if (product == nullptr || !product->adds_to_output) continue;
    for (std::size_t j = i; j-- > 0;) {
      const Op& op = plan.ops[j];
      const auto& writes = buffers_of(op).writes;
      if (std::any_of(writes.begin(), writes.end(),
                      [&](BufferId id) { return share_memory(id, product->out); }))
        break;
      if (!std::holds_alternative<LinearOp>(op.kind) && !std::holds_alternative<AttentionOp>(op.kind))
        continue;
      found.adds_early[i] = !found.lets_next_start[j];
      break;
    }
  }
}

}  // namespace

Neighbours neighbours_of(const Plan& plan, const WorkspaceLayout& layout) {
  const auto share_memory = [&](BufferId a, BufferId b) {
    const auto& x = layout.buffers[static_cast<std::size_t>(a)];
    const auto& y = layout.buffers[static_cast<std::size_t>(b)];
    return x.at < y.at + kMaxRows * y.stride * 4 && y.at < x.at + kMaxRows * x.stride * 4;
  };
  Neighbours found;
  found.made_rows = made_rows_of(plan, share_memory);
  found.gate_rows = gate_rows_of(plan, found.made_rows, share_memory);
  find_producers(plan, found);
  find_moments(plan, found);
  find_early_starts(plan, found);
  find_early_sums(plan, share_memory, found);
  return found;
}

}  // namespace assay::cuda
