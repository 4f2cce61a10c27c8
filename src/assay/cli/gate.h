// How a comparison of two runs is answered, and what --fail-on makes of it.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include "assay/results/compare_results.h"

namespace assay::cli {

struct GateFlags {
  std::string fail_on;
  double margin_percent = 2;

  void add_to(CLI::App& app);
  std::vector<FailureRule> rules() const;  // none without --fail-on; throws FieldError
  double margin() const;                   // throws UsageError
};

// How many verdicts on limits of quality are corrected together, in words.
std::string limits_note(std::size_t limits);

// Prints the comparison and what the rules say of it; `json` is what the JSON document holds before. Gives
// the exit code: 4 where a rule is broken. Throws Error where a rule cannot be judged, once all is printed.
int answer_comparison(const ComparedResults& compared, const std::vector<FailureRule>& rules, bool is_json,
                      nlohmann::ordered_json json);

}  // namespace assay::cli
