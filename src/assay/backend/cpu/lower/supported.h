// Which formats the CPU backend runs.
#pragma once

#include <string_view>

#include "assay/backend/cpu/kernels/kernels.h"
#include "assay/plan/plan.h"

namespace assay::cpu {

// Throws Error for a weight in a format that no kernel serves, naming those that one does, and FieldError or
// Error for arithmetic and caches of GPUs: whoever chooses a precision for a CPU chooses float32 instead.
void check_formats(const Plan& plan);
// Throws FieldError for float32 as a sum of bfloat16 parts, where the kernels, which it names, do not
// multiply these.
void check_planes(const Plan& plan, const KernelTable& table, std::string_view kernels);

}  // namespace assay::cpu
