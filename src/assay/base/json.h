// JSON from untrusted files: nlohmann/json behind a depth limit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "assay/base/json_view.h"

namespace assay {

// Parses `text`; `where` names the file in errors. Throws Error on bad JSON, nesting beyond 64, duplicate
// keys within one object, or a top level that is not an object.
Json parse_json_object(std::string_view text, const std::string& where);
Json read_json_object(const std::filesystem::path& path, std::uint64_t limit = std::uint64_t{256} << 20);

}  // namespace assay
