// Where a folder may be written.
#pragma once

#include <filesystem>

#include "assay/checkpoint/source.h"

namespace assay {

// Only what looks like a model is replaced, and never the one that is read. Throws Error and UsageError.
void check_folder_target(const std::filesystem::path& out, const ModelSource& source, bool replaces);

}  // namespace assay
