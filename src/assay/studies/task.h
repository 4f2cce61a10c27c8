// The task study: how many items of a task each configuration answers rightly, and which it answers otherwise
// than the baseline.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "assay/config/run_config.h"
#include "assay/harness/context.h"
#include "assay/results/results.h"

namespace assay {

struct TaskOptions {
  std::vector<RunConfig> configurations = {};      // the first is what the others are compared with;
  std::vector<std::string> precisions = {};        // empty: made of these, as choose_configurations() does
  std::optional<std::filesystem::path> file = {};  // items, as session/task_items.h has them
  // Of the default precisions one of each kind alone answers: where a run adds a task that nobody asked for.
  bool is_brief = false;
};
// A row per configuration: accuracy with Wilson's interval, accuracy per character and per byte, or the
// perplexities of completions; the answers to all items; and against the first configuration flips, the
// change of accuracy with its interval, and McNemar's p value. Findings say which changes are more than
// chance, corrected for all configurations. Throws Error for a file that cannot be read.
ExperimentResult compare_task(const ExperimentContext& context, const TaskOptions& options);

}  // namespace assay
