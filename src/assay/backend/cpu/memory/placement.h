// Where packed weights lie on machines of several NUMA nodes: Linux puts a page into the memory of the node
// whose thread touches it first.
#pragma once

#include <span>
#include <vector>

#include "assay/backend/cpu/lower/packed_plan.h"

namespace assay::cpu {

// What a worker reads of a packed matrix that few rows pass (Tasks::run_in_regions): panels, and of 4-bit
// codes their scales. Of a gated matrix a part of each half, of vectors and tables nothing.
std::vector<std::span<std::byte>> read_by(PackedWeight& weight, bool is_gated, int worker, int workers);

// Each worker of the pool touches what it will read, before anything is written there. Vectors and tables are
// left to who writes them.
void touch_by_readers(PackedWeight& weight, bool is_gated, ThreadPool& pool);

}  // namespace assay::cpu
