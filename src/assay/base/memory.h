// How much memory this process can still have, so that what cannot be is refused before it is tried.
#pragma once

#include <string_view>

#include "assay/base/units.h"

namespace assay {

// What the system and the control groups of this process leave it, page cache that can be dropped included;
// zero where nobody says.
Bytes available_memory();

// What it could have if nothing else ran: the machine's, or what its control group allows where that is less;
// zero where neither is known.
Bytes total_memory();

// Throws Error "not enough memory for PURPOSE: N MiB needed, M MiB available" where that is known to be so.
void require_memory(Bytes needed, std::string_view purpose);

}  // namespace assay
