// What a divergence is asked to measure, before it does.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "assay/generate/divergence.h"

namespace assay {

// Sets context, stride and number of tokens of `result`. Throws FieldError for a context or a stride that the
// models do not have, Error for a text of one token or ids that the models do not share.
void check_divergence(const Program& base, std::span<Program* const> candidates, std::span<const TokenId> ids,
                      const DivergenceOptions& options, Divergence& result);

// What is wrong where a logit for token `target` of the text is infinite or not a number.
std::string logits_not_finite(std::int64_t target);

}  // namespace assay
