// The folder of -o, where an earlier run may lie.
#pragma once

#include <filesystem>

namespace assay::cli {

// Moves an earlier run in the folder out of the way (report::keep_earlier_run) and says where to, unless
// quiet.
void keep_earlier_run(const std::filesystem::path& folder, bool is_quiet);

}  // namespace assay::cli
