// Checks that settings which must not change a result do not change it: the cache, the batch, the padding.
#pragma once

#include <vector>

#include "assay/results/results.h"
#include "assay/session/load.h"
#include "assay/session/time_generate.h"

namespace assay {

// Generates from each prompt alone with the cache, which is the reference; then without the cache, all
// prompts together, and padded left and right, comparing ids and, as long as those agree, every logit. The
// design promises equal bits, but for
//   llm-int8 with outliers, whose columns are found over all tokens of a call:
//   AuditVerdict::differs_by_definition
//   int8-dynamic with one input scale for all tokens of a call: likewise
//   4-bit weights beside the dtype bfloat16, multiplied with inputs of 8 bits where tokens are one or two:
//   within 10 % of the logits' standard deviation
// Anything else that differs is a fault of mask, position or cache: AuditVerdict::differs.
std::vector<AuditRow> audit_equivalence(const LoadedModel& loaded, const std::vector<Prompt>& prompts,
                                        std::int64_t new_tokens, const ShouldStop& should_stop = {});

}  // namespace assay
