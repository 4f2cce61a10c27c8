// Exchanging one weight of a loaded program for another format of it.
#pragma once

#include "assay/plan/plan.h"

namespace assay {

// `own` with the weight as `other` has it, a plan of the same model: its format, and how the operations that
// multiply by it treat their inputs. Throws Error where the plans differ in more than formats, or where the
// weight is no matrix or is kept a second time, for a candidate search.
Plan exchanged_plan(const Plan& own, WeightId weight, const Plan& other);

}  // namespace assay
