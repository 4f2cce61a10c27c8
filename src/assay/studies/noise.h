// The A/A run: the baseline against itself, which shows how small a difference this machine can detect today.
#pragma once

#include <optional>

#include "assay/studies/study.h"

namespace assay {

struct NoiseOptions {
  std::int64_t pairs = 20;  // at least; 0: no A/A run
};

// Runs the baseline in two sessions in turns: `pairs` pairs at least, and up to 60 until some seconds have
// passed. Empty where the pairs are too few to tell.
std::optional<NoiseMargin> measure_noise(const ExperimentContext& context, int pairs);

Study noise_study();

}  // namespace assay
