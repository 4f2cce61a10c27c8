// Sums over slices of logits: the reference.
#pragma once

#include "assay/backend/head.h"

namespace assay::cpu::scalar {

const LogitReducer* logit_reducer();

}  // namespace assay::cpu::scalar
