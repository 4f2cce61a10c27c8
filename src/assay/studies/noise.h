// The A/A run: the baseline against itself, which shows how much equal processes differ on this machine
// today.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assay/harness/context.h"
#include "assay/results/results.h"

namespace assay {

struct NoiseOptions {
  std::int64_t pairs = 20;  // at least, over all processes; 0: no A/A run
};

// Runs the baseline in two sessions side by side, in up to ten visits of three rounds or more, within some
// seconds where five visits fit. Empty where the processes are too few to tell.
std::optional<NoiseEstimate> measure_noise(const ExperimentContext& context, int pairs);

}  // namespace assay
