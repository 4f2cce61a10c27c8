// Files with a JSON object on each line (JSONL).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "assay/base/json_reader.h"

namespace assay {

// Calls `use` with the object on each line that is not blank and the line's number, from 1; the object's
// messages begin with "FILE:LINE". One line is held in memory at a time. Throws Error as parse_ordered_json()
// does, for a line that is no object (it names the example), for malformed UTF-8, and for a file without any.
void for_json_lines(std::string_view content, const std::string& file,
                    const std::function<void(const JsonReader& line, std::int64_t number)>& use,
                    std::string_view example = "{\"text\": ...}");

}  // namespace assay
