// How many tokens of context a model can have in so much memory.
#pragma once

#include <cstdint>

#include "assay/backend/backend.h"
#include "assay/base/units.h"
#include "assay/plan/plan.h"

namespace assay {

struct FittingContext {
  std::int64_t tokens = 0;  // 0: weights and workspace alone take more
  Bytes needed;             // by those tokens, or by weights and workspace where that is too much
};
// One sequence, of at most the model's context, by what the backend predicts of the plan: weights, workspace,
// keys and values. Throws Error for a plan that the backend cannot run.
FittingContext fitting_context(Backend& backend, const Plan& plan, Bytes memory);

}  // namespace assay
