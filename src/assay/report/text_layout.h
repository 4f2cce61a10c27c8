// How wide text is on a terminal, and how it is cut and wrapped to a width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace assay::report {

// Columns that a terminal needs at most: wide characters count two, combining ones none, an emoji sequence
// the sum of its parts, since terminals differ.
std::size_t display_width(std::string_view text);

// Text that a terminal shows and does not obey: control characters and malformed bytes as escapes (\n, \x1b,
// \xff), characters that change the direction of what follows as U+FFFD.
std::string terminal_text(std::string_view text);

// The same as Markdown shows it: what would be markup is escaped.
std::string markdown_words(std::string_view text);

// At most `width` columns: what is cut off becomes "...". Characters are never split.
std::string cut_to_width(std::string_view text, std::size_t width);

// Lines of at most `width` columns, broken at blanks; a word that is longer is broken where it has to be.
// Every line but the first begins with `indent` blanks.
std::vector<std::string> wrapped(std::string_view text, std::size_t width, std::size_t indent = 0);

// A command on lines that a shell reads as one: broken at blanks outside quotes, each but the last ending in
// a backslash. A word that is longer than the line stays whole.
std::vector<std::string> command_lines(std::string_view command, std::size_t width, std::size_t indent);

}  // namespace assay::report
