// Predicts time and memory of cases before anything is loaded, from the plan and the machine's roofline.
#pragma once

#include <string>
#include <vector>

#include "assay/harness/case.h"
#include "assay/harness/context.h"

namespace assay {

struct PredictedCase {
  Case what;
  double seconds = 0;   // of one run
  Bytes memory;         // weights, activations, keys and values
  std::string why_not;  // it cannot run: "the prompt's 2000 tokens ..."; empty where it can
};
// Measures the roofline for each configuration, which takes about a tenth of a second each.
std::vector<PredictedCase> predict_cases(const ExperimentContext& context, const ModelFolder& folder,
                                         const std::vector<Case>& cases);

// Predicts the seconds of one run of a case; 0 where it cannot run. Only the first configuration's roofline
// is measured, when it is first asked for. Valid as long as `context` and `folder` live.
std::function<double(const Case&)> seconds_predictor(const ExperimentContext& context,
                                                     const ModelFolder& folder);

}  // namespace assay
