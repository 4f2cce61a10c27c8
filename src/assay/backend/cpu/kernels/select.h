// Chooses the kernels: scalar first, then each usable tier replaces what it improves.
#pragma once

#include "assay/backend/cpu/kernels/kernels.h"
#include "assay/base/cpu.h"

namespace assay::cpu {

// Throws UsageError when the tier cannot run on this machine. Products of bytes (VNNI) are used where the
// processor has them, unless `allows_vnni` is false.
KernelTable select_kernels(Isa isa, bool allows_vnni = true);

}  // namespace assay::cpu
