// Comparisons of every pair of configurations, for a reader who chooses the baseline.
#pragma once

#include <vector>

#include "assay/results/results.h"

namespace assay {

// The latency of each row of a scenario against each other one's, a comparison for each pair whose samples
// were taken in the same rounds: the later row is the subject. They are judged as one family, since a reader
// may look at all of them, with the margin of the run's own comparisons, without estimates of what more
// processes would show. Empty where the run has none.
std::vector<Comparison> compare_every_pair(const ResultSet& results, Scenario scenario);

// The same comparison with subject and baseline exchanged.
Comparison exchanged(const Comparison& comparison);

}  // namespace assay
