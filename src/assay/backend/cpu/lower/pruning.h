// Last-token pruning: rows whose hidden states nobody reads are left out from the last attention on (plan.h).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/backend/common/batch.h"
#include "assay/backend/cpu/run/linear.h"

namespace assay::cpu {

class RowPruner {
 public:
  RowPruner(const PackedPlan& packed, Workspace& work);

  // For each sequence of the batch the rows that stay; empty: all do.
  std::vector<RowRange> rows_to_keep(const Batch& batch) const;
  // The last attention, behind which rows go; ops.size() where they never do.
  std::size_t attention() const { return pruning_.attention; }
  // The rows whose queries an operation computes, where leaving out the others saves time.
  std::optional<NarrowPanels> queries_of(std::size_t op, std::span<const RowRange> kept) const;
  // Moves what is read of the rows behind the attention to the beginning of its buffers; how many rows.
  std::int64_t keep(const Batch& batch, std::span<const RowRange> ranges);

  HiddenRows& hidden() { return hidden_; }
  const HiddenRows& hidden() const { return hidden_; }

 private:
  Workspace& work_;
  std::size_t ops_;
  Pruning pruning_;
  std::int64_t query_panels_ =
      0;  // how many of the product's outputs come first; 0: panels hold more than queries
  HiddenRows hidden_;
};

}  // namespace assay::cpu
