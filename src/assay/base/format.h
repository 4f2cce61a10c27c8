// Text formatting for the whole project: {fmt}, whose implementation base/format.cpp compiles into the
// program.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace assay {

// The text on one line: line breaks and control characters as escapes (\\n, \\x1b). For untrusted names in
// messages.
std::string escape_controls(std::string_view text);

// The name with the smallest edit distance (Levenshtein) to `text`; empty for no names.
std::string_view nearest_name(std::string_view text, const std::vector<std::string>& names);

}  // namespace assay
