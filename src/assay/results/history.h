// Runs in the order of time, each against the one before it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assay/results/compare_results.h"

namespace assay {

struct RunRecord {
  std::string path;
  ResultSet results;
};

// How a run differs from the latest earlier one of the same model.
struct RunChange {
  std::optional<std::size_t> before;  // its index; none: it is the first of its model
  ComparedResults compared;           // A is the earlier run
  std::string why_not;                // why the two cannot be compared; empty where they can

  // That of all cases together, or of the only one; null where nothing was timed in both.
  const ComparedRow* latency() const;
  // The rows of a metric in both runs, and those of them whose figure is shown to be higher or lower.
  struct Count {
    int rows = 0, higher = 0, lower = 0;
  };
  Count count(std::string_view metric) const;
};

// One for each run. Levels are corrected within a pair of runs, not over the history.
std::vector<RunChange> changes_over(std::span<const RunRecord> runs, double margin);

}  // namespace assay
