// What a row of a result was measured for.
#pragma once

#include <span>

#include "assay/results/named.h"

namespace assay {

enum class Scenario {
  baseline,
  noise,
  tradeoff,
  lengths,
  precisions,
  cache,
  padding,
  step_times,
  batches,
  batched_precisions,
  threads,
  perplexity,
  divergence,
  edge_prompts,
  kv_cache,
  bench,
  task,
};
inline constexpr int kScenarios = static_cast<int>(Scenario::task) + 1;

struct ScenarioInfo : Named<Scenario> {
  std::string_view label_head;  // the head of the column that names a row: "Precision"
};
std::span<const ScenarioInfo> scenarios();
const ScenarioInfo& info_of(Scenario scenario);
std::string_view name_of(Scenario scenario);  // in files and on the command line

}  // namespace assay
