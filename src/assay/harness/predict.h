// Predicts time and memory of cases before anything is loaded, from the plan and the machine's roofline.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "assay/harness/case.h"
#include "assay/harness/context.h"
#include "assay/harness/roofline.h"

namespace assay {

struct PredictedCase {
  Case spec;
  double seconds = 0;   // that one run takes
  Bytes memory;         // weights, activations, keys and values
  std::string why_not;  // it cannot run: "the prompt's 2000 tokens ..."; empty where it can
};
// What steps of a plan will reach on the device of a configuration.
using ReachedPeaks =
    std::function<Roofline::Peaks(const Plan&, const Precision&, const RunConfig& configuration)>;
// The share of the measured roofline that steps usually reach: measuring takes about a tenth of a second.
Roofline::Peaks usual_peaks(const Plan& plan, const Precision& precision, const RunConfig& configuration);
Roofline::Peaks usual_share(const Roofline::Peaks& measured);

// Asks for the peaks of each configuration once. `source` is that of the model; of several the context has
// each one's own.
std::vector<PredictedCase> predict_cases(const ExperimentContext& context, const ModelSource& source,
                                         const std::vector<Case>& cases,
                                         const ReachedPeaks& peaks_of = usual_peaks);

// Predicts the seconds of one run of a case; 0 where it cannot run. Only the first configuration's peaks are
// asked for, when it is first predicted. Valid as long as `context` and `source` live.
std::function<double(const Case&)> seconds_predictor(const ExperimentContext& context,
                                                     const ModelSource& source,
                                                     const ReachedPeaks& peaks_of = usual_peaks);

}  // namespace assay
