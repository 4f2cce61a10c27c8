#include "assay/results/history.h"

#include "assay/base/error.h"

namespace assay {

namespace {

constexpr std::string_view kTimed = "total_latency_s";

std::optional<std::size_t> run_before(std::span<const RunRecord> runs, std::size_t i) {
  for (std::size_t at = i; at-- > 0;)
    if (runs[at].results.model.sha256 == runs[i].results.model.sha256) return at;
  return std::nullopt;
}

}  // namespace

const ComparedRow* RunChange::latency() const {
  for (const ComparedRow& row : compared.all_cases)
    if (row.comparison.metric == kTimed) return &row;
  const ComparedRow* only = nullptr;
  for (const ComparedRow& row : compared.rows) {
    if (row.comparison.metric != kTimed) continue;
    // Where none was tested, the first says why.
    if (only == nullptr || (!only->untested.empty() && row.untested.empty())) only = &row;
  }
  return only;
}

RunChange::Count RunChange::count(std::string_view metric) const {
  Count count;
  for (const ComparedRow& row : compared.rows) {
    if (row.comparison.metric != metric || !row.unlike.empty()) continue;
    ++count.rows;
    if (row.comparison.verdict == Verdict::higher) ++count.higher;
    if (row.comparison.verdict == Verdict::lower) ++count.lower;
  }
  return count;
}

std::vector<RunChange> changes_over(std::span<const RunRecord> runs, double margin) {
  std::vector<RunChange> changes(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    RunChange& change = changes[i];
    change.before = run_before(runs, i);
    if (!change.before) continue;
    try {
      change.compared = compare_results(runs[*change.before].results, runs[i].results, margin);
      if (change.compared.rows.empty() && change.compared.failed.empty())
        change.why_not = "the two runs have no measured case in common";
    } catch (const Error& error) {
      change.why_not = error.what();
    }
  }
  return changes;
}

}  // namespace assay
