// JSON files beside the weights, with the bounds that keep one from taking all memory.
#pragma once

#include <filesystem>

#include "assay/base/json_view.h"

namespace assay {

// Throws Error as read_json_object() does, for more than 16 MB before it is read.
Json read_configuration(const std::filesystem::path& path);

}  // namespace assay
