// What cases will take before anything is loaded: by the plan, the machine's roofs and what programs like
// this one usually reach of them.
#pragma once

#include <string>
#include <vector>

#include "assay/harness/experiment.h"

namespace assay {

struct PredictedCase {
  Case what;
  double seconds = 0;   // of one run
  Bytes memory;         // weights, activations, keys and values
  std::string why_not;  // it cannot run: "the prompt's 2000 tokens ..."; empty where it can
};
// Measures two roofs of the machine for each configuration, for a tenth of a second.
std::vector<PredictedCase> predict_cases(const ExperimentContext& experiment, const ModelFolder& folder,
                                         const std::vector<Case>& cases);

// Seconds of one run of any case, about: by the roofs of the baseline alone, measured when first asked. 0
// where it cannot run. Valid as long as `experiment` and `folder` live.
std::function<double(const Case&)> seconds_predictor(const ExperimentContext& experiment,
                                                     const ModelFolder& folder);

}  // namespace assay
