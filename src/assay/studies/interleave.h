// Two builds of the program on the same cases, in turns. On a shared host, runs that are made one after the
// other differ by what the host does meanwhile; processes that take turns share it, and their ratios do not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "assay/harness/context.h"
#include "assay/results/results.h"
#include "assay/session/time_generate.h"

namespace assay {

struct InterleaveOptions {
  std::vector<std::string> precisions = {};                                   // empty: the baseline's
  std::vector<Prompt> prompts{"Once upon a time, in a land far, far away,"};  // a case of each, alone
  std::int64_t new_tokens = 50;
  bool scores_text = true;
  std::optional<std::filesystem::path> corpus = {};  // unset: the text that ships
  // Relative: pairs of processes are added until a difference of latency of this size is found nine in ten
  // times in each case, or there are kMaxPairs, or SweepOptions::max_time_s is over. 0: none are added.
  double detectable = 0;
};
inline constexpr int kMaxPairs = 200;

// A is the program of the context's workers, B the other one: WorkerExperimentOptions::other_program, or
// whatever its sessions make of configurations that are the replica kOtherProgram. Each result has a row for
// every precision and prompt, and for every precision's text; compare_results() compares them pair by pair.
// SweepOptions::processes is the number of pairs that are made first, and of all where it was given. A case
// that fails is a row with its reason. Throws Error and FieldError for what cannot be measured.
struct Interleaved {
  ResultSet a, b;
};
Interleaved run_interleaved(const ExperimentContext& context, const InterleaveOptions& options = {});

// How many pairs to add to those whose log ratios are given, by case and process, so that each case detects a
// difference of `detectable` (relative) at this level; at most to kMaxPairs. 0: they suffice.
int pairs_to_add(const std::vector<std::vector<std::vector<double>>>& log_ratios, double detectable,
                 double level);

}  // namespace assay
