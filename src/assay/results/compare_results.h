// The results of two runs that were not paired, row by row.
#pragma once

#include <string>
#include <vector>

#include "assay/results/results.h"

namespace assay {

struct ComparedRow {
  Scenario scenario = Scenario::baseline;
  std::string label, configuration;
  Comparison comparison;  // of B's latency against A's; verdict too_few where either has too few samples
  std::string unlike;     // why the two cannot be compared; empty where they can
};

struct ComparedResults {
  std::vector<std::string> unlike;  // why the two runs differ as a whole: processor, version of the program
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
// Throws FieldError.
FailureRule failure_rule(const std::string& text);
// Rows that break it: the test shows a difference in that direction whose interval lies wholly beyond the
// margin.
std::vector<std::string> broken_rows(const ComparedResults& compared, const FailureRule& rule);

}  // namespace assay
