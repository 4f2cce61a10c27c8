// What the studies of batches share.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/harness/case.h"
#include "assay/harness/context.h"

namespace assay {

// A case of the baseline with the prompts, or those that ship, in batches of a size, cut to their number.
Case batched_case(const ExperimentContext& context, const std::vector<Prompt>& asked, std::int64_t wanted,
                  std::int64_t new_tokens);

}  // namespace assay
