#include "assay/backend/cpu/run/weights_ahead.h"

#include <algorithm>

#include "assay/backend/cpu/run/linear.h"

namespace assay::cpu {

namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{128} << 10;  // an eighth of Zen 4's second-level cache

}  // namespace

WeightsAhead::WeightsAhead(const PackedPlan& packed, ThreadPool& pool) : pool_(pool) {
  // Behind the plan's own weights lie the int8 codes in which candidates of the LM head are found.
  const WeightId lm_head = packed.plan.head.product.weight,
                 head = packed.plan.has_candidate_search ? static_cast<WeightId>(packed.plan.weights.size())
                                                         : lm_head;
  std::vector<Product> next(packed.weights.size());  // by weight
  WeightId before = head;
  for (const FusedOp& fused : packed.ops)
    if (const auto* linear = std::get_if<LinearOp>(&fused.op->kind)) {
      const std::int64_t panels = packed.weight(linear->weight).panels;
      next[static_cast<std::size_t>(before)] = {linear->weight, fused.gate == nullptr ? panels : panels / 2};
      before = linear->weight;
    }
  next[static_cast<std::size_t>(lm_head)] = next[static_cast<std::size_t>(head)];
  next[static_cast<std::size_t>(before)] = {head, packed.weight(head).panels};
  for (const Product& product : next)
    for (int worker = 0; worker < pool.size(); ++worker)
      regions_.push_back(region(packed, product, worker, pool.size()));
}

WeightsAhead::~WeightsAhead() {
  pool_.fetch_while_waiting(nullptr);
}

void WeightsAhead::begin(WeightId weight, std::int64_t rows) {
  if (rows <= kFewRows) pool_.fetch_while_waiting(of(weight));
}

std::span<const std::byte> WeightsAhead::region(const PackedPlan& packed, const Product& next, int worker,
                                                int workers) {
  const std::int64_t at_once = panels_of_few_rows(next.panels, workers),
                     tasks = (next.panels + at_once - 1) / at_once;
  const TaskRegion own = region_of(worker, tasks, workers);
  if (own.count == 0) return {};
  const PackedWeight& w = packed.weight(next.weight);
  const std::int64_t first = own.first * at_once,
                     bytes = std::min(own.count * at_once, next.panels - first) * w.panel_bytes();
  return {w.data.data() + first * w.panel_bytes(), static_cast<std::size_t>(std::min(bytes, kMaxBytes))};
}

}  // namespace assay::cpu
