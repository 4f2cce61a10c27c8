// What `assay diverge` prints of its result: a table, verdicts between candidates, tokens in context; or
// JSON.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "assay/results/compare_results.h"
#include "assay/studies/measured_divergence.h"
#include "assay/text/tokenizer.h"

namespace assay::cli {

struct DivergenceView {
  const MeasuredDivergences& found;
  std::vector<DivergencePair> pairs;
  std::vector<FailureRule> rules = {};   // limits of --fail-on
  std::vector<JudgedLimit> limits = {};  // every candidate beside them
  const Tokenizer* tokenizer = nullptr;  // null: tokens are shown as ids
  std::size_t worst = 3;                 // tokens of each candidate that are shown in context

  std::string text(std::size_t width) const;
  // How it was measured, and warnings.
  std::vector<std::string> notes() const;
  nlohmann::ordered_json json() const;
};

}  // namespace assay::cli
