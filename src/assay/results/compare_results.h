// The results of two runs, row by row.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "assay/results/quality_gate.h"
#include "assay/results/results.h"

namespace assay {

struct ComparedRow {
  Scenario scenario = Scenario::baseline;
  std::string label, configuration;
  bool is_of_all = false;  // it is that of all cases together
  double a = 0, b = 0;     // the two figures
  Comparison comparison;   // B's figure against A's
  std::string unlike;      // why the two cannot be compared; empty where they can
  std::string untested;    // why there is no test of them, and what to do about it; empty where there is one
  std::string place() const;  // "trade-off, nf4"; "all 4 cases together"
};

struct ComparedResults {
  std::vector<std::string> unlike;  // why the two runs differ as a whole: processor, version of the program
  std::vector<ComparedRow> rows;    // cases in both, in A's order, a row for each metric
  // Of all cases together: their mean ratio, which a change that slows everything down a little shows first.
  std::vector<ComparedRow> all_cases;
  std::vector<QualityRow> quality;  // divergences of B, and accuracies of both, which limits are held against
  std::vector<std::string> only_a, only_b;
  std::vector<std::string> failed;  // measured in A, failed in B: "trade-off | nf4 | nf4: not enough memory"
  bool are_interleaved = false;     // the processes of the two runs took turns
  bool is_same_run = false;         // A and B are one: nothing is tested, and nothing differs
};

// Rows are matched by scenario, label and configuration. Runs of different models are refused: Error.
//   Latency and throughput: a process is one observation, the logarithm of the median of its runs (Kalibera
// and Jones, "Rigorous benchmarking in reasonable time", 2013), and those of two runs are compared by Welch's
// t test, beside the speed of the machine itself (machine_speed.h). Both need kMinProcesses. Of runs whose
// processes took turns, the ratios of the pairs are tested instead, by Student's t: what the host is like at
// a time is in both.
//   Perplexity: block by block over the same tokens, by Student's t test of the differences. Both need the
// losses of the same text under the same protocol.
//   Memory (weights, KV cache and workspace) and size (memory_bytes): exactly, since bytes do not vary.
//   The levels of all tests of one kind of metric are corrected together.
ComparedResults compare_results(const ResultSet& a, const ResultSet& b, double margin);
// A run beside itself, where a user gives one twice: every ratio is 1, and nothing differs.
// Rules of quality that are about B alone are held against it as in a later run.
ComparedResults compare_with_itself(const ResultSet& run, double margin);

// What makes a comparison fail: METRIC:PERCENT, or METRIC:LIMIT of a figure of B alone.
struct FailureRule {
  enum class What { latency, faster, throughput, memory, size, perplexity, accuracy, kl, agreement };
  What what = What::latency;
  double margin = 0.03;  // for kl and agreement, the limit itself
  std::string text;      // as it was given
  bool is_limit() const { return what == What::kl || what == What::agreement; }
};
// "latency:3%" or "slower:3%", "faster:3%", "throughput:3%", "memory:0%", "size:0%", "perplexity:1%" or
// "worse:1%", "accuracy:1%" (percentage points), "kl:0.02" (nats), "agreement:0.98" or "agreement:98%";
// several joined by commas. Throws FieldError.
std::vector<FailureRule> failure_rules(const std::string& text);
// What a rule says of a comparison.
struct RuleOutcome {
  std::vector<ComparedRow> broken;        // that break it
  std::vector<std::string> beyond_limit;  // rows that break a rule of quality, with place and figure
  std::vector<std::string> failed;        // cases that B could not run, which break every rule
  // Limits of quality, of this rule and others, whose verdicts are corrected together; 0 for other rules.
  int limits_judged = 0;
  bool is_broken() const { return !broken.empty() || !beyond_limit.empty() || !failed.empty(); }
  // Relative: differences from here on are found with a chance of 90 %; of bytes 0, since any is.
  double detectable_difference = 0;
};
// A row breaks the rule where its interval excludes 1 and the ratio lies beyond the margin; of bytes the
// ratio alone counts. A case that A measured and B could not breaks every rule. Throws Error where the rule
// judges nothing, where a row that it should judge has no test, and where nothing is broken but a difference
// of kShown margins would have been missed too often: a gate that looks away is none. A difference of all
// cases shows in any of them, or in all together; one of perplexity in its own row alone. A margin of 0 asks
// for what can be found at all. Rules of quality are judged as judge_limits() says; an Error names the first
// row that is undecided, where none breaks the rule.
inline constexpr double kShown = 2;
// The rule at `which`.
RuleOutcome judge_rule(const ComparedResults& compared, std::span<const FailureRule> rules,
                       std::size_t which);
inline RuleOutcome judge_rule(const ComparedResults& compared, const FailureRule& rule) {
  return judge_rule(compared, std::span(&rule, 1), 0);
}
// The same of rows of quality alone, by a rule of quality.
RuleOutcome judge_quality(std::span<const QualityRow> rows, std::span<const FailureRule> rules,
                          std::size_t which);

// Every row beside every rule of quality that is about its figure, corrected together (quality_gate.h).
struct JudgedLimit {
  std::size_t rule = 0;  // its place
  const QualityRow* row = nullptr;
  double p_value = 1;
  int divisor = 1;  // divides the error level
  LimitVerdict verdict = LimitVerdict::undecided;
};
std::vector<JudgedLimit> judge_limits(std::span<const QualityRow> rows, std::span<const FailureRule> rules);

}  // namespace assay
