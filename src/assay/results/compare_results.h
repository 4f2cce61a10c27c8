// Two results of runs that have nothing to do with each other, row by row.
#pragma once

#include <string>
#include <vector>

#include "assay/results/results.h"

namespace assay {

struct ComparedRow {
  std::string scenario, label, configuration;
  Comparison comparison;  // of B's latency against A's; verdict too_few where either has too few samples
  std::string unlike;     // why the two are not alike; empty where they are
};

struct ComparedResults {
  std::vector<std::string> unlike;  // why the runs as wholes are not alike: another model, corpus, machine
  std::vector<ComparedRow> rows;    // of cases in both, in A's order
  std::vector<std::string> only_a, only_b;
};

// Rows are matched by scenario, label and configuration. Runs of different models are refused: Error.
ComparedResults compare_results(const ResultSet& a, const ResultSet& b, double margin);

// "slower:3%", "faster:1%", "worse:0.5%" (perplexity): what makes a comparison fail.
struct FailureRule {
  enum class What { slower, faster, worse } what = What::slower;
  double margin = 0.03;
};
// Throws UsageError.
FailureRule failure_rule(const std::string& text);
// Rows that break it: the test shows a difference in that direction whose interval lies wholly beyond the
// margin.
std::vector<std::string> broken_rows(const ComparedResults& compared, const FailureRule& rule);

}  // namespace assay
