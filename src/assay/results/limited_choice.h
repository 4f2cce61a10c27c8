// Which configuration to choose under a user's own limits: from finished rows, without a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assay/results/limits.h"
#include "assay/results/results.h"

namespace assay {

struct LimitedChoice {
  // A figure of a row that breaks a limit.
  struct Excess {
    Limit limit;
    double value = 0;
  };
  // A limit without which another configuration would be chosen.
  struct Binding {
    Limit limit;
    std::string without_it;     // the configuration that would be chosen then
    double value = 0;           // its figure of this limit
    double gain = 1;            // its figure of the goal over the chosen one's
    bool is_within_10 = false;  // a bound that is a tenth looser lets it in
  };

  Limits limits;
  Scenario scenario = Scenario::tradeoff;  // whose rows were chosen among
  int candidates = 0;

  // The configuration that meets the goal best among those that certainly keep every limit; empty where none
  // does. Several where the tests do not tell them apart, the best figure first.
  std::vector<std::string> best;
  std::vector<std::string> tied;  // those behind the first that a test, or bytes, show to equal it
  bool is_tested = false;         // each of the others was tested against the first, or bytes decide
  double goal_value = 0;          // the first one's: seconds, bytes, tokens/s
  std::string runner_up;          // the best of those that were shown to be worse
  std::optional<Comparison> runner_up_against_best = {};
  double runner_up_value = 0;
  std::vector<Binding> binding;

  std::vector<std::string> uncertain;  // an interval of theirs contains a bound
  // Where none keeps every limit: the one that comes nearest, by the largest relative excess.
  std::string nearest;
  std::vector<Excess> nearest_excess;
  std::vector<std::string> unmeasured;  // limits on which no candidate has a figure
};

// The goals are measured by the total latency (fastest), the weights (smallest) and the tokens/s of a batch
// (throughput). A figure with an interval keeps a limit where the whole interval does; a bound that is met
// exactly is kept. Configurations are told apart by tests of their own, corrected together (judge.h), of the
// rows' samples. Empty where no row was measured for the goal.
std::optional<LimitedChoice> choose_within(const ResultSet& results, const Limits& limits,
                                           double margin = 0.02);
// The same, for the highest tokens/s among the precisions that ran in batches of one size.
std::optional<LimitedChoice> best_precision_in_batches(const ResultSet& results, const Limits& limits,
                                                       double margin = 0.02);
// What it calls such a row: "batch 8 of nf4".
std::string label_in_batches(const Row& row);

}  // namespace assay
