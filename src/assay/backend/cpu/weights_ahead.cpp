#include "assay/backend/cpu/weights_ahead.h"

#include <algorithm>

#include "assay/backend/cpu/linear.h"

namespace assay::cpu {

namespace {

constexpr std::int64_t kMostBytes = std::int64_t{128} << 10;  // an eighth of Zen 4's second-level cache

}  // namespace

WeightsAhead::WeightsAhead(const PackedPlan& packed, ThreadPool& pool)
    : packed_(packed), pool_(pool), next_(packed.weights.size()) {
  // Behind the plan's own weights lie the int8 codes in which candidates of the LM head are found.
  const WeightId lm_head = packed.plan.head.product.weight,
                 head = packed.plan.has_candidate_search ? static_cast<WeightId>(packed.plan.weights.size())
                                                         : lm_head;
  WeightId before = head;
  for (const FusedOp& fused : packed.ops)
    if (const auto* linear = std::get_if<LinearOp>(&fused.op->what)) {
      const std::int64_t panels = packed.weight(linear->weight).panels;
      next_[static_cast<std::size_t>(before)] = {linear->weight, fused.gate == nullptr ? panels : panels / 2};
      before = linear->weight;
    }
  next_[static_cast<std::size_t>(lm_head)] = next_[static_cast<std::size_t>(head)];
  next_[static_cast<std::size_t>(before)] = {head, packed.weight(head).panels};
}

WeightsAhead::~WeightsAhead() {
  for (int worker = 0; worker < pool_.size(); ++worker) pool_.fetch_while_waiting(worker, {});
}

void WeightsAhead::begin(WeightId weight, std::int64_t rows) {
  if (rows > kFewRows) return;
  for (int worker = 0; worker < pool_.size(); ++worker)
    pool_.fetch_while_waiting(worker, behind(weight, worker));
}

std::span<const std::byte> WeightsAhead::behind(WeightId weight, int worker) const {
  const Product& next = next_[static_cast<std::size_t>(weight)];
  const std::int64_t tasks = (next.panels + kFewRowsPanels - 1) / kFewRowsPanels;
  if (worker >= tasks) return {};
  const PackedWeight& w = packed_.weight(next.weight);
  const std::int64_t first = in_regions(worker, tasks, pool_.size()) * kFewRowsPanels,
                     bytes = std::min(kFewRowsPanels, next.panels - first) * w.panel_bytes();
  return {w.data.data() + first * w.panel_bytes(), static_cast<std::size_t>(std::min(bytes, kMostBytes))};
}

}  // namespace assay::cpu
