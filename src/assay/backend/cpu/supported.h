// What the CPU backend runs.
#pragma once

#include "assay/plan/plan.h"

namespace assay::cpu {

// Throws Error for a weight in a format that no kernel serves, naming those that one does, and FieldError or
// Error for arithmetic and caches of GPUs: whoever chooses a precision for a CPU chooses float32 instead.
void check_formats(const Plan& plan);

}  // namespace assay::cpu
