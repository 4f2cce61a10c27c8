// Which weights follow in a step of few rows: threads that wait fetch them meanwhile.
#pragma once

#include <span>
#include <vector>

#include "assay/backend/cpu/lower/packed_plan.h"
#include "assay/base/thread_pool.h"

namespace assay::cpu {

class WeightsAhead {
 public:
  // Both outlive it; `packed` has its weights.
  WeightsAhead(const PackedPlan& packed, ThreadPool& pool);
  ~WeightsAhead();
  WeightsAhead(const WeightsAhead&) = delete;
  WeightsAhead& operator=(const WeightsAhead&) = delete;

  // The matrix multiplication by `weight` begins, for so many rows.
  void begin(WeightId weight, std::int64_t rows);
  // What a worker reads first in the matrix multiplication that follows: the beginning of its region, no more
  // than fits beside other things into its second-level cache. What follows the LM head is the first of the
  // next step.
  std::span<const std::byte> behind(WeightId weight, int worker) const { return *(of(weight) + worker); }

 private:
  struct Product {
    WeightId weight = kNone;
    std::int64_t panels = 0;  // from which tasks are cut: of gated ones half of all
  };

  const std::span<const std::byte>* of(WeightId weight) const {
    return regions_.data() + static_cast<std::size_t>(weight) * static_cast<std::size_t>(pool_.size());
  }
  static std::span<const std::byte> region(const PackedPlan& packed, const Product& next, int worker,
                                           int workers);

  ThreadPool& pool_;
  std::vector<std::span<const std::byte>> regions_;  // for all workers, by the weight before theirs
};

}  // namespace assay::cpu
