// Which modules of a model are quantized: patterns of their names, as users type them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// A pattern with one of * ? [ is a shell's, of the whole name ("*.mlp.c_proj", "transformer.h.[01].*"); any
// other matches wherever it occurs in the name ("h.0.", "c_attn").
bool matches_pattern(std::string_view pattern, std::string_view name);

// Throws FieldError naming `field` for an empty or absurdly long pattern, and for one that matches none of
// the modules.
void check_patterns(const std::vector<std::string>& patterns, std::string_view field,
                    const std::vector<std::string>& modules);

struct ModuleSelection {
  std::vector<std::string> include;  // only modules that match one of them; empty: all
  std::vector<std::string> exclude;  // and none of these

  bool operator==(const ModuleSelection&) const = default;
  bool is_empty() const { return include.empty() && exclude.empty(); }
  // Why a module is left out: "matches no pattern of include", "matches exclude"; none where it is not.
  std::optional<std::string_view> why_left_out(std::string_view module) const;
  bool selects(std::string_view module) const { return !why_left_out(module); }
  // As check_patterns() does.
  void check(const std::vector<std::string>& modules) const;
};

}  // namespace assay
