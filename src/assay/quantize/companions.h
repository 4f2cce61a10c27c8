// Files that go with a model's weights into the folder that is written.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "assay/checkpoint/source.h"

namespace assay {

// Copies all that the source names. Returns their names inside the folder. Throws Error.
std::vector<std::string> copy_companions(const ModelSource& source, const std::filesystem::path& folder);

}  // namespace assay
