// Text formatting for the whole project: {fmt}, whose implementation base/format.cpp compiles into the
// program.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace assay {

// The text on one line: line breaks and control characters as escapes (\\n, \\x1b), the C1 controls of UTF-8
// and bytes that are no UTF-8 too (\\xc2\\x9b).
std::string escape_controls(std::string_view text);

// A name or text from a file as it may stand in a message or on a screen: escape_controls of it, and of one
// that would take more than 200 bytes the beginning and the end, with "..." between them.
std::string printable(std::string_view from_file);
// "1 token", "2 tokens".
std::string counted(std::int64_t number, std::string_view what);

// The name with the smallest edit distance (Levenshtein) to `text`; empty for no names.
std::string_view nearest_name(std::string_view text, const std::vector<std::string>& names);

}  // namespace assay
