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

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view name) {
  if (pattern.find_first_of("*?[") == std::string_view::npos)
    return name.find(pattern) != std::string_view::npos;
  return fnmatch(std::string(pattern).c_str(), std::string(name).c_str(), 0) == 0;
}

void check_patterns(const std::vector<std::string>& patterns, std::string_view field,
                    const std::vector<std::string>& modules) {
  for (const std::string& pattern : patterns) {
    if (pattern.empty() || pattern.size() > kLongestPattern)
      throw FieldError(field, "expected a pattern of 1 to {} characters, found {}", kLongestPattern,
                       pattern.size());
    const bool is_used = std::any_of(modules.begin(), modules.end(), [&](const std::string& module) {
      return matches_pattern(pattern, module);
    });
    if (!is_used)
      throw FieldError(field, "'{}' matches none of the {} modules that can be quantized{}", pattern,
                       modules.size(), modules.empty() ? "" : fmt::format(", such as {}", modules.front()));
  }
}

std::optional<std::string_view> ModuleSelection::why_left_out(std::string_view module) const {
  if (any_matches(exclude, module)) return "matches exclude";
  if (!include.empty() && !any_matches(include, module)) return "matches no pattern of include";
  return std::nullopt;
}

void ModuleSelection::check(const std::vector<std::string>& modules) const {
  check_patterns(include, "include", modules);
  check_patterns(exclude, "exclude", modules);
}

}  // namespace assay
