// Results made by hand.
#pragma once

#include <string>

#include "assay/results/results.h"

namespace assay::test {

inline Row measured_row(Scenario scenario, const std::string& label, double seconds) {
  Row row;
  row.scenario = scenario;
  row.label = label;
  row.parameters = {{"configuration", label}, {"precision", label}, {"kernels", "avx2"}, {"threads", "2"}};
  row.set("total_latency_s", Value{seconds, statistics::Interval{0.99 * seconds, 1.01 * seconds, 0.95},
                                   std::vector<double>(6, seconds), "median"});
  row.set("tokens_per_sec", 50 / seconds);
  return row;
}

inline Row failed_row(Scenario scenario, const std::string& label, const std::string& reason) {
  Row row;
  row.scenario = scenario;
  row.label = label;
  row.status = RowStatus::error;
  row.reason = reason;
  return row;
}

// A trade-off of float32, nf4 and a precision that failed, with a bit of everything else.
inline ResultSet full_results() {
  ResultSet results;
  results.created = "2026-01-31T12:00:00Z";
  results.command = "assay run";
  results.build = {"0.1.0", "g++", "Release"};
  results.machine.cpu = "a CPU";
  results.machine.cpu_features = {"avx2"};
  results.model.id = "demo";
  results.model.dtype = "float32";
  results.model.parameters = 1000;
  results.rows = {measured_row(Scenario::tradeoff, "float32", 0.2),
                  measured_row(Scenario::tradeoff, "nf4", 0.1),
                  failed_row(Scenario::tradeoff, "fp4", "not enough memory")};
  const double megabytes[] = {16, 2.5};
  for (std::size_t i = 0; i < 2; ++i) {
    results.rows[i].set("resident_weights_bytes", megabytes[i] * 1024 * 1024);
    results.rows[i].set("perplexity", i == 0 ? 20.0 : 22.0);
    results.rows[i].warnings = {{WarningKind::drift, "the second half of the runs was slower"}};
  }
  Comparison c;
  c.subject = "nf4";
  c.baseline = "float32";
  c.metric = "total_latency_s";
  c.ratio = 0.5;
  c.interval = statistics::Interval{0.49, 0.51, 0.95};
  c.scenario = Scenario::tradeoff;
  c.verdict = Verdict::lower;
  c.pairs = 15;
  c.processes = 5;
  c.p_value = 0.001;
  c.effect = statistics::Effect{-0.693, 0.01, 4, 5};
  results.comparisons = {c};
  // The best stands against the others.
  c.subject = "float32";
  c.baseline = "nf4";
  c.ratio = 2;
  c.interval = statistics::Interval{1.96, 2.04, 0.95};
  c.verdict = Verdict::higher;
  c.effect->estimate = 0.693;
  results.other_comparisons = {c};
  results.texts = {
      {"float32, prompt 1", "a prompt", " and\ntext", {1, 2}, {3, 4}, Scenario::tradeoff, "float32"},
      {"nf4, prompt 1", "a prompt", " and\ntext", {1, 2}, {3, 4}, Scenario::tradeoff, "nf4"}};
  AuditRow audit;
  audit.configuration = "float32";
  audit.what = "cache off";
  results.audit = {audit};
  results.noise = NoiseEstimate{0.01, 0.02, 0.005, 5, 3, 0.03};
  results.findings = {StatedFinding{"A remark."}};
  results.caption = "How it was done.";
  return results;
}

}  // namespace assay::test
