// JSON files beside the weights, with the bounds that keep one from taking all memory.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "assay/base/json_view.h"

namespace assay {

// Throws Error as read_json_object() does, for more than 16 MB before it is read.
Json read_configuration(const std::filesystem::path& path);
// The text of such a file; `where` names it in messages.
Json parse_configuration(std::string_view text, const std::string& where);

}  // namespace assay
