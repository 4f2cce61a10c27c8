// Earlier runs of a project as a document: what each measured, what changed, and how metrics went.
#pragma once

#include <span>
#include <string>

#include "assay/report/document.h"
#include "assay/results/history.h"

namespace assay::report {

// A table of the runs, a table of changes with verdicts, and a plot of each metric over the runs, a line for
// each configuration of each model. `changes` are those of changes_over().
Document history_document(std::span<const RunRecord> runs, std::span<const RunChange> changes,
                          std::span<const std::string> metrics);

// A change in words: "slower 1.03x", "tied", "higher in 2 of 18".
std::string shown_latency_change(const RunChange& change);
std::string shown_change(const RunChange& change, std::string_view metric);

}  // namespace assay::report
