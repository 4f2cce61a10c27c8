// Comparisons made by hand.
#pragma once

#include <optional>
#include <string>

#include "assay/results/verdict.h"

namespace assay::test {

// What a made comparison says of itself; a test names what it is about.
struct ComparisonParts {
  Scenario scenario = Scenario::baseline;
  std::string metric = "total_latency_s";
  std::optional<statistics::Interval> interval = {};
  double margin = 0;
  int processes = 0;
};

inline Comparison comparison_of(const std::string& subject, const std::string& baseline, double ratio,
                                Verdict verdict, const ComparisonParts& parts = {}) {
  Comparison c;
  c.scenario = parts.scenario;
  c.subject = subject;
  c.baseline = baseline;
  c.metric = parts.metric;
  c.ratio = ratio;
  c.interval = parts.interval;
  c.margin = parts.margin;
  c.verdict = verdict;
  c.processes = parts.processes;
  return c;
}

}  // namespace assay::test
