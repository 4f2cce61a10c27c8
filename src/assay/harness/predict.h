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

// What a case costs, in seconds, and what it takes; all 0 where it cannot run.
struct CaseCost {
  double load_s = 0;                   // starting a process, loading, quantizing, calibrating
  double prefill_s = 0, decode_s = 0;  // one run's; without a KV cache all of it is prefill
  double head_row_s = 0;               // one more token through the LM head, where many go together
  std::int64_t vocab = 0;              // logits of a token
  double beside_run_s = 0.02;          // a run's, beside both
  std::int64_t longest_prompt = 0;     // in tokens
  double memory_share = 0;             // where 1 is all that may be loaded together
};
// Measured seconds over predicted ones: how far a model on this machine is from the usual.
struct SpeedFactors {
  double load = 1, prefill = 1, decode = 1;
  double beside_run_s = 0.02;  // measuring the roofline, a request and an answer
};
using CostOf = std::function<CaseCost(const Case&)>;
// Asks for the peaks of each arithmetic once. Valid as long as `context` and `source` live.
CostOf cost_predictor(const ExperimentContext& context, const ModelSource& source,
                      const SpeedFactors& factors = {}, const ReachedPeaks& peaks_of = usual_peaks);
// Loads the baseline, again where that is short, runs a short case a few times, and compares the loading and
// the median run with what is predicted. Throws what loading and the case throw.
SpeedFactors measure_factors(const ExperimentContext& context, const ModelSource& source,
                             const ReachedPeaks& peaks_of = usual_peaks);

// Predicts the seconds of one run of a case; 0 where it cannot run. Only the first configuration's peaks are
// asked for, when it is first predicted. Valid as long as `context` and `source` live.
std::function<double(const Case&)> seconds_predictor(const ExperimentContext& context,
                                                     const ModelSource& source,
                                                     const ReachedPeaks& peaks_of = usual_peaks);

}  // namespace assay
