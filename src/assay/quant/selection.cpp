#include "assay/quant/selection.h"

#include <fnmatch.h>

#include <algorithm>

#include "assay/base/error.h"

namespace assay {

namespace {

constexpr std::size_t kLongestPattern = 256;

bool any_matches(const std::vector<std::string>& patterns, std::string_view module) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches_pattern(pattern, module); });
}

void check_patterns(const std::vector<std::string>& patterns, std::string_view flag,
                    const std::vector<std::string>& modules) {
  for (const std::string& pattern : patterns) {
    if (pattern.empty() || pattern.size() > kLongestPattern)
      throw UsageError("{}: expected a pattern of 1 to {} characters, found {}", flag, kLongestPattern,
                       pattern.size());
    const bool is_used = std::any_of(modules.begin(), modules.end(), [&](const std::string& module) {
      return matches_pattern(pattern, module);
    });
    if (!is_used)
      throw UsageError("{} '{}': matches none of the {} modules that can be quantized{}", flag, pattern,
                       modules.size(), modules.empty() ? "" : fmt::format(", such as {}", modules.front()));
  }
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view name) {
  if (pattern.find_first_of("*?[") == std::string_view::npos)
    return name.find(pattern) != std::string_view::npos;
  return fnmatch(std::string(pattern).c_str(), std::string(name).c_str(), 0) == 0;
}

std::string_view ModuleSelection::why_left_out(std::string_view module) const {
  if (any_matches(exclude, module)) return "excluded by --exclude";
  if (!include.empty() && !any_matches(include, module)) return "not in --include";
  return "";
}

void ModuleSelection::check(const std::vector<std::string>& modules) const {
  check_patterns(include, "--include", modules);
  check_patterns(exclude, "--exclude", modules);
}

std::string ModuleSelection::text() const {
  std::string text;
  if (!include.empty()) text += fmt::format(" (only {})", fmt::join(include, ", "));
  if (!exclude.empty()) text += fmt::format(" (without {})", fmt::join(exclude, ", "));
  return text;
}

}  // namespace assay
