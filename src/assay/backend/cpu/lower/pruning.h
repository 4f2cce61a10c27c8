// Last-token pruning: rows whose hidden states nobody reads are left out from the last attention on (plan.h).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/backend/cpu/run/linear.h"

namespace assay::cpu {

class RowPruner {
 public:
  RowPruner(const PackedPlan& packed, Workspace& work);

  // Of each sequence of the batch the rows that stay; empty: all do.
  std::vector<RowRange> rows_to_keep(const Batch& batch) const;
  // The last attention, behind which rows go; ops.size() where they never do.
  std::size_t attention() const { return pruning_.attention; }
  // The rows whose queries an operation computes, where leaving out the others saves time.
  std::optional<NarrowPanels> queries_of(std::size_t op, std::span<const RowRange> kept) const;
  // Moves what is read of the rows behind the attention to the beginning of its buffers; how many rows.
  std::int64_t keep(const Batch& batch, std::span<const RowRange> ranges);

  // A new step, of which `rows` have hidden states until some are left out.
  void begin() { hidden_rows_ = 0, keeps_all_ = true; }
  void end(std::int64_t rows) { hidden_rows_ = rows; }
  // Of a row of the batch among the hidden states. Throws Error where it has none.
  std::int64_t place_of(std::int64_t row) const;

 private:
  Workspace& work_;
  std::size_t ops_;
  Pruning pruning_;
  std::int64_t query_panels_ = 0;   // of the product's outputs the first; 0: panels hold more than queries
  std::vector<std::int64_t> kept_;  // rows of the last batch that have hidden states; unless it kept all
  std::int64_t hidden_rows_ = 0;    // of the last batch
  bool keeps_all_ = true;
};

}  // namespace assay::cpu
