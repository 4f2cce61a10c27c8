// Turns what a sweep measured into rows, comparisons and audits of a result set.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assay/harness/context.h"
#include "assay/results/results.h"

namespace assay {

// What a study found out.
struct ExperimentResult {
  std::vector<Row> rows;
  std::vector<Comparison> comparisons;
  std::vector<AuditRow> audit;
  std::vector<GeneratedText> texts;
  std::vector<std::string> remarks;
  std::optional<NoiseMargin> noise;  // of an A/A run
  bool is_interrupted = false;

  void add(ExperimentResult other);
  // The finished row of a label, or null.
  const Row* find(const std::string& label) const;
};

// A row from a case's samples: every metric that follows from them, warnings about the measurement, the
// roofline beside it, and which phase loses most of the time above the roofline.
Row row_of(const CaseResult& result, const ExperimentContext& context);

// The latency of two cases, paired by round; nothing where either has failed. `comparisons`: how many are
// made side by side, for which the level of the interval is corrected.
std::optional<Comparison> compare_cases(const CaseResult& candidate, const CaseResult& baseline,
                                        const ExperimentContext& context, int comparisons = 1);

// Audits of several configurations. One whose audit fails has no rows here; its other rows say why.
std::vector<AuditRow> audit(const ExperimentContext& context, const std::vector<RunConfig>& configurations,
                            const std::vector<Prompt>& prompts, std::int64_t new_tokens);

}  // namespace assay
