// Documents as text: for a terminal, and as Markdown.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "assay/report/document.h"

namespace assay::report {

// Lines of prose are no longer than this: longer ones are hard to read.
inline constexpr std::size_t kWidestProse = 100;

// No line is wider than `width` columns (20 at least). Prose is wrapped, at kWidestProse at most, tables lose
// columns by their rank (table.h), lines are cut; but a word of a command stays whole. Sections without
// anything to show are left out.
std::string to_terminal(const Document& document, std::size_t width);

// GitHub's Markdown; text that would be markup is escaped.
std::string to_markdown(const Document& document);
// The blocks of a section alone, a blank line before each.
std::string markdown_blocks(const Section& section);

// An item of a list around the longest of its list's commands; without one all of it stands before.
struct ItemParts {
  std::string before, command, after;
};
ItemParts parts_of(const std::string& item, const std::vector<std::string>& commands);

// The files that the Markdown refers to, as paths beside it: "plots/latency_by_length.svg", and their
// content.
std::vector<std::pair<std::string, std::string>> pictures_of(const Document& document);

}  // namespace assay::report
