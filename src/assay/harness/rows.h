// Turns what a sweep measured into rows, comparisons and audits of a result set.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assay/harness/context.h"
#include "assay/harness/sweep.h"
#include "assay/results/results.h"

namespace assay {

// What a configuration, and a case, ran with.
Setting setting_of(const RunConfig& config, const SessionFacts& facts);
Setting setting_of(const Case& spec, const SessionFacts& facts);

// A row from a case's samples: every metric that follows from them, warnings about the measurement, the
// roofline beside it, and which phase loses most of the time above the roofline.
Row row_of(const CaseResult& result, const ExperimentContext& context);

// The latency of two cases, paired by process and round; nothing where either has failed. It has no verdict
// before judge() has seen it together with the other comparisons of the run.
std::optional<Comparison> compare_cases(const CaseResult& candidate, const CaseResult& baseline,
                                        const ExperimentContext& context);

// Audits of several configurations. One whose audit fails has no rows here; its other rows say why.
std::vector<AuditRow> audit(const ExperimentContext& context, const std::vector<RunConfig>& configurations,
                            const std::vector<Prompt>& prompts, std::int64_t new_tokens);

}  // namespace assay
